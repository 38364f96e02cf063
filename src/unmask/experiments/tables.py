"""The status of a store, and its records as a table."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import msgspec

from unmask.core.entries import column, picked, without
from unmask.core.errors import UnmaskError
from unmask.core.files import atomic, code
from unmask.experiments.store import Store, holder

ESTIMATE = ("measure", "value", "low", "high", "n", "level", "method", "model_calls")
AFTER = (*ESTIMATE, "language_digest", "code_digest", "seconds", "key")
FAILURES_SHOWN = 20


def status(directory: str | Path) -> dict[str, Any]:
    """Counts by state, code versions, failures."""
    store, (last, alive) = Store.open(directory), holder(Path(directory))
    running = min(last.running, len(store.todo)) if last and alive else 0
    failures = list(store.failed.items())[:FAILURES_SHOWN]

    return {
        "store": str(directory),
        "cells": len(store.cells),
        "done": len(store.done),
        "running": running,
        "todo": len(store.todo) - running,
        "failed": len(store.failed),
        "code_versions": len(set(column(store.done.values(), "code"))),
        "of_other_code": sum(one.code != code() for one in store.done.values()),
        "driver": msgspec.structs.asdict(last) if last and alive else None,
        "failures": [
            {"key": key, "cell": store.spec(key), "error": one.error, "attempts": one.attempts} for key, one in failures
        ],
    }


def columns(rows: Sequence[dict[str, Any]]) -> list[str]:
    """Names of columns: the fields of cells first, then the fields of records."""
    every = dict.fromkeys(chain.from_iterable(rows))
    return [*sorted(without(every, AFTER), key=lambda name: name != "job"), *picked(every, AFTER)]


def check_out(path: Path) -> None:
    """Refuse a wrong file name before any work."""
    if path.suffix != ".csv":
        raise UnmaskError(f"{path}: expected a name with .csv, not {path.suffix!r}. `--json` prints JSON")


def write(path: Path, rows: Sequence[dict[str, Any]]) -> None:
    with atomic(path) as file:
        file.write(csv_of(rows, columns(rows)).encode())


def csv_of(rows: Sequence[Mapping[str, Any]], names: Sequence[str] = ()) -> str:
    """names: of the columns. (default: all, in the order of the rows)"""
    text = io.StringIO()
    writer = csv.DictWriter(text, names or list(dict.fromkeys(chain.from_iterable(rows))), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()
