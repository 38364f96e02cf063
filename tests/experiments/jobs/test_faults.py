"""What may die while a sweep runs, and what must still be there afterwards: everything, and nothing twice.

After each fault the database is whole, the records are those of an undisturbed run to the bit, and only cells that were
running when something died have been measured again.
"""

from __future__ import annotations

import os
import random
import re
import resource
import signal
import subprocess
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path

import pytest

from tests.experiments.jobs.conftest import SQUARE, Bench
from tests.needs import needs
from unmask.core.errors import UnmaskError
from unmask.experiments.jobs import sweep
from unmask.experiments.jobs.lock import FILE as LOCK
from unmask.experiments.jobs.lock import holder
from unmask.experiments.jobs.opening import FILE, USER_VERSION_AT
from unmask.experiments.jobs.run import resume
from unmask.experiments.jobs.status import status

SPOILED = "tests.experiments.jobs.trivial:spoiled"
TOTAL = "tests.experiments.jobs.trivial:total"
CELLS = 400
LONG = {"metrics": [SQUARE], "grid": {"x": list(range(CELLS))}, "fixed": {"seconds": 0.01}}


def workers_of(driver: subprocess.Popen[str]) -> list[int]:
    """By the parent that /proc knows."""
    found = []
    for entry in os.listdir("/proc"):
        with suppress(OSError, ValueError):
            stat = Path(f"/proc/{int(entry)}/stat").read_text()
            if int(stat.rpartition(")")[2].split()[1]) == driver.pid:
                found.append(int(entry))
    return found


def gone(pids: list[int], patience: float = 5.0) -> bool:
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


def until(condition, patience: float = 20.0) -> None:
    end = time.monotonic() + patience
    while not condition():
        assert time.monotonic() < end, "it did not come about in time"
        time.sleep(0.005)


@needs("linux")
@pytest.mark.parametrize("most", [8, pytest.param(30, marks=pytest.mark.long)])
def test_kills_in_a_row(bench: Bench, undisturbed, monkeypatch, most):
    recipe = LONG | {"grid": {"x": list(range(CELLS * most // 30))}}
    expected = undisturbed(recipe)
    monkeypatch.setenv("TRIVIAL_LOG", str(bench.log))
    luck = random.Random(7)
    running: list[str] = []  # at the moment of each kill of a driver
    kills = 0
    driver = bench.drive(recipe, attempts=100)
    while kills < most:
        begun = sum(bench.measured().values())
        until(lambda begun=begun, driver=driver: sum(bench.measured().values()) > begun or driver.poll() is not None)
        time.sleep(luck.random() * 0.05)
        if driver.poll() is not None:
            break
        victim = ("worker", "driver", "both")[kills % 3]
        workers = workers_of(driver)
        if victim != "driver" and workers:
            with suppress(ProcessLookupError):
                os.kill(luck.choice(workers), signal.SIGKILL)
        if victim != "worker":
            driver.kill()
            driver.communicate()
            assert gone(workers), "a worker has outlived its driver"
            found = bench.ask("select json_extract(spec, '$.x') || ' 0' from cell where state = 'running'")
            running += [line for (line,) in found]
            assert bench.whole()
            driver = bench.drive(recipe, attempts=100)
        kills += 1
    assert driver.wait(60) == 0
    driver.communicate()
    assert kills == most, "the sweep was over too soon"
    measured = bench.measured()
    again = measured - Counter(set(measured))
    print(f"{most} kills, {len(expected)} cells, {again.total()} measured again")
    assert (again - Counter(running)).total() <= most / 3  # a worker that is killed alone loses one, which is not seen
    assert bench.whole()
    assert len(measured) == len(expected)
    assert bench.records() == expected


def test_a_finished_cell_is_never_measured_again(bench: Bench):
    recipe = {"metrics": [SQUARE], "grid": {"x": [1, 2, 3]}}
    bench.sweep(recipe)
    bench.sweep(recipe)
    found = bench.sweep(recipe, x=[0, 1, 2, 3, 4], seeds=2)
    assert set(bench.measured().values()) == {1}
    assert len(bench.measured()) == 10
    assert len(found.keys) == 10


@pytest.mark.parametrize(
    ("how", "said", "attempts"),
    [
        ("raise", "ValueError: three is not a number (trivial.py, line ", 1),
        ("memory", "out of memory: ask for fewer rows", 1),
        ("kill", "killed (SIGKILL): most often because memory had run out", 2),
        ("exit", "ended with exit code 7; see workers.log", 2),
        ("hang", "it took more than the limit of 1 s and was stopped", 1),
        ("nan", "Out of range float", 1),
    ],
)
def test_a_bad_cell_stops_no_other(bench: Bench, how, said, attempts):
    recipe = {"metrics": [SPOILED], "grid": {"x": list(range(8))}, "fixed": {"how": how}}
    found = bench.sweep(recipe, limit=1.0, attempts=2)
    state = found.status()
    assert (state["done"], state["failed"]) == (7, 1)
    failure = state["failures"][0]
    assert said in failure["error"]
    assert failure["attempts"] == attempts
    assert failure["cell"]["x"] == 3
    assert bench.whole()
    bench.sweep(recipe, limit=1.0, attempts=2)
    assert bench.measured()["3 0"] == attempts  # what has failed is tried again only where it is asked for
    resume(bench.store, again=True, limit=1.0, attempts=2, allow_imports=["tests.experiments.jobs.trivial"])
    assert bench.measured()["3 0"] == 2 * attempts
    assert all(times == 1 for line, times in bench.measured().items() if line != "3 0")


def test_blocks_resume_and_merge(bench: Bench, undisturbed, monkeypatch):
    recipe = {"metrics": [TOTAL], "rows": 50, "fixed": {"seconds": 0.05}}
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


def test_the_second_driver_is_refused_and_a_dead_one_noticed(bench: Bench, capsys):
    recipe = LONG | {"fixed": {"seconds": 0.1}}
    driver = bench.drive(recipe)
    until(lambda: len(bench.measured()) >= 3)
    said = rf"is being driven by process {driver.pid} on \S+ since \d+-\d+-\d+ \d+:\d+:\d+"
    with pytest.raises(UnmaskError, match=said):
        bench.sweep(recipe)
    assert status(bench.store)["driver"]["pid"] == driver.pid
    driver.kill()
    driver.communicate()
    assert holder(bench.store) is None
    state = status(bench.store)
    assert (state["driver"], state["running"]) == (None, 0)
    assert 1 <= state["interrupted"] <= 4
    bench.sweep(recipe | {"grid": {"x": [1000]}})
    said = capsys.readouterr().err
    assert re.search(rf"process {driver.pid} on .* was killed; cells that .* are to do again: \d", said)
    assert (bench.store / LOCK).read_text() == ""


def test_no_space_left(bench: Bench, undisturbed, monkeypatch):
    recipe = {"metrics": [SQUARE], "grid": {"x": list(range(300))}}
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


def test_a_store_of_a_newer_schema_is_not_touched(bench: Bench):
    recipe = {"metrics": [SQUARE], "grid": {"x": [1, 2]}}
    bench.sweep(recipe)
    path = bench.store / FILE
    content = bytearray(path.read_bytes())
    content[USER_VERSION_AT : USER_VERSION_AT + 4] = (99).to_bytes(4, "big")
    path.write_bytes(content)

    def seen():
        return {entry.name: (entry.read_bytes(), entry.stat().st_mtime_ns) for entry in bench.store.iterdir()}

    before = seen()
    for call in (lambda: bench.sweep(recipe), lambda: status(bench.store), lambda: resume(bench.store)):
        with pytest.raises(UnmaskError, match=r"its schema is 99, and this one knows 3.*Nothing was touched"):
            call()
    assert seen() == before


def test_a_file_that_is_no_store(bench: Bench):
    bench.store.mkdir()
    (bench.store / FILE).write_text("not a database, but long enough to look like one" * 10)
    with pytest.raises(UnmaskError, match=r"newer|cannot be used"):
        bench.sweep({"metrics": [SQUARE], "grid": {"x": [1]}})
    with pytest.raises(UnmaskError, match="there is no sweep in"):
        status(bench.directory)


@pytest.mark.parametrize("times", [1, 2])
def test_ctrl_c(bench: Bench, undisturbed, monkeypatch, times):
    recipe = LONG | {"grid": {"x": list(range(12))}, "fixed": {"seconds": 0.4}}
    expected = undisturbed(recipe | {"grid": {"x": list(range(12))}}) if times == 1 else None
    monkeypatch.setenv("TRIVIAL_LOG", str(bench.log))
    driver = bench.drive(recipe)
    until(lambda: sum(bench.measured().values()) >= 4)
    began = time.monotonic()
    driver.send_signal(signal.SIGINT)
    if times == 2:
        time.sleep(0.05)
        driver.send_signal(signal.SIGINT)
    _, said = driver.communicate(timeout=10)
    assert driver.returncode != 0
    assert "ending after the cells that are running; Ctrl-C again stops at once" in said
    assert f"KeyboardInterrupt: what is done is kept in {bench.store}, and the same command goes on from there" in said
    states = dict(bench.ask("select state, count(*) from cell group by state"))
    assert "running" not in states
    assert states["todo"] + states["done"] == 12
    begun = sum(bench.measured().values())
    if times == 1:
        assert states["done"] == begun < 12  # what had been begun is done
        bench.sweep(recipe)
        assert set(bench.measured().values()) == {1}
        assert bench.records() == expected
    else:
        assert states["done"] < begun
        assert time.monotonic() - began < 5
    assert bench.whole()
    assert (bench.store / LOCK).read_text() == ""  # nobody has been killed


def test_workers_that_cannot_start(bench: Bench, monkeypatch):
    monkeypatch.setattr("unmask.experiments.jobs.local.sys.executable", "/bin/false")
    with pytest.raises(UnmaskError, match="3 workers ended before they had begun"):
        bench.sweep({"metrics": [SQUARE], "grid": {"x": [1]}})
    assert status(bench.store)["todo"] == 1


def test_results_that_were_of_no_use_are_said(tmp_path):
    with pytest.raises(UnmaskError, match="attempts is 0"):
        sweep({"metrics": [SQUARE], "grid": {"x": [1]}}, store=tmp_path / "s", attempts=0)
    with pytest.raises(UnmaskError, match="workers is 0"):
        sweep({"metrics": [SQUARE], "grid": {"x": [1]}}, store=tmp_path / "s", workers=0)
    with pytest.raises(UnmaskError, match="limit is"):
        sweep({"metrics": [SQUARE], "grid": {"x": [1]}}, store=tmp_path / "s", limit=-1)
