from __future__ import annotations

import gc
import os
import random
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path, PurePosixPath
from typing import Any

import pytest
from hypothesis import settings

from tests.needs import ROOT, missing, require

LIBRARIES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS")
os.environ |= dict.fromkeys(LIBRARIES, "1")
"""Calls of torch and numpy are so short here that their threads would only wait for each other, in a loop, and keep the
cores from the other tests. numba counts too: once it starts its threads, torch has as many. Before anybody imports
them; processes that tests start have the same."""

os.environ.setdefault("UNMASK_THREADS", "1")
"""Threads over blocks so short would wait for each other's lock of the interpreter, at a sixth of what all tests take.
What is shared out over threads is tried with several in tests/core/test_threads.py, and every sampler by the kit."""


settings.register_profile("same", deadline=None, database=None, derandomize=True)
settings.load_profile("same")
"""No test asserts a time, and each tries the same in every run, wherever it does not say otherwise."""

RECORD = "unmask/skipped"  # in the cache of pytest: ids that a run skipped for a need


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("unmask")
    group.addoption("--extras", action="store_true", help="run only what the last run skipped for a need")
    group.addoption("--unmet", action="store_true", help="run only what would be skipped by a marker; it must fail")
    group.addoption("--long", action="store_true", help="run only the long tests")
    group.addoption("--part", metavar="K/N", default="0/1", help="run part K of N: 0/1 is all; K may be 'turn'")


def pytest_configure(config: pytest.Config) -> None:
    from tests import shapes  # it imports torch, which reads the number of threads once

    shapes.hold()
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(Skipped(config))


def turn() -> int:
    """The part that `--part turn/N` chooses: UNMASK_TURN, or the number of commits before this one."""
    said = os.environ.get("UNMASK_TURN")
    return int(said) if said else commits()


@cache
def commits() -> int:
    try:
        ran = subprocess.run(["git", "rev-list", "--count", "HEAD"], cwd=ROOT, capture_output=True, text=True)
    except OSError:
        return 0
    return int(ran.stdout) if ran.returncode == 0 else 0


def part(said: str) -> tuple[int, int]:
    """(K, N) of "K/N"."""
    first, _, parts = said.partition("/")
    try:
        many = int(parts)
        return (turn() if first == "turn" else int(first)) % many, many
    except (ValueError, ZeroDivisionError):
        raise pytest.UsageError(f"--part is {said!r}; expected K/N as 0/1, 3/10 or turn/10") from None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Long tests only when they are asked for, and then nothing else."""
    number, many = part(config.option.part)
    wanted = long_tests(items) if config.option.long else ordinary_tests(items)
    wanted = wanted[number::many]
    if config.option.extras:
        recorded = config.cache.get(RECORD, None)
        if recorded is None:
            raise pytest.UsageError("nothing is recorded; run `make test` first, then `make test-extras`")
        wanted = [item for item in wanted if {*places(item.nodeid)} & recorded.keys()]
    if config.option.unmet:
        wanted = [item for item in wanted if any(map(missing, needed_by(item)))]
        for item in wanted:
            item.add_marker(pytest.mark.xfail(strict=True, reason="its need is not met"))
    kept = set(wanted)
    config.hook.pytest_deselected(items=[item for item in items if item not in kept])
    items[:] = wanted


def long_tests(items: list[pytest.Item]) -> list[pytest.Item]:
    """Those that are marked so, and of a sampled table all cases but each N-th."""
    cases: Counter[str] = Counter()
    long = []
    for item in sorted(items, key=lambda item: item.nodeid):
        sampled = item.get_closest_marker("sampled")
        if item.get_closest_marker("long"):
            long.append(item)
        elif sampled:
            name = item.nodeid.partition("[")[0]
            long += [item] if cases[name] % sampled.args[0] else []
            cases[name] += 1
    return long


def ordinary_tests(items: list[pytest.Item]) -> list[pytest.Item]:
    long = {*long_tests(items)}
    return [item for item in items if item not in long]


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """A part of the long tests may be empty, and so may be what was skipped."""
    if exitstatus == pytest.ExitCode.NO_TESTS_COLLECTED and (
        session.config.option.long or session.config.option.extras
    ):
        session.exitstatus = pytest.ExitCode.OK


def places(nodeid: str) -> list[str]:
    """An id, its module and the folders of that: where a need may have been found missing."""
    path = PurePosixPath(nodeid.partition("::")[0])
    return [nodeid, *map(str, (path, *path.parents))]


class Skipped:
    """Records the tests that a run skips for a need, and forgets those that it runs."""

    def __init__(self, config: pytest.Config) -> None:
        self.cache = None if config.option.extras else getattr(config, "cache", None)
        self.recorded: dict[str, str] = self.cache.get(RECORD, None) or {} if self.cache else {}

    def _note(self, report: Any) -> None:
        reason = report.longrepr[2] if report.skipped and isinstance(report.longrepr, tuple) else ""
        if reason.startswith("Skipped: needs "):
            self.recorded[report.nodeid] = reason.removeprefix("Skipped: ")
        elif report.passed:
            for place in places(report.nodeid):
                self.recorded.pop(place, None)

    def pytest_collectreport(self, report: Any) -> None:
        if report.skipped:
            self._note(report)

    def pytest_runtest_logreport(self, report: Any) -> None:
        if report.when == "call" or report.skipped:
            self._note(report)

    def pytest_sessionfinish(self) -> None:
        if self.cache:
            self.cache.set(RECORD, self.recorded)


def needed_by(item: pytest.Item) -> list[str]:
    return [name for mark in item.iter_markers("needs") for name in mark.args]


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    seed()
    if not item.config.option.unmet:
        require(*needed_by(item))


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_call() -> None:
    seed()


def seed() -> None:
    """What draws from a generator of the whole process draws the same, whatever ran before in this process."""
    random.seed(0)
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed(0)
    if "torch" in sys.modules:
        sys.modules["torch"].manual_seed(0)


def pytest_collection_finish() -> None:
    """What was imported and collected stays: nobody has to look through it again for what can go."""
    gc.collect()
    gc.freeze()


@pytest.fixture
def ordinary(tmp_path: Path) -> Iterator[Callable[[], None]]:
    """From the call on, files are opened as a user who is not root, and who may look into the test's directory."""
    before = os.geteuid()

    def become() -> None:
        if before == 0:
            for place in (tmp_path, *list(tmp_path.parents)[:3]):
                place.chmod(place.stat().st_mode | 0o011)
            os.seteuid(65534)

    yield become
    os.seteuid(before)


@pytest.fixture(autouse=True)
def files_are_read_again() -> Iterator[None]:
    """Two tests may have a file of one name: a module of a file has this name, and stays loaded."""
    yield
    for name in [name for name in sys.modules if name.endswith(".py")]:
        del sys.modules[name]
