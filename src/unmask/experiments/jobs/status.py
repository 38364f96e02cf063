"""What a store says of its sweep: how far it is, how fast it goes, what has failed, and who drives it."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from unmask.core.files import code
from unmask.experiments.jobs.cells import Cell
from unmask.experiments.jobs.lock import holder
from unmask.experiments.jobs.opening import FILE
from unmask.experiments.jobs.store import Store

FAILURES_SHOWN = 20


def status(directory: str | Path) -> dict[str, Any]:
    """Counts by state; pace and seconds left, by the last run; versions of the code, what is old, failures."""
    directory = Path(directory)
    with Store.open(directory) as store:
        query = "select state, count(*), coalesce(sum(cost), 0.0) from cell group by state"
        found = store.connection.execute(query).fetchall()
        counts = {state: count for state, count, _ in found}
        costs = {state: cost for state, _, cost in found}
        driver = holder(directory)
        if driver is None:  # whoever had begun them is gone
            counts["interrupted"] = counts.pop("running", 0)
        failures = [
            {"key": key, "cell": spec, "error": error, "attempts": attempts}
            for key, spec, error, attempts in store.failed(FAILURES_SHOWN)
        ]
        left = costs.get("todo", 0.0) + costs.get("running", 0.0)
        rate, seconds_left = _pace(store, left, driver is not None)
        return {
            "store": str(directory),
            "cells": sum(counts.values()),
            **{state: counts.get(state, 0) for state in ("done", "running", "interrupted", "todo", "failed")},
            "cells_a_second": rate,
            "seconds_left": seconds_left if left_over(counts) else 0.0,
            "code_versions": _code_versions(store),
            "of_other_code": _of_other_code(store),
            "driver": driver,
            "failures": failures,
        }


def _code_versions(store: Store) -> int:
    """How many versions of the code have measured what is done: numbers of several should not stand side by side."""
    query = "select distinct json_extract(origin, '$.code') from run where number in "
    return len(store.connection.execute(query + "(select distinct run from cell where state = 'done')").fetchall())


def _of_other_code(store: Store) -> int:
    """How many cells are done that another version of the code than this one has measured: they are old."""
    query = "select count(*) from cell where state = 'done' and run in "
    others = "(select number from run where json_extract(origin, '$.code') is not ?)"
    return int(store.connection.execute(query + others, (code(),)).fetchone()[0])


def left_over(counts: Mapping[str, int]) -> int:
    return sum(counts.get(state, 0) for state in ("running", "interrupted", "todo"))


def _pace(store: Store, left: float, driven: bool) -> tuple[float | None, float | None]:
    """(cells a second, seconds left) by the last run; None before it has done anything."""
    query = "select number, began, heartbeat, ended from run order by number desc limit 1"
    last = store.connection.execute(query).fetchone()
    if last is None:
        return None, None
    number, began, heartbeat, ended = last
    seconds = (time.time() if driven else ended or heartbeat) - began
    query = "select count(*), coalesce(sum(cost), 0.0) from cell where state = 'done' and run = ?"
    cells, cost = store.connection.execute(query, (number,)).fetchone()
    if seconds <= 0 or cells == 0:
        return None, None
    return cells / seconds, left * seconds / cost if cost > 0 else None


def estimate(cells: Sequence[Cell], directory: str | Path | None = None) -> tuple[int, float]:
    """(cells to do, seconds of one core), by what cells of these metrics have taken in the store, if there is one."""
    pace: dict[str, float] = {}
    done: set[str] = set()
    if directory is not None and os.path.lexists(Path(directory) / FILE):
        with Store.open(directory) as store:
            done = store.done()
            query = "select metric, sum(seconds), sum(cost) from cell where state = 'done' group by metric"
            pace = {metric: seconds / cost for metric, seconds, cost in store.connection.execute(query) if cost > 0}
    count, total, passes = 0, 0.0, set()
    for cell in cells:
        if cell.key in done:
            continue
        count += 1
        if cell.measure.shares:
            if cell.shared in passes:
                continue
            passes.add(cell.shared)
        total += cell.cost * pace.get(cell.metric, 1.0)
    return count, total
