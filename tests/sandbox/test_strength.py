"""Which level there is, how that is found, and what is said where there is none."""

from __future__ import annotations

import json
import os
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

import unmask
from tests.needs import needs, unmet
from unmask.core.errors import UnmaskError
from unmask.sandbox import Limits, Sandbox, interpreter, levels, strength
from unmask.sandbox.jail import seccomp, watch

TESTS = Path(__file__).resolve().parents[1]


def test_levels_are_said_with_their_reasons(monkeypatch):
    monkeypatch.setenv("PATH", "/nowhere")  # no bwrap
    found = {one.means: one for one in levels()}
    assert [one.level for one in found.values()] == [3, 2, 1]
    assert all(one.works != bool(one.why) for one in found.values())
    assert found["bubblewrap"].why == "bubblewrap: bwrap is not installed"
    assert found["none"].works


def test_the_strongest_tells_what_was_attempted(strongest):
    report = strongest.report()
    assert report["level"] in (2, 3)
    assert set(report["self_test"].values()) == {"refused"}
    assert len(report["self_test"]) == 17
    assert json.loads(json.dumps(report)) == report


def test_without_confinement_nothing_runs_unless_that_is_allowed(monkeypatch, box):
    """Every attempt is seen to succeed where nothing refuses: so the test that chooses a level can fail."""
    monkeypatch.setattr("unmask.sandbox.box.LEVELS", {"none": 1})
    with pytest.raises(UnmaskError, match=r'no sandbox works here: .*and allow "unconfined"'):
        Sandbox.strongest()
    with Sandbox.strongest("unconfined") as open_one:
        answers = open_one.report()["self_test"]
    kept = {"use memory beyond the limit", "write beyond the limit", "start processes beyond the limit"}
    kept |= {"use our descriptors", "read our environment"}
    kept |= {"end a process", "change a mode"} if os.geteuid() == 0 else set()  # a stranger's
    assert {name for name, answer in answers.items() if answer == "refused"} == kept | (
        {"make a namespace"} & {name for name, answer in answers.items() if answer == "refused"}
    )


@pytest.mark.parametrize(
    ("taken", "let"),
    [
        ("landlock", r"read a file, write to a file, make a file, list a directory"),
        ("seccomp", r"connect, send a datagram, connect to a path"),
    ],
)
def test_a_piece_taken_away_is_found(taken, let, monkeypatch):
    """Level 2 without Landlock, or without its filter, does not pass the test of itself."""
    source = (
        f"import sys; sys.path.insert(0, {str(Path(strength.__file__).parent)!r}); from jail import keeper, {taken}; "
    )
    source += f"{taken}.restrict = lambda *a: None; keeper.main()"
    monkeypatch.setattr("unmask.sandbox.keepers.PROGRAM", source)
    try:
        made = Sandbox("landlock")
    except UnmaskError as error:
        unmet("landlock", error)
    if taken == "seccomp":
        let = r"send a datagram, connect to a path" if made.abi >= 4 else let
    with pytest.raises(UnmaskError, match=f"a program could .*{let}"):
        made.passing()


def test_what_cannot_be_confined_is_not_run(monkeypatch, tmp_path):
    source = (
        f"import sys; sys.path.insert(0, {str(Path(strength.__file__).parent)!r}); from jail import keeper, landlock\n"
    )
    source += "def fail(*a): raise OSError(1, 'not here')\nlandlock.restrict = fail; keeper.main()"
    monkeypatch.setattr("unmask.sandbox.keepers.PROGRAM", source)
    try:
        made = Sandbox("landlock")
    except UnmaskError as error:
        unmet("landlock", error)
    with made, pytest.raises(UnmaskError, match=r"Landlock.*: PermissionError: .*not here"):
        made.run(f"open({str(tmp_path / 'ran')!r}, 'w')")
    assert not (tmp_path / "ran").exists()


def test_elsewhere_and_on_old_kernels_it_is_refused_in_one_line(monkeypatch):
    with pytest.raises(UnmaskError, match=r"landlock: the ABI of this kernel is 3; expected at least 4 \(Linux 6.7\)"):
        Sandbox("landlock", 3)
    monkeypatch.setattr(sys, "platform", "darwin")
    with pytest.raises(UnmaskError, match=r"no sandbox for darwin\. Run code in a Linux container"):
        Sandbox.strongest()


@pytest.mark.parametrize("wrong", [{"wall": 0}, {"memory": -1}, {"processes": 1.5}, {"output": True}, {"cpu": "1"}])
def test_limits_are_positive_numbers(wrong):
    with pytest.raises(UnmaskError, match=f"limit {next(iter(wrong))} is .*; expected a positive number"):
        Limits(**wrong)


def test_an_entry_point_is_a_name(strongest):
    with pytest.raises(UnmaskError, match="entry point is 'f; g'; expected the name"):
        strongest.check("", "", "f; g")


CONTAINER = """
from unmask.sandbox.jail import seccomp
seccomp.REFUSED = {name: seccomp.REFUSED[name] for name in ("unshare", "mount", "pivot_root", "setns")}
seccomp.restrict(seccomp.machine(), None)
import json
from unmask.sandbox import Sandbox
with Sandbox.strongest() as box:
    ran = box.check("def f(): return 1", "assert f() == 1")
print(json.dumps([box.level, ran.outcome]))
"""


def test_in_a_container_that_makes_no_namespaces_it_is_level_2(box):
    """As plain Docker has it: calls that make namespaces are refused to us, root or not."""
    box("landlock")
    if seccomp.machine() is None:
        unmet("seccomp", "no filter of system calls for this machine")
    environment = os.environ | {"PYTHONPATH": str(Path(unmask.__file__).parents[1])}
    ran = subprocess.run([sys.executable, "-c", CONTAINER], env=environment, capture_output=True, text=True)
    assert ran.stdout, ran.stderr
    assert json.loads(ran.stdout) == [2, "passed"]


def test_a_program_is_given_its_input_and_a_clean_world(strongest):
    program = "import os, sys\nprint(input())\nprint(sorted(os.environ), os.listdir('.'), sys.argv, sys.path[-1][-11:])"
    ran = strongest.run(program, stdin="caf\u00e9\n")
    assert ran.stdout.splitlines()[0] == "caf\u00e9"
    names = re.findall(r"'(\w+)'", ran.stdout.splitlines()[1].partition("]")[0])
    assert set(names) <= {"HOME", "TMPDIR", "PATH", "LANG", "PYTHONHASHSEED", "PWD", "LC_CTYPE", "LD_LIBRARY_PATH"}
    assert "['program.py'] ['program.py'] lib-dynload" in ran.stdout


def test_a_keeper_that_is_killed_is_replaced(strongest):
    assert strongest.run("1").passed
    keepers = [strongest._idle.get() for _ in range(strongest._idle.qsize())]
    keepers[0].process.kill()
    keepers[0].process.wait()
    for keeper in keepers:  # the first is taken first
        strongest._idle.put(keeper)
    with pytest.raises(UnmaskError, match="was ended from outside"):
        strongest.run("1")
    assert strongest.run("1").passed


@pytest.mark.parametrize("kind", ["bubblewrap", "landlock"])
def test_whoever_is_killed_leaves_no_program(kind, box):
    """kill -9 of the one that runs a program: its keeper, the program and its daemon end."""
    box(kind)
    program = "import os, time\nif not os.fork(): os.setsid()\nprint(1)\ntime.sleep(600)"
    source = (
        f"from unmask.sandbox import Sandbox\nwith Sandbox({kind!r}) as b: print(1, flush=True); b.run({program!r})"
    )
    with tempfile.TemporaryDirectory(prefix="unmask-killed-") as directory:
        os.chmod(directory, 0o711)  # strangers pass through it
        environment = os.environ | {"TMPDIR": directory}
        with subprocess.Popen([sys.executable, "-c", source], stdout=subprocess.PIPE, env=environment) as ours:
            assert ours.stdout
            ours.stdout.readline()
            least = 3 + (2 if kind != "landlock" else 0)  # keeper, program, daemon
            end = time.monotonic() + 300
            while len(running := watch.below(ours.pid)) < least and time.monotonic() < end:
                time.sleep(0.05)
            assert len(running) >= least
            ours.kill()
        while any(map(alive, running)) and time.monotonic() < end:
            time.sleep(0.05)
        assert not any(map(alive, running))


def alive(process: int) -> bool:
    try:
        return not re.search(r"\) [ZX] ", Path(f"/proc/{process}/stat").read_text())
    except OSError:
        return False


def test_an_interrupt_ends_what_runs(box, monkeypatch):
    made = box("landlock")
    monkeypatch.setattr("unmask.sandbox.keepers.select.poll", lambda: (_ for _ in ()).throw(KeyboardInterrupt))
    before = set(watch.below(os.getpid()))
    with pytest.raises(KeyboardInterrupt):
        made.run("import time\ntime.sleep(600)")
    assert set(watch.below(os.getpid())) <= before


@pytest.mark.long
@needs("root")
def test_an_ordinary_user_has_it_too(box):
    """A user who cannot become another: bubblewrap, and Landlock among processes of one's own."""
    copy = interpreter.copied()
    with tempfile.TemporaryDirectory(prefix="unmask-ordinary-") as directory:
        house = Path(unmask.__file__).parent
        for room in ("core", "sandbox"):
            shutil.copytree(house / room, f"{directory}/unmask/{room}", ignore=shutil.ignore_patterns("__pycache__"))
        shutil.copy(house / "__init__.py", f"{directory}/unmask")
        shutil.copy(TESTS / "sandbox" / "ordinary.py", directory)
        shutil.copy(TESTS / "sandbox" / "attacks.py", directory)
        subprocess.run(["chmod", "-R", "a+rX", directory], check=True)
        environment = {"LD_LIBRARY_PATH": copy.library or "", "PATH": os.environ["PATH"], "PYTHONPATH": directory}
        ran = subprocess.run(
            [copy.python, "-B", f"{directory}/ordinary.py"],
            env=environment,
            cwd="/",
            capture_output=True,
            text=True,
            user=65534,
            group=65534,
            extra_groups=[],
        )
    assert ran.stdout, ran.stderr
    for kind, (why, wrong) in json.loads(ran.stdout).items():
        assert why == ("" if _works(box, kind) else why), kind
        assert wrong == []


def _works(box, kind: str) -> bool:
    """Whether root can do it here; where root cannot, nobody can."""
    try:
        box(*json.loads(kind))
    except pytest.skip.Exception:
        return False
    return True


@pytest.mark.parametrize("machine", list(seccomp.ARCHITECTURES))
@pytest.mark.parametrize("own", [None, 4242])
def test_the_filter_says_what_its_table_says(machine, own):
    """The filter, run by hand: every number of the table, on either machine."""
    column = list(seccomp.ARCHITECTURES).index(machine)
    code = list(struct.iter_unpack("=HBBI", seccomp.program(machine, own)))

    def answer(number: int, *arguments: int, machine: int = seccomp.ARCHITECTURES[machine]) -> int:
        data = struct.pack("=IIQ6Q", number, machine, 0, *(list(arguments) + [0] * 6)[:6])
        place = held = 0
        while True:
            what, yes, no, constant = code[place]
            place += 1
            if what == seccomp.LOAD:
                held = struct.unpack_from("=I", data, constant)[0]
            elif what == seccomp.AND:
                held &= constant
            elif what == seccomp.RETURN:
                return constant
            else:
                true = {
                    seccomp.EQUAL: held == constant,
                    seccomp.ATLEAST: held >= constant,
                    seccomp.ANY: bool(held & constant),
                }[what]
                place += yes if true else no

    for numbers in seccomp.REFUSED.values():
        if numbers[column] is not None:
            assert answer(numbers[column]) == seccomp.PERMISSION
    for numbers in seccomp.SIGNALS.values():
        assert (answer(numbers[column]) == seccomp.PERMISSION) == (own is not None)
    allowed = {"x86_64": (0, 1, 9, 12, 39, 57, 59, 60, 202, 257), "aarch64": (56, 57, 63, 64, 93, 98, 221, 222)}[
        machine
    ]
    assert all(answer(number) == seccomp.ALLOW for number in allowed)
    assert answer(1, machine=0x40000003) == seccomp.KILLED
    assert {answer(number) for number in (463, 1000, 0x40000001, seccomp.CLONE3[column])} == {seccomp.UNKNOWN}
    assert {answer(seccomp.MMAP[column], 0, 9, 3, flags) for flags in (0x21, 0x23, 0x40021)} == {seccomp.PERMISSION}
    assert {answer(seccomp.MMAP[column], 0, 9, 3, flags) for flags in (1, 2, 0x22)} == {seccomp.ALLOW}
    assert answer(seccomp.PRCTL[column], 4) == seccomp.PERMISSION
    assert answer(seccomp.PRCTL[column], 15) == seccomp.ALLOW
    assert answer(seccomp.CLOSE_RANGE[column], 3, 9, 2) == seccomp.PERMISSION
    assert answer(seccomp.CLOSE_RANGE[column], 3, 9, 4) == seccomp.ALLOW
    assert answer(seccomp.FCNTL[column], 1, 1031) == seccomp.PERMISSION
    pair, clone = seccomp.SOCKETPAIR[column], seccomp.CLONE[column]
    assert answer(pair, 1, 1) == answer(pair, 1, 1 | 0o2000000) == seccomp.ALLOW
    assert {answer(pair, 1, 2), answer(pair, 2, 1), answer(pair, 1, 5)} == {seccomp.PERMISSION}
    assert answer(clone, 0x01200011) == answer(clone, 0x3D0F00) == seccomp.ALLOW
    assert {answer(clone, 1 << bit) for bit in (25, 26, 27, 28, 29, 30, 17)} == {seccomp.PERMISSION}
    assert answer(clone, 0x10900) == seccomp.PERMISSION  # a thread with descriptors of its own
    assert answer(seccomp.PRLIMIT[column], 0) == seccomp.ALLOW
    assert answer(seccomp.PRLIMIT[column], 4242) == seccomp.PERMISSION
    assert answer(seccomp.IOCTL[column], 1, 0x5401) == seccomp.ALLOW
    assert answer(seccomp.IOCTL[column], 1, 0x5412) == seccomp.PERMISSION  # TIOCSTI
    assert answer(seccomp.FCNTL[column], 1, 8) == seccomp.PERMISSION
    assert answer(seccomp.FCNTL[column], 1, 3) == seccomp.ALLOW
    for target, free in ((4242, True), (0, True), (2**32 - 4242, True), (1, False), (2**32 - 1, False), (4243, False)):
        wanted = seccomp.ALLOW if free or own is None else seccomp.PERMISSION
        assert answer(seccomp.KILL[column], target) == wanted
