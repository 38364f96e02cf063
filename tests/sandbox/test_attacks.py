"""Hostile programs at every level that there is here: none escapes, and each is reported as what it is."""

from __future__ import annotations

import os

import pytest

from tests.sandbox.attacks import ATTACKS, BENIGN, LIMITS, Attack

REACHING = [attack for attack in ATTACKS if any(word in attack.program for word in ("TARGET", "VICTIM", "PARENT"))]
KINDS = {  # what is attempted with each, so that what an older kernel lacks is made up for by the rest
    ("bubblewrap", None): ATTACKS,
    ("landlock", None): ATTACKS,
    ("landlock", 5): REACHING,  # which keeps no signals
    ("landlock", 4): REACHING,
}
CASES = [(kind, attack) for kind, attacks in KINDS.items() for attack in attacks]
BY_NAME = {attack.name: attack for attack in ATTACKS}
OPEN = (  # what nothing refuses at level 1: so these do try what they say
    "reading a file",
    "writing to a file",
    "cutting a file short",
    "deletion",
    "deletion of home",
    "renaming",
    "symlink",
    "hard link",
    "up and out",
    "links in /proc",
    "accounts",
    "listing",
    "writing where programs are",
    "a parent's command",
    "killing by what owns a pipe",
    "loopback",
    "out",
    "serving",
    "a unix socket",
    "a datagram from a pair",
    "shells",
    "left in /dev/shm",
)


@pytest.mark.rotates(4)
@pytest.mark.parametrize(("kind", "attack"), CASES, ids=[f"{k[0]}-{k[1]}-{a.name}" for k, a in CASES])
def test_nothing_escapes(kind, attack, box, outside):
    ran, reached = outside.attacked(box(*kind), attack)
    assert not reached
    assert ran.outcome in attack.outcome.split(), ran
    assert attack.says in f"{ran.why} {ran.stdout}"
    assert len(ran.stdout) + len(ran.stderr) <= attack.limits.output + 1


@pytest.mark.rotates(4)
@pytest.mark.parametrize("name", OPEN)
def test_what_is_attempted_succeeds_where_nothing_confines(name, box, outside):
    _, reached = outside.attacked(box("none"), BY_NAME[name])
    assert reached


@pytest.mark.parametrize("kind", ["bubblewrap", "landlock"])
def test_harmless_programs_run(kind, box):
    for name, program in BENIGN.items():
        ran = box(kind).run(program, LIMITS)
        assert ran.passed, (name, ran)


def test_pools_of_processes_run_where_memory_is_shared_within(box):
    pool = "from multiprocessing import Pool\nwith Pool(2) as p:\n    assert p.map(abs, [-1, -2]) == [1, 2]"
    assert box("bubblewrap").run(pool, LIMITS).passed


@pytest.mark.parametrize("kind", ["bubblewrap", "landlock"])
def test_nothing_is_left(kind, box):
    """Of a program that leaves what it can: files of any mode, deep and with odd names, pipes, processes."""
    home = box(kind)._home.name
    program = (
        "import os, time\nos.mkfifo('pipe')\nos.symlink('/etc', 'link')\nos.mkdir('closed')\n"
        "open('closed/' + chr(10) + chr(233), 'w').write('x')\nos.mkdir('closed/none', 0)\n"
        "for _ in range(20):\n    os.mkdir('deeper', 0o300)\n    os.chdir('deeper')\n"
        "for _ in range(3):\n    if not os.fork():\n        os.setsid()\n        time.sleep(600)\n"
    )
    assert box(kind).run(program, LIMITS).outcome in ("passed", "disk")  # only root counts what a closed directory has
    assert os.listdir(home) == []


def test_an_attack_that_succeeds_is_seen(box, outside):
    """The tests themselves: a program that does reach a file is told from one that does not."""
    assert outside.attacked(box("none"), Attack("", "open('TARGET', 'w').write('theirs')", ""))[1] == ["a file"]
    assert outside.attacked(box("none"), Attack("", "print('ESCAPED')", ""))[1]
    assert outside.attacked(box("none"), Attack("", "print('nothing')", ""))[1] == []
