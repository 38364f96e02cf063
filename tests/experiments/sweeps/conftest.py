from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from unmask.experiments import Sweep, sweep
from unmask.experiments.cell import Place, Record, call, cell_of, find
from unmask.experiments.store import FILE, Store

ROOT = Path(__file__).parents[3]
SQUARE = "tests.experiments.sweeps.trivial:square"
PROGRAM = """
import json, sys
from unmask.experiments import sweep
sweep(json.loads(sys.argv[1]), **json.loads(sys.argv[2]))
"""


def results(directory: Path) -> dict[str, Any]:
    """The records of each finished cell."""
    store = Store.open(directory)
    return {key: store.records(key) for key in store.cells if key in store.done}


class Bench:
    """A store, the log of what was measured in it, and drivers that are processes of their own."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.store = directory / "store"
        self.log = directory / "log"
        self.kills = 0  # of drivers

    def sweep(self, recipe: dict[str, Any], workers: int = 2, **options: Any) -> Sweep:
        return sweep({"name": "t"} | recipe, store=self.store, workers=workers, **options)

    def drive(self, recipe: dict[str, Any], **options: Any) -> subprocess.Popen[str]:
        """A driver of its own, which nobody's death but its own ends."""
        settings = json.dumps({"store": str(self.store), "workers": 2} | options)
        paths = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
        return subprocess.Popen(
            [sys.executable, "-c", PROGRAM, json.dumps({"name": "t"} | recipe), settings],
            env=os.environ | {"PYTHONPATH": paths},
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def hold(self, first: int) -> None:
        """Cells of `square` from this x on begin, but end only after `release`, however slow the machine is."""
        Path(f"{self.log}.held").write_text(str(first))

    def release(self) -> None:
        Path(f"{self.log}.held").unlink()

    def measured(self) -> Counter[str]:
        """How often each cell was begun."""
        return Counter(self.log.read_text().splitlines() if self.log.exists() else ())

    @property
    def content(self) -> Store:
        return Store.open(self.store)

    def records(self) -> list[Any]:
        store = self.content
        return sorted((key, done.records) for key, done in store.done.items())

    def whole(self) -> bool:
        """Whether each line is JSON, but for those that a kill has cut."""
        *lines, last = (self.store / FILE).read_bytes().split(b"\n")
        return sum(not is_json(line) for line in lines) <= self.kills and (not last or self.kills > 0)


def is_json(line: bytes) -> bool:
    try:
        return isinstance(json.loads(line), dict)
    except ValueError:
        return False


def measured(job: str, place: Path = Path(), needed: Sequence[Path] = (), **values: Any) -> list[Record]:
    """The records of a cell that no engine measures."""
    cell, found = cell_of({"job": job} | values), find(job)
    result = call(found.run, cell.values, place=Place(place, tuple(needed)))
    return call(found.run.records, cell.values, tally=result) if found.merges else result


def by_name(records: Sequence[Record]) -> dict[str, Record]:
    return {record["measure"]: record for record in records}


@pytest.fixture
def bench(tmp_path, monkeypatch) -> Bench:
    made = Bench(tmp_path)
    monkeypatch.setenv("TRIVIAL_LOG", str(made.log))
    return made


@pytest.fixture
def undisturbed(tmp_path_factory, monkeypatch):
    """The records of a recipe where nothing goes wrong."""

    def run(recipe: dict[str, Any]) -> list[Any]:
        made = Bench(tmp_path_factory.mktemp("undisturbed"))
        monkeypatch.setenv("TRIVIAL_LOG", str(made.log))
        made.sweep(recipe)
        return made.records()

    return run
