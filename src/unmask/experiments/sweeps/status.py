"""Progress, speed, failures and driver of a sweep."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from unmask.core.files import code
from unmask.experiments.sweeps.cells import Cell
from unmask.experiments.sweeps.database import holder
from unmask.experiments.sweeps.store import Store

FAILURES_SHOWN = 20


def status(directory: str | Path) -> dict[str, Any]:
    """Counts by state, speed and remaining time from the last run, code versions, failures."""
    directory = Path(directory)
    with Store.open(directory) as store:
        ask = store.connection.execute
        counts, left = {"todo": 0, "done": 0, "failed": 0}, 0.0
        for state, count, cost in ask("select state, count(*), sum(cost) from cell group by state").fetchall():
            counts[state] = count
            left = cost if state == "todo" else left
        driver = holder(directory)
        last = ask("select number, began, last, running from run order by number desc limit 1").fetchone()
        running = min(last[3], counts["todo"]) if last else 0
        rate, seconds_left = None, None
        if last:
            seconds = (last[2] if driver is None else time.time()) - last[1]
            query = "select count(*), coalesce(sum(cost), 0.0) from cell where state = 'done' and run = ?"
            cells, cost = ask(query, last[:1]).fetchone()
            if seconds > 0 and cells:
                rate, seconds_left = cells / seconds, left * seconds / cost if cost > 0 else None
        codes = "select distinct run from cell where state = 'done'"
        failures = ask(
            "select key, error, attempts from cell where state = 'failed' order by number limit ?", (FAILURES_SHOWN,)
        ).fetchall()
        return {
            "store": str(directory),
            "cells": sum(counts.values()),
            "done": counts["done"],
            "running": 0 if driver is None else running,
            "interrupted": running if driver is None else 0,
            "todo": counts["todo"] - running,
            "failed": counts["failed"],
            "cells_a_second": rate,
            "seconds_left": seconds_left if counts["todo"] else 0.0,
            "code_versions": ask(f"select count(distinct code) from run where number in ({codes})").fetchone()[0],
            "of_other_code": ask(
                "select count(*) from cell join run on cell.run = run.number where state = 'done' and code <> ?",
                (code(),),
            ).fetchone()[0],
            "driver": driver,
            "failures": [
                {"key": key, "cell": store.spec(key), "error": error, "attempts": attempts}
                for key, error, attempts in failures
            ],
        }


def estimate(cells: Sequence[Cell], directory: str | Path | None = None) -> tuple[int, float]:
    """(cells to measure, seconds of one core), from the times of the same jobs in the store, if it exists."""
    pace: dict[str, float] = {}
    done: set[str] = set()
    store = None if directory is None or not os.path.isdir(directory) else Store.find(directory)
    if store is not None:
        with store:
            done = store.done()
            query = "select job, sum(seconds), sum(cost) from cell where state = 'done' group by job"
            pace = {job: seconds / cost for job, seconds, cost in store.connection.execute(query) if cost > 0}
    todo = [cell for cell in cells if cell.key not in done]
    passes = {cell.shared if cell.measure.shares else cell.key: cell for cell in reversed(todo)}
    return len(todo), sum(cell.cost * pace.get(cell.job, 1.0) for cell in passes.values())
