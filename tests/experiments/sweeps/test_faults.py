"""Kills, full disks and bad cells: the store stays whole, no finished cell is lost, and the records are the same."""

from __future__ import annotations

import fcntl
import os
import random
import re
import resource
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing, suppress
from pathlib import Path

import pytest

from tests.experiments.sweeps import nasty
from tests.experiments.sweeps.conftest import ROOT, SQUARE, Bench
from tests.needs import needs
from unmask.core.errors import UnmaskError
from unmask.experiments.sweeps import pools, sweep
from unmask.experiments.sweeps.database import FILE, LOCK, holder
from unmask.experiments.sweeps.pools import LOG
from unmask.experiments.sweeps.run import resume
from unmask.experiments.sweeps.status import status
from unmask.experiments.sweeps.store import Store
from unmask.tasks.evaluation.run import plan
from unmask.tasks.evaluation.settings import Settings

SPOILED = "tests.experiments.sweeps.trivial:spoiled"
TOTAL = "tests.experiments.sweeps.trivial:total"
CELLS = 400
LONG = {"jobs": [SQUARE], "grid": {"x": list(range(CELLS))}, "fixed": {"seconds": 0.01}}
BATCH = 5  # the most of these cells that are started together: they last 0.05 s


def workers_of(driver: subprocess.Popen[str]) -> list[int]:
    """Its children in /proc that lead a session, as a worker does."""
    found = []
    for entry in os.listdir("/proc"):
        with suppress(OSError, ValueError):
            stat = Path(f"/proc/{int(entry)}/stat").read_text().rpartition(")")[2].split()
            if int(stat[1]) == driver.pid and stat[3] == entry:
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


@pytest.mark.rotates(3)
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
        workers = workers_of(driver)
        if victim != "driver" and workers:
            os.kill(rng.choice(workers), signal.SIGKILL)
        if victim != "worker":
            driver.kill()
            driver.communicate()
            assert gone(workers), "a worker has outlived its driver"
            done = bench.ask("select json_extract(spec, '$.x') || ' 0' from cell where state = 'done'")
            before = {line: bench.measured()[line] for (line,) in done}
            assert bench.whole()
            driver = bench.drive(LONG, attempts=100)
    bench.release()
    assert driver.wait(120) == 0
    driver.communicate()
    measured = bench.measured()
    assert {line: measured[line] for line in before} == before  # what was done is not measured again
    again = measured.total() - CELLS
    print(f"{kills} kills, {CELLS} cells, {again} measured again")
    assert again <= kills * 2 * BATCH
    assert bench.whole()
    assert len(measured) == len(expected)
    assert bench.records() == expected


def test_a_finished_cell_is_never_measured_again(bench: Bench):
    recipe = {"jobs": [SQUARE], "grid": {"x": [1, 2, 3]}}
    bench.sweep(recipe)
    bench.sweep(recipe)
    found = bench.sweep(recipe, x=[0, 1, 2, 3, 4], seeds=2)
    assert set(bench.measured().values()) == {1}
    assert len(bench.measured()) == 10
    assert len(found.keys) == 10


@pytest.mark.rotates(4)
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


@pytest.mark.rotates(3)
def test_blocks_resume_and_merge(bench: Bench, undisturbed, monkeypatch):
    recipe = {"jobs": [TOTAL], "rows": 50, "fixed": {"seconds": 0.05}}
    expected = undisturbed(recipe)
    monkeypatch.setenv("TRIVIAL_LOG", str(bench.log))
    driver = bench.drive(recipe)
    until(lambda: len(bench.measured()) >= 6)
    driver.kill()
    driver.communicate()
    kept = bench.ask("select count(*) from block")[0][0]
    assert kept >= 2
    bench.sweep(recipe)
    assert sum(bench.measured().values()) <= 13 + 2  # thirteen blocks, two of which were running
    assert bench.records() == expected
    assert bench.ask("select count(*) from block") == [(0,)]


def test_the_second_driver_is_refused_and_a_killed_one_is_noticed(bench: Bench, capsys):
    recipe = LONG | {"fixed": {"seconds": 0.1}}
    driver = bench.drive(recipe)
    until(lambda: len(bench.measured()) >= 3)
    holds = rf"is in use by process {driver.pid} on \S+ since \d+-\d+-\d+ \d+:\d+:\d+"
    with pytest.raises(UnmaskError, match=holds):
        bench.sweep(recipe)
    state = status(bench.store)
    assert state["driver"]["pid"] == driver.pid
    assert (1 <= state["running"] <= 4, state["interrupted"]) == (True, 0)
    driver.kill()
    driver.communicate()
    assert holder(bench.store) is None
    state = status(bench.store)
    assert (state["driver"], state["running"]) == (None, 0)
    assert 1 <= state["interrupted"] <= 4
    assert sum(state[name] for name in ("done", "interrupted", "todo")) == CELLS
    bench.sweep(recipe | {"grid": {"x": [1000]}})
    note = capsys.readouterr().err
    assert re.search(rf"process {driver.pid} on .* was killed; unfinished cells are measured again", note)
    assert (bench.store / LOCK).read_text() == ""


def test_a_lock_without_a_readable_name_is_a_lock(bench: Bench):
    bench.sweep({"jobs": [SQUARE], "grid": {"x": [1]}})
    for content in (b'{"pid": "x"}', b'{"pid": 3}', b"\xff\xfe", b"[" * 4096, b'{"pid": 1, "host": 1, "since": 1e300}'):
        (bench.store / LOCK).write_bytes(content)
        with open(bench.store / LOCK) as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            with pytest.raises(UnmaskError, match=r"is in use by (another process|process 1)"):
                bench.sweep({"jobs": [SQUARE], "grid": {"x": [2]}})
        assert status(bench.store)["driver"] is None


def test_no_space_left(bench: Bench, undisturbed, monkeypatch):
    recipe = {"jobs": [SQUARE], "grid": {"x": list(range(300))}}
    expected = undisturbed(recipe)
    monkeypatch.setenv("TRIVIAL_LOG", str(bench.log))
    usual = resource.getrlimit(resource.RLIMIT_FSIZE)
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, usual[1]))
        with pytest.raises(UnmaskError, match=r"cannot write the store .* is there space left\?"):
            bench.sweep(recipe)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, usual)
        signal.signal(signal.SIGXFSZ, before)
    assert bench.whole()
    done = bench.ask("select count(*) from cell where state = 'done'")[0][0]
    assert 0 < done < 300
    before_again = sum(bench.measured().values())
    bench.sweep(recipe)
    assert bench.records() == expected
    assert sum(bench.measured().values()) == before_again + 300 - done


@pytest.mark.parametrize("command", ["sweep", "plan of an evaluation"])
def test_a_store_that_was_first_made_on_a_full_disk(bench: Bench, command):
    """It is no store, and becomes one once there is space; at every size at which the making may end."""
    recipe = {"jobs": [SQUARE], "grid": {"x": [1]}}
    usual = resource.getrlimit(resource.RLIMIT_FSIZE)
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    refused = 0
    for size in (0, 1, 4096, 5000, 8192, 12_000, 16_384, 20_000, 30_000):
        shutil.rmtree(bench.store, ignore_errors=True)
        try:
            resource.setrlimit(resource.RLIMIT_FSIZE, (size, usual[1]))
            with suppress(UnmaskError):
                bench.sweep(recipe, engine="here", workers=None)
                continue
            refused += 1
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, usual)
        if command == "sweep":
            assert len(bench.sweep(recipe, engine="here", workers=None).rows()) == 2
        else:
            found = Store.find(bench.store)
            assert found is None or found.keys() == []
            settings = Settings(task="sums", model="m")
            assert len(plan([settings], bench.store, 3).parts) == 1
    signal.signal(signal.SIGXFSZ, before)
    assert refused >= 3


@pytest.mark.parametrize(("version", "age"), [(3, "an older version of unmask; choose"), (99, "a newer version of")])
def test_a_store_of_a_different_version_is_not_touched(bench: Bench, version, age):
    recipe = {"jobs": [SQUARE], "grid": {"x": [1, 2]}}
    bench.sweep(recipe)
    with closing(sqlite3.connect(bench.store / FILE)) as connection:
        connection.execute(f"pragma user_version = {version}")
    (bench.store / LOG).unlink()

    def seen():
        return {entry.name: (entry.read_bytes(), entry.stat().st_mtime_ns) for entry in bench.store.iterdir()}

    before = seen()
    for call in (lambda: bench.sweep(recipe), lambda: status(bench.store), lambda: resume(bench.store)):
        with pytest.raises(UnmaskError, match=rf"is from {age}.* another store$"):
            call()
    assert seen() == before


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
    states = dict(bench.ask("select state, count(*) from cell group by state"))
    assert bench.ask("select running from run") == [(0,)]
    assert states["todo"] + states["done"] == 12
    begun = sum(bench.measured().values())
    if times == 1:
        assert states["done"] == begun < 12  # what had been begun is done
        bench.sweep(recipe)
        assert set(bench.measured().values()) == {1}
        assert bench.records() == expected
    else:
        assert states["done"] < begun  # it has waited for none
    assert bench.whole()
    assert (bench.store / LOCK).read_text() == ""  # nobody has been killed


def test_workers_that_cannot_start(bench: Bench, monkeypatch):
    monkeypatch.setattr(pools, "_prepare", nasty.end)
    with pytest.raises(UnmaskError, match="3 workers in a row ended before their first block"):
        bench.sweep({"jobs": [SQUARE], "grid": {"x": [1]}})
    assert status(bench.store)["todo"] == 1


def test_a_script_needs_no_guard(bench: Bench):
    """Workers do not import the program that starts them, and its variables are as before."""
    script = bench.directory / "script.py"
    script.write_text(
        "import os, sys\nsys.path.insert(0, sys.argv[2])\nfrom unmask.experiments.sweeps import sweep\n"
        f"before = dict(os.environ)\nsweep({{'name': 't', 'jobs': ['{SQUARE}'], 'grid': {{'x': [1, 2]}}}}, "
        "store=sys.argv[1], workers=2)\nassert dict(os.environ) == before\nprint('once')\n"
    )
    done = subprocess.run([sys.executable, script, bench.store, ROOT], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "once\n"), done.stderr
    assert len(bench.records()) == 2


def test_limits_that_make_no_sense_are_refused(tmp_path):
    with pytest.raises(UnmaskError, match="attempts is 0"):
        sweep({"jobs": [SQUARE], "grid": {"x": [1]}}, store=tmp_path / "s", attempts=0)
    with pytest.raises(UnmaskError, match="workers is 0"):
        sweep({"jobs": [SQUARE], "grid": {"x": [1]}}, store=tmp_path / "s", workers=0)
    with pytest.raises(UnmaskError, match="limit is"):
        sweep({"jobs": [SQUARE], "grid": {"x": [1]}}, store=tmp_path / "s", limit=-1)
