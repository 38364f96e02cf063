"""Kills, full disks and bad cells: the store stays whole, no finished cell is lost, and the records are the same."""

from __future__ import annotations

import fcntl
import os
import random
import re
import resource
import signal
import subprocess
import sys
import time
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from tests.experiments.sweeps.conftest import ROOT, SQUARE, Bench
from tests.needs import needs, unmet
from unmask.core.errors import UnmaskError
from unmask.experiments import pool, sweep
from unmask.experiments.run import resume
from unmask.experiments.store import LOCK, holder
from unmask.experiments.tables import status

SPOILED = "tests.experiments.sweeps.trivial:spoiled"
TOTAL = "tests.experiments.sweeps.trivial:total"
CELLS = 400
LONG = {"jobs": [SQUARE], "grid": {"x": list(range(CELLS))}, "fixed": {"seconds": 0.01}}


def children_of(driver: subprocess.Popen[str]) -> list[int]:
    """Its children in /proc."""
    found = []
    for entry in os.listdir("/proc"):
        with suppress(OSError, ValueError):
            stat = Path(f"/proc/{int(entry)}/stat").read_text().rpartition(")")[2].split()
            if int(stat[1]) == driver.pid:
                found.append(int(entry))
    return found


def gone(pids: list[int], patience: float = 60.0) -> bool:
    """Whether processes end by themselves."""
    end = time.monotonic() + patience
    while time.monotonic() < end:
        if not any(alive(pid) for pid in pids):
            return True
        time.sleep(0.01)
    return False


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def until(condition, patience: float = 120.0) -> None:
    end = time.monotonic() + patience
    while not condition():
        assert time.monotonic() < end, "it did not come about in time"
        time.sleep(0.005)


@pytest.mark.long
@needs("linux")
@pytest.mark.parametrize("kills", [8, pytest.param(30, marks=pytest.mark.long)])
def test_kills_in_a_row(bench: Bench, undisturbed, monkeypatch, kills):
    """Of a worker, the driver, or both: no finished cell is lost, and the records are the same."""
    expected = undisturbed(LONG)
    monkeypatch.setenv("TRIVIAL_LOG", str(bench.log))
    rng = random.Random(7)
    bench.hold(CELLS - 50)
    driver = bench.drive(LONG, attempts=100)
    for kill in range(kills):
        begun = sum(bench.measured().values())
        until(lambda begun=begun, driver=driver: sum(bench.measured().values()) > begun or driver.poll() is not None)
        time.sleep(rng.random() * 0.05)
        assert driver.poll() is None, "the sweep was over too soon"
        victim = ("worker", "driver", "both")[kill % 3]
        workers = children_of(driver)
        if victim != "driver" and workers:
            os.kill(rng.choice(workers), signal.SIGKILL)
        if victim != "worker":
            driver.kill()
            driver.communicate()
            bench.kills += 1
            assert gone(workers), "a worker has outlived its driver"
            store = bench.content
            before = {
                line: bench.measured()[line] for line in (f"{store.cells[key].values['x']} 0" for key in store.done)
            }
            assert bench.whole()
            driver = bench.drive(LONG, attempts=100)
    bench.release()
    assert driver.wait(120) == 0
    driver.communicate()
    measured = bench.measured()
    assert {line: measured[line] for line in before} == before  # what was done is not measured again
    again = measured.total() - CELLS
    print(f"{kills} kills, {CELLS} cells, {again} measured again")
    assert again <= kills * 2
    assert bench.whole()
    assert len(measured) == len(expected)
    assert bench.records() == expected


@pytest.mark.long
@needs("linux")
def test_all_workers_at_once(bench: Bench, undisturbed, monkeypatch):
    """With whatever else the driver has started: nothing but its own words are on its stderr."""
    expected = undisturbed(LONG)
    monkeypatch.setenv("TRIVIAL_LOG", str(bench.log))
    bench.hold(CELLS - 50)
    driver = bench.drive(LONG, attempts=100)
    for _ in range(4):
        begun = sum(bench.measured().values())
        until(lambda begun=begun: sum(bench.measured().values()) > begun + 3)
        for child in children_of(driver):
            os.kill(child, signal.SIGKILL)
    bench.release()
    _, words = driver.communicate(timeout=120)
    assert (driver.returncode, words) == (0, "")
    assert bench.records() == expected


@pytest.mark.long
def test_a_finished_cell_is_never_measured_again(bench: Bench):
    recipe = {"jobs": [SQUARE], "grid": {"x": [1, 2, 3]}}
    bench.sweep(recipe)
    bench.sweep(recipe)
    found = bench.sweep(recipe, x=[0, 1, 2, 3, 4], seeds=2)
    assert set(bench.measured().values()) == {1}
    assert len(bench.measured()) == 10
    assert len(found.keys) == 10


@pytest.mark.long
@pytest.mark.parametrize(
    ("how", "said", "attempts", "limit"),
    [
        ("raise", "ValueError: three is not a number (trivial.py, line ", 1, None),
        ("memory", "out of memory: ask for fewer rows", 1, None),
        ("kill", "killed (SIGKILL), most often because memory ran out", 2, None),
        ("exit", "ended with exit code 7; see workers.log", 2, None),
        ("hang", "it took more than the limit of 4 s and was stopped", 1, 4.0),  # which the other cells must keep
        ("nan", "Out of range float", 1, None),
    ],
)
def test_a_bad_cell_stops_no_other(bench: Bench, how, said, attempts, limit):
    recipe = {"jobs": [SPOILED], "grid": {"x": list(range(8))}, "fixed": {"how": how}}
    found = bench.sweep(recipe, limit=limit, attempts=2)
    state = found.status()
    assert (state["done"], state["failed"]) == (7, 1)
    failure = state["failures"][0]
    assert said in failure["error"]
    assert failure["attempts"] == attempts
    assert failure["cell"]["x"] == 3
    assert bench.whole()
    bench.sweep(recipe, limit=limit, attempts=2)
    assert bench.measured()["3 0"] == attempts  # what has failed is tried again only where it is asked for
    resume(bench.store, again=True, limit=limit, attempts=2, allow_imports=["tests.experiments.sweeps.trivial"])
    assert bench.measured()["3 0"] == 2 * attempts
    assert all(times == 1 for line, times in bench.measured().items() if line != "3 0")


@pytest.mark.long
def test_blocks_resume_and_merge(bench: Bench, undisturbed, monkeypatch):
    recipe = {"jobs": [TOTAL], "rows": 50, "fixed": {"seconds": 0.05}}
    expected = undisturbed(recipe)
    monkeypatch.setenv("TRIVIAL_LOG", str(bench.log))
    driver = bench.drive(recipe)
    until(lambda: len(bench.measured()) >= 6)
    driver.kill()
    driver.communicate()
    assert sum(map(len, bench.content.blocks.values())) >= 2
    bench.sweep(recipe)
    assert sum(bench.measured().values()) <= 13 + 2  # thirteen blocks, two of which were running
    assert bench.records() == expected


@pytest.mark.long
def test_more_rows_keep_the_blocks_that_exist(bench: Bench, undisturbed, monkeypatch):
    """Fewer rows, too; what comes out is what a store without a past has."""
    recipe = {"jobs": [TOTAL], "rows": 50}
    expected = {rows: undisturbed(recipe | {"rows": rows}) for rows in (24, 50, 90)}
    monkeypatch.setenv("TRIVIAL_LOG", str(bench.log))
    for rows, blocks in ((50, 13), (90, 13 + 11), (24, 13 + 11)):  # 50 rows end within a block of four
        bench.sweep(recipe | {"rows": rows})
        assert len(bench.measured()) == blocks
    assert set(bench.measured().values()) == {1}
    assert bench.records() == sorted(record for own in expected.values() for record in own)


@pytest.mark.long
def test_the_second_driver_is_refused_and_a_killed_one_is_noticed(bench: Bench, capsys):
    recipe = LONG | {"fixed": {"seconds": 0.1}}
    driver = bench.drive(recipe)
    until(lambda: len(bench.measured()) >= 3)
    holds = rf"is in use by process {driver.pid} on \S+ since \d+-\d+-\d+ \d+:\d+:\d+"
    with pytest.raises(UnmaskError, match=holds):
        bench.sweep(recipe)
    state = status(bench.store)
    assert state["driver"]["pid"] == driver.pid
    assert state["running"] == 2
    driver.kill()
    driver.communicate()
    bench.kills += 1
    state = status(bench.store)
    assert (state["driver"], state["running"]) == (None, 0)
    assert sum(state[name] for name in ("done", "todo")) == CELLS
    bench.sweep(recipe | {"grid": {"x": [1000]}})
    note = capsys.readouterr().err
    assert re.search(rf"process {driver.pid} on .* was killed; unfinished cells are measured again", note)
    assert (bench.store / LOCK).read_text() == ""


def test_a_lock_without_a_readable_name_is_a_lock(bench: Bench):
    bench.sweep({"jobs": [SQUARE], "grid": {"x": [1]}})
    for content in (b'{"pid": "x"}', b'{"pid": 3}', b"\xff\xfe", b"[" * 4096, b"{}"):
        (bench.store / LOCK).write_bytes(content)
        with open(bench.store / LOCK) as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            with pytest.raises(UnmaskError, match=r"is in use by (another process|process 3 on  since )"):
                bench.sweep({"jobs": [SQUARE], "grid": {"x": [2]}})
            assert holder(bench.store)[1]
        assert status(bench.store)["driver"] is None


@contextmanager
def room(bytes: int):
    """Files of this process cannot grow beyond this size."""
    usual = resource.getrlimit(resource.RLIMIT_FSIZE)
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (bytes, usual[1]))
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, usual)
        signal.signal(signal.SIGXFSZ, before)


@pytest.mark.long
def test_no_space_left(bench: Bench, undisturbed, monkeypatch):
    recipe = {"jobs": [SQUARE], "grid": {"x": list(range(300))}}
    expected = undisturbed(recipe)
    monkeypatch.setenv("TRIVIAL_LOG", str(bench.log))
    for _ in range(2):
        with room(130_000), pytest.raises(UnmaskError, match=r"cannot write the store .* is there space left\?"):
            bench.sweep(recipe)
        assert bench.whole()
        assert 0 < len(bench.content.done) < 300
    begun, done = sum(bench.measured().values()), len(bench.content.done)
    bench.sweep(recipe)
    assert bench.records() == expected
    assert sum(bench.measured().values()) == begun + 300 - done


@pytest.mark.long
def test_a_full_disk_damages_nothing(undisturbed, tmp_path):
    """A file system of 256 kB: the error is the same each time, and after it has grown the sweep goes on."""
    recipe = {"jobs": [SQUARE], "grid": {"x": list(range(1500))}}
    disk = tmp_path / "disk"
    disk.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=256k", "none", disk], capture_output=True).returncode:
        unmet("root", "a file system can be mounted by root alone")
    bench = Bench(disk)
    try:
        for _ in range(2):
            with pytest.raises(UnmaskError, match=r"No space left on device; is there space left\?.* sweep resume"):
                bench.sweep(recipe, engine="here", workers=None)
            assert bench.whole()
        subprocess.run(["mount", "-o", "remount,size=4M", disk], check=True)
        bench.sweep(recipe, engine="here", workers=None)
        assert bench.records() == undisturbed(recipe)
    finally:
        subprocess.run(["umount", disk], check=True)


@pytest.mark.parametrize("size", [0, 1, 100, 400])
def test_a_store_that_was_first_made_on_a_full_disk(bench: Bench, size):
    """It is no store, and becomes one once there is space; at every size at which the making may end."""
    recipe = {"jobs": [SQUARE], "grid": {"x": [1]}}
    with room(size), pytest.raises(UnmaskError, match="cannot write the store"):
        bench.sweep(recipe, engine="here", workers=None)
    with pytest.raises(UnmaskError, match="there is no sweep in"):
        status(bench.store)
    assert len(bench.sweep(recipe, engine="here", workers=None).rows()) == 2


@pytest.mark.long
@pytest.mark.parametrize("times", [1, 2])
def test_ctrl_c(bench: Bench, undisturbed, monkeypatch, times):
    recipe = LONG | {"grid": {"x": list(range(12))}}
    expected = undisturbed(recipe) if times == 1 else None
    monkeypatch.setenv("TRIVIAL_LOG", str(bench.log))
    bench.hold(4)
    driver = bench.drive(recipe)
    until(lambda: sum(bench.measured().values()) >= 5)
    driver.send_signal(signal.SIGINT)
    said = driver.stderr.readline()
    assert "stopping after the running cells; press Ctrl-C again" in said
    if times == 1:
        bench.release()
    else:
        driver.send_signal(signal.SIGINT)
    _, rest = driver.communicate(timeout=120)
    said += rest
    assert driver.returncode != 0
    assert f"KeyboardInterrupt: {bench.store} has the finished cells; the same command continues there" in said
    store = bench.content
    assert len(store.todo) + len(store.done) == 12
    begun = sum(bench.measured().values())
    if times == 1:
        assert len(store.done) == begun < 12  # what had been begun is done
        bench.sweep(recipe)
        assert set(bench.measured().values()) == {1}
        assert bench.records() == expected
    else:
        assert len(store.done) < begun  # it has waited for none
    assert bench.whole()
    assert (bench.store / LOCK).read_text() == ""  # nobody has been killed


def test_workers_that_cannot_start(bench: Bench, monkeypatch):
    monkeypatch.setattr(pool, "variables", lambda threads: {"PYTHONPATH": "", "PYTHONHOME": "nowhere"})
    with pytest.raises(UnmaskError, match="the first 3 workers ended without an answer"):
        bench.sweep({"jobs": [SQUARE], "grid": {"x": [1]}}, attempts=9)
    assert status(bench.store)["todo"] == 1


@pytest.mark.long
def test_a_script_needs_no_guard(bench: Bench):
    """Workers do not import the program that starts them, and its variables are as before."""
    script = bench.directory / "script.py"
    script.write_text(
        "import os, sys\nsys.path.insert(0, sys.argv[2])\nfrom unmask import sweep\n"
        f"before = dict(os.environ)\nsweep({{'name': 't', 'jobs': ['{SQUARE}'], 'grid': {{'x': [1, 2]}}}}, "
        "store=sys.argv[1], workers=2)\nassert dict(os.environ) == before\nprint('once')\n"
    )
    done = subprocess.run([sys.executable, script, bench.store, ROOT], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "once\n"), done.stderr
    assert len(bench.records()) == 2


@pytest.mark.parametrize("option", [{"attempts": 0}, {"workers": 0}, {"limit": -1}, {"engine": "locl"}])
def test_limits_that_make_no_sense_are_refused(tmp_path, option):
    with pytest.raises(UnmaskError, match=next(iter(option))):
        sweep({"jobs": [SQUARE], "grid": {"x": [1]}}, store=tmp_path / "s", **option)


@pytest.mark.long
@needs("linux")
@pytest.mark.parametrize("how", [signal.SIGHUP, signal.SIGTERM, signal.SIGKILL])
def test_workers_end_with_their_driver_also_when_they_are_stopped(bench: Bench, how):
    """With all that their jobs have started."""
    if signal.getsignal(how) is signal.SIG_IGN:
        unmet("signals", "this signal is ignored here, as under nohup")
    recipe = {"jobs": ["tests.experiments.sweeps.nasty:does", SQUARE], "grid": {"x": [3, *range(4, 40)]}}
    driver = bench.drive(recipe | {"fixed": {"how": "fork", "seconds": 0.5}})
    until(lambda: len(bench.measured()) >= 3 and any(line.startswith("child") for line in bench.measured()))
    children = [int(line.split()[1]) for line in bench.measured() if line.startswith("child")]
    workers = children_of(driver)
    os.kill(workers[0], signal.SIGSTOP)
    time.sleep(0.05)
    driver.send_signal(how)
    driver.communicate(timeout=120)
    bench.kills += 1
    assert len(workers) == 2
    assert gone([*workers, *children])
    assert bench.whole()
