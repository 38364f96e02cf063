"""The status of a store, and its records as a table."""

from __future__ import annotations

import csv
import io
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from math import prod
from pathlib import Path
from typing import Any

import msgspec

from unmask.core import arguments
from unmask.core.errors import UnmaskError
from unmask.core.files import atomic, code
from unmask.experiments.cell import Cell
from unmask.experiments.store import Store, holder

ESTIMATE = ("measure", "value", "low", "high", "n", "level", "method", "model_calls")
AFTER = (*ESTIMATE, "language_digest", "code_digest", "seconds", "key")
FAILURES_SHOWN = 20


def status(directory: str | Path) -> dict[str, Any]:
    """Counts by state, speed and remaining time of the last run, code versions, failures."""
    store, (last, alive) = Store.open(directory), holder(Path(directory))
    begun, todo, done = store.runs[-1].began, store.todo, store.done.values()
    own = [one for one in done if one.at >= begun]  # of the last run
    passed = (time.time() if alive else max((one.at for one in own), default=begun)) - begun
    speed = sum(one.seconds for one in own) / passed if passed > 0 else 0.0  # seconds of work a second
    work = seconds(store, [Cell(one.job, one.values) for one in todo])
    running = min(last.running, len(todo)) if last else 0
    failures = list(store.failed.items())[:FAILURES_SHOWN]
    return {
        "store": str(directory),
        "cells": len(store.cells),
        "done": len(done),
        "running": running if alive else 0,
        "interrupted": 0 if alive else running,
        "todo": len(todo) - running,
        "failed": len(store.failed),
        "cells_a_second": len(own) / passed if passed > 0 and own else None,
        "seconds_left": 0.0 if not todo else work / speed if work is not None and speed > 0 else None,
        "code_versions": len({one.code for one in done}),
        "of_other_code": sum(one.code != code() for one in done),
        "driver": msgspec.structs.asdict(last) if last and alive else None,
        "failures": [
            {"key": key, "cell": store.spec(key), "error": one.error, "attempts": one.attempts} for key, one in failures
        ],
    }


def seconds(store: Store, cells: Sequence[Cell]) -> float | None:
    """Seconds of work that cells take, by finished cells of the same job in a store; None if a job has none."""
    taken, size = Counter[str](), Counter[str]()
    for key, done in store.done.items():
        job = store.cells[key].job
        taken[job] += done.seconds  # type: ignore[assignment]
        size[job] += _size(store.cells[key].values)
    if any(cell.job not in size for cell in cells):
        return None
    return sum(_size(cell.values) * taken[cell.job] / size[cell.job] for cell in cells)


def _size(values: Mapping[str, Any]) -> int:
    """The generated tokens of a cell, to which its time is about proportional."""
    sizes = (values.get("rows"), values.get("length"))
    return prod(size for size in sizes if isinstance(size, int) and 0 < size <= arguments.MOST_ROWS)


def columns(rows: Sequence[dict[str, Any]]) -> list[str]:
    """Names of columns: the fields of cells first, then the fields of records."""
    every = dict.fromkeys(name for row in rows for name in row)
    fields = [name for name in every if name not in AFTER]
    return [*sorted(fields, key=lambda name: name != "job"), *(name for name in AFTER if name in every)]


def check_out(path: Path) -> None:
    """Refuse a wrong file name before any work."""
    if path.suffix != ".csv":
        raise UnmaskError(f"{path}: expected a name with .csv, not {path.suffix!r}. `--json` prints JSON")


def write(path: Path, rows: Sequence[dict[str, Any]]) -> None:
    check_out(path)
    text = io.StringIO()
    writer = csv.DictWriter(text, columns(rows), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    with atomic(path) as file:
        file.write(text.getvalue().encode())
