"""One clock for everybody: what is timed, how often, on how many threads, and what a target says of it."""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np

from unmask.core import memory
from unmask.core.files import code, write_json

SIZES = ("toy", "quick", "full")
HOW_TO_READ = """\
time   median, then [least .. most] of so many repeats; all contestants of a task in turn
first  the very first call, not counted: it compiles, or loads what was compiled before
ratio  time a row over that of unmask in the same task
our threads: the peer's chunks are handed to as many threads as unmask has, which no manual of theirs does; it is shown
because it is the most that they could do, and no target is held against it
"""
PACKAGES = ("unmask", "numpy", "numba", "torch", "jax", "jaxlib", "dynamax", "hmmlearn")


@dataclass(frozen=True)
class Work:
    """Something to time: on how many threads, for how many rows if not for all."""

    run: Callable[[], object]
    threads: int
    rows: int | None = None
    warm_up: Callable[[], object] | None = None  # a cheaper first call that compiles as much
    first: float | None = None  # where the first call is over: how long it took
    note: str = ""


@dataclass(frozen=True)
class Measurement:
    task: str
    who: str
    rows: int
    length: int
    threads: int
    seconds: float  # the median
    low: float
    high: float
    repeats: int
    first: float  # seconds of the very first call, which is not counted: it compiles, or loads what was compiled
    ratio: float | None = None  # time a row over that of the first in the race
    note: str = ""

    @property
    def token_us(self) -> float:
        return 1e6 * self.seconds / (self.rows * self.length)


@dataclass(frozen=True)
class Check:
    """A claim with its bound; `met` is None where the size is not the one that the bound was stated for."""

    claim: str
    value: float
    bound: float
    unit: str
    met: bool | None

    @property
    def verdict(self) -> str:
        """Met, or by how much it is missed."""
        if self.met is None:
            return "-"
        return "met" if self.met else f"MISSED by {abs(self.value / self.bound - 1):.0%}"


@dataclass
class Report:
    """What one run has found. Targets are stated for the full size; at a smaller one they are shown, not judged."""

    size: str
    out: Path  # where figures go
    machine: dict[str, Any] = field(default_factory=lambda: machine())
    measurements: list[Measurement] = field(default_factory=list)
    checks: list[Check] = field(default_factory=list)
    missing: dict[str, str] = field(default_factory=dict)  # peers that could not be asked, and why
    figures: list[str] = field(default_factory=list)

    def race(
        self, task: str, rows: int, length: int, works: dict[str, Work], repeats: int = 3, patience: float = 60.0
    ) -> dict[str, Measurement]:
        """Each once to warm up, then all in turn, so that what the machine does meanwhile hits all alike.

        A contestant that has taken `patience` seconds is not repeated again.
        """
        first = {}
        for who, work in works.items():
            say(f"{task}: {who}")
            first[who] = seconds(work.warm_up or work.run) if work.first is None else work.first
        taken: dict[str, list[float]] = {who: [] for who in works}
        for _ in range(repeats):
            for who, work in works.items():
                if not taken[who] or sum(taken[who]) < patience:
                    taken[who].append(seconds(work.run))
        results: dict[str, Measurement] = {}
        base = None
        for who, work in works.items():
            times, mine = taken[who], work.rows or rows
            a_row = statistics.median(times) / mine
            base = a_row if base is None else base
            spread = min(times), max(times), len(times)
            ratio = a_row / base if results else None
            results[who] = Measurement(
                task, who, mine, length, work.threads, a_row * mine, *spread, first[who], ratio, work.note
            )
        self.measurements += results.values()
        return results

    def at_most(self, claim: str, value: float, bound: float, unit: str = "s") -> None:
        self._check(claim, value, bound, f"{unit}, at most", value <= bound)

    def at_least(self, claim: str, value: float, bound: float, unit: str = "times") -> None:
        self._check(claim, value, bound, f"{unit}, at least", value >= bound)

    def _check(self, claim: str, value: float, bound: float, unit: str, met: bool) -> None:
        self.checks.append(Check(claim, float(value), bound, unit, met if self.size == "full" else None))

    def show(self) -> None:
        """Tables for people, then one JSON object as the last line."""
        about = self.machine
        versions = ", ".join(f"{name} {number}" for name, number in about["versions"].items())
        print(
            f"{about['cpu']}, {about['cores']} cores, {about['threads']} threads, Python {about['python']}; {versions}"
        )
        print(HOW_TO_READ)
        table(
            ("task", "who", "rows", "thr", "time", "spread", "first", "us/token", "ratio"),
            [
                (
                    m.task,
                    m.who,
                    str(m.rows),
                    str(m.threads),
                    _time(m.seconds),
                    f"[{_time(m.low)} .. {_time(m.high)}] x{m.repeats}",
                    _time(m.first),
                    f"{m.token_us:.3g}",
                    "" if m.ratio is None else f"{m.ratio:.3g}",
                )
                for m in self.measurements
            ],
        )
        for note in dict.fromkeys(f"{m.task}: {m.who}: {m.note}" for m in self.measurements if m.note):
            print(f"  {note}")
        if self.checks:
            print("\nTargets" + ("" if self.size == "full" else f" (stated for the full size; this was {self.size})"))
            table(
                ("claim", "value", "bound", "unit", ""),
                [(c.claim, f"{c.value:.3g}", f"{c.bound:g}", c.unit, c.verdict) for c in self.checks],
            )
            missed = sum(c.met is False for c in self.checks)
            print(f"{missed} of {len(self.checks)} claims are missed" if self.size == "full" else "")
        for name, reason in self.missing.items():
            print(f"Not measured: {name}: {reason}")
        for path in self.figures:
            print(f"Figure: {path}")
        found = self.found()
        for measured, m in zip(found["measurements"], self.measurements, strict=True):
            measured["token_us"] = m.token_us
        print(json.dumps({"machine": about, "size": self.size} | found, allow_nan=False))

    def found(self) -> dict[str, Any]:
        return {
            "measurements": [asdict(m) for m in self.measurements],
            "checks": [asdict(c) for c in self.checks],
            "missing": self.missing,
            "figures": self.figures,
        }

    def add(self, found: dict[str, Any]) -> None:
        """What another report has found, after what this one has."""
        self.measurements += [Measurement(**m) for m in found["measurements"]]
        self.checks += [Check(**c) for c in found["checks"]]
        self.missing |= found["missing"]
        self.figures += found["figures"]


def seconds(run: Callable[[], object]) -> float:
    began = time.perf_counter()
    run()
    return time.perf_counter() - began


@contextmanager
def only(count: int) -> Iterator[None]:
    """unmask on so many threads."""
    before = os.environ.get("UNMASK_THREADS")
    os.environ["UNMASK_THREADS"] = str(count)
    try:
        yield
    finally:
        if before is None:
            del os.environ["UNMASK_THREADS"]
        else:
            os.environ["UNMASK_THREADS"] = before


def on_one_thread(run: Callable[[], object]) -> Work:
    def alone() -> None:
        with only(1):
            run()

    return Work(alone, 1)


def agree(what: str, theirs: Any, ours: Any, tolerance: float) -> None:
    """Nobody is timed who computes something else."""
    worst = float(np.max(np.abs(np.asarray(theirs, np.float64) - np.asarray(ours))))
    if not worst <= tolerance:
        raise SystemExit(f"{what} differs from unmask by {worst:.3g}, more than {tolerance:g}: nothing was timed")


def machine() -> dict[str, Any]:
    return {
        "cpu": _cpu(),
        "system": f"{platform.system()} {platform.machine()}",
        "cores": os.cpu_count(),
        "threads": memory.cores(),
        "python": platform.python_version(),
        "versions": {name: found for name in PACKAGES if (found := _version(name))},
        "load": list(os.getloadavg()) if hasattr(os, "getloadavg") else None,
    }


def main(about: str | None, *parts: Callable[[Report], None]) -> None:
    """What `python -m benchmarks.PART` does."""
    parser = argparse.ArgumentParser(description=about)
    parser.add_argument("--quick", dest="size", action="store_const", const="quick", default="full")
    parser.add_argument("--size", choices=SIZES, help="quick: a minute or two; toy: does it run at all")
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results"), help="where figures go")
    asked = parser.parse_args()
    report = Report(asked.size, asked.out)
    if len(parts) == 1:
        parts[0](report)
    else:
        resume(report, parts)
    report.show()


def resume(report: Report, parts: Sequence[Callable[[Report], None]]) -> None:
    """Every part, but those that this code has finished: a file per part keeps what it found until the last has."""
    kept = report.out / f"bench-{report.size}-{code()}"
    kept.mkdir(parents=True, exist_ok=True)
    for part in parts:
        name = part.__module__.rpartition(".")[2]
        path = kept / f"{name}.json"
        if path.exists():
            say(f"{name}: kept from the run that was interrupted")
        else:
            alone = Report(report.size, report.out)
            took = seconds(partial(part, alone))
            say(f"{name}: done in {took:.0f} s")
            write_json(path, alone.found())
        report.add(json.loads(path.read_text()))
    shutil.rmtree(kept)


def say(text: str) -> None:
    """What is being done now, for whoever waits."""
    print(f"... {text}", file=sys.stderr, flush=True)


def _cpu() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or "unknown CPU"
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _time(value: float) -> str:
    return f"{1e3 * value:.3g} ms" if value < 1 else f"{value:.3g} s"


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]
    for row in (head, ["-" * width for width in widths], *rows):
        print("  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip())
