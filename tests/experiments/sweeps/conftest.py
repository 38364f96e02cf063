from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from unmask.experiments.sweeps import sweep
from unmask.experiments.sweeps.run import Sweep
from unmask.experiments.sweeps.store import Store

ROOT = Path(__file__).parents[3]
SQUARE = "tests.experiments.sweeps.trivial:square"
PROGRAM = """
import json, sys
from unmask.experiments.sweeps import sweep
sweep(json.loads(sys.argv[1]), **json.loads(sys.argv[2]))
"""


class Bench:
    """A store, the log of what was measured in it, and drivers that are processes of their own."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.store = directory / "store"
        self.log = directory / "log"

    def sweep(self, recipe: dict[str, Any], workers: int = 2, **options: Any) -> Sweep:
        return sweep({"name": "t"} | recipe, store=self.store, workers=workers, **options)

    def drive(self, recipe: dict[str, Any], **options: Any) -> subprocess.Popen[str]:
        """A driver of its own, which nobody's death but its own ends."""
        import json

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

    def ask(self, query: str) -> list[Any]:
        with Store.open(self.store) as store:
            return store.connection.execute(query).fetchall()

    def records(self) -> list[Any]:
        return self.ask("select key, records from cell where state = 'done' order by key")

    def whole(self) -> bool:
        return self.ask("pragma integrity_check") == [("ok",)]


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
