"""How the cost of a sweep grows: a cell on 1, 2 and 4 workers, the driver's limit, and a store of a million lines.

A cell sleeps, so that workers do not compete for cores. With w workers its overhead is the time of w answers less its
sleep, over the second half of the answers: starts and imports are not in it.
"""

from __future__ import annotations

import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections import deque
from collections.abc import Callable, Generator, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.sweeps import NOTHING, nothing
from benchmarks.timing import Report, main, say, seconds
from unmask.core.run import Measuring
from unmask.experiments import sweep
from unmask.experiments.cell import SCHEMA, Cell
from unmask.experiments.pool import Answer, Block
from unmask.experiments.store import Done, Planned, Run, writing

SLEEPING, INSTANTLY = "benchmarks.clusters:sleeping", "benchmarks.clusters:instantly"


class Size(NamedTuple):
    sleeps: tuple[float, ...]  # seconds of a cell
    work: float  # seconds of all cells of a worker
    instant: int  # cells of the driver's limit
    lines: int  # of a store


SIZES = {
    "toy": Size((0.01,), 0.05, 20, 100),
    "quick": Size((0.01, 0.1), 1.0, 2000, 10**5),
    "full": Size((0.01, 0.1, 1.0), 8.0, 20_000, 10**6),
}


def sleeping(x: int, sleep: float) -> list[dict[str, Any]]:
    """A job of a known duration."""
    time.sleep(sleep)
    return nothing(x)


def instantly(
    ready: deque[Block], files: Path, how: Measuring, interrupts: Sequence[int], note: Callable[[int], None]
) -> Generator[tuple[Block, Answer], None, None]:
    """An engine that knows all answers: the rest is the driver's."""
    while ready:
        yield ready.popleft(), Answer(nothing(1))


def measure(report: Report) -> None:
    size = SIZES[report.size]
    directory = Path(tempfile.mkdtemp(prefix="clusters-"))
    try:
        overheads(report, size, directory)
        limit(report, size, directory)
        million(report, size, directory)
    finally:
        shutil.rmtree(directory)


def overheads(report: Report, size: Size, directory: Path) -> None:
    for engine in ("local", "ray"):
        if engine == "ray" and find_spec("ray") is None:
            report.missing["clusters: engine ray"] = "needs the extra cluster"
            continue
        for sleep in size.sleeps:
            for workers in (1, 2, 4):
                say(f"clusters: {engine}, cells of {sleep:g} s, workers: {workers}")
                cells = round(size.work / sleep) * workers
                grid = {"x": list(range(cells)), "sleep": [sleep]}
                recipe = {"name": "sleeping", "jobs": [SLEEPING], "grid": grid}
                store = directory / f"{engine}-{sleep:g}-{workers}"
                done = sweep(recipe, store=store, engine=engine, workers=workers).store.done.values()
                ends = sorted(one.at for one in done)
                gaps = [after - before for before, after in zip(ends, ends[workers:], strict=False)]
                milliseconds = 1e3 * (statistics.mean(gaps[len(gaps) // 2 :]) - sleep)
                task = f"clusters: overhead of a cell of {sleep:g} s, {engine}, workers: {workers}"
                report.at_most(task, milliseconds, 50.0, "ms")


def limit(report: Report, size: Size, directory: Path) -> None:
    say(f"clusters: the driver alone, {size.instant} cells")
    recipe = {"name": "instant", "jobs": [NOTHING], "grid": {"x": list(range(size.instant))}}
    taken = seconds(lambda: sweep(recipe, store=directory / "instant", engine=INSTANTLY))
    report.at_least("clusters: cells that the driver alone writes in a second", size.instant / taken, 500, "cells/s")


OPENED = "from unmask.experiments.store import Store; Store.open(sys.argv[1])"
RESUMED = (
    "from unmask.experiments.run import resume; resume(sys.argv[1], engine='here', allow_imports=['benchmarks.sweeps'])"
)
REPORTED = "from unmask.cli.main import main; main(['sweep', 'export', sys.argv[1]])"
PEAK = "print(*[line for line in open('/proc/self/status') if line.startswith('VmHWM')], file=sys.stderr)"


def million(report: Report, size: Size, directory: Path) -> None:
    """Half of the lines are plans, half are answers; the last ten cells are to do."""
    cells = [Cell(NOTHING, {"x": x, "seed": 0}) for x in range(size.lines // 2)]
    with writing(directory / "million") as store:
        store.append(Run(SCHEMA, 1.0, "", "local", {"name": "million"}, {}))
        store.append(*(Planned(cell.key, cell.stem, cell.job, cell.values) for cell in cells))
        store.append(*(Done(cell.key, "", 2.0, 0.1, [], nothing(cell.values["x"])) for cell in cells[:-10]))
    for what, program in (("opened", OPENED), ("resumed", RESUMED), ("exported", REPORTED)):
        say(f"clusters: a store of {size.lines} lines is {what}")
        command = [sys.executable, "-c", f"import sys; {program}; {PEAK}", str(directory / "million")]
        began = time.perf_counter()
        ran = subprocess.run(command, check=True, capture_output=True, text=True)
        report.at_most(f"clusters: {size.lines} lines {what}", time.perf_counter() - began, 120.0, "s")
        report.at_most(f"clusters: {size.lines} lines {what}, peak", float(ran.stderr.split()[-2]) / 2**20, 8.0, "GiB")


if __name__ == "__main__":
    main(__doc__, measure)
