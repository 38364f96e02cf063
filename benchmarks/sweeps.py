"""What a sweep costs beside its cells: a cell, the status, a resumption; and what a second worker is worth."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.timing import Report, main, say, seconds
from unmask.experiments import sweep
from unmask.experiments.cell import SCHEMA, Cell
from unmask.experiments.pool import cores
from unmask.experiments.store import Done, Planned, Run, writing
from unmask.experiments.tables import status


class Size(NamedTuple):
    cells: int
    large: int  # a store that is only looked at
    rows: int  # of the figure grid
    repeats: int


SIZES = {"toy": Size(40, 500, 2, 1), "quick": Size(1000, 10_000, 200, 1), "full": Size(10_000, 100_000, 2000, 3)}
NOTHING = "benchmarks.sweeps:nothing"
FIGURE = {
    "name": "figure",
    "jobs": ["samples"],
    "grid": {"language": ["paper-2gram", "paper-3gram", "sparse-hmm", "interval-5"], "steps": [8, 32, 128, 512]},
    "fixed": {"length": 512},
}


def nothing(x: int, seed: int = 0) -> list[dict[str, Any]]:
    """A job that takes no time."""
    number = {"value": float(x), "low": float(x), "high": float(x), "n": 1, "level": 0.95, "method": ""}
    return [{"measure": "x", **number, "model_calls": 0.0}]


def measure(report: Report) -> None:
    size = SIZES[report.size]
    directory = Path(tempfile.mkdtemp(prefix="sweeps-"))
    try:
        overhead(report, size, directory)
        looks(report, size, directory)
        workers(report, size, directory)
    finally:
        shutil.rmtree(directory)


def overhead(report: Report, size: Size, directory: Path) -> None:
    say(f"sweeps: {size.cells} trivial cells")
    recipe = {"name": "trivial", "jobs": [NOTHING], "grid": {"x": list(range(size.cells))}}
    taken = seconds(lambda: sweep(recipe, store=directory / "trivial", workers=2))
    report.at_most(f"sweep: overhead a cell over {size.cells} cells", 1e3 * taken / size.cells, 5.0, "ms")
    again = seconds(lambda: sweep(recipe, store=directory / "trivial", workers=2))
    report.at_most(f"sweep: resuming {size.cells} finished cells", again, 2.0)


def looks(report: Report, size: Size, directory: Path) -> None:
    say(f"sweeps: the status of {size.large} cells")
    many(directory / "large", size.large)
    taken = min(seconds(lambda: status(directory / "large")) for _ in range(size.repeats))
    report.at_most(f"sweep: status of {size.large} cells", taken, 2.0)  # two fifths hold keys against cells


def many(directory: Path, cells: int) -> None:
    """A store of which nine tenths are done."""
    made = [Cell(NOTHING, {"x": x}) for x in range(cells)]
    with writing(directory) as store:
        store.append(Run(SCHEMA, 1.0, "", "local", {}, {}))
        store.append(*(Planned(cell.key, cell.key, cell.job, cell.values) for cell in made))
        store.append(*(Done(cell.key, "", 2.0, 0.1, [], []) for x, cell in enumerate(made) if x % 10))


def workers(report: Report, size: Size, directory: Path) -> None:
    """Two processes against one, each with one thread; their start and imports are part of it."""
    if cores() < 2:
        report.missing["sweep: two workers"] = "needs two cores"
        return
    taken = {}
    for count in (1, 2):
        say(f"sweeps: a figure grid, workers: {count}")
        store = directory / f"figure-{count}"
        options: dict[str, Any] = {"rows": size.rows, "workers": count, "threads": 1}
        taken[count] = seconds(lambda store=store, options=options: sweep(FIGURE, store=store, **options))
    report.at_least("sweep: two workers against one on a figure grid", taken[1] / taken[2], 1.7)


if __name__ == "__main__":
    main(__doc__, measure)
