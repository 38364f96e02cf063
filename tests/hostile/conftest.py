"""Valid files of every kind, made by our own commands, and cases run in this process, each in its own directory."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import unmask
from tests.hostile.promise import Case, Ran, bounded, broken, snapshot
from tests.sparing import in_this_process, undrawn
from unmask.cli.main import main
from unmask.core import memory
from unmask.experiments.store import Failed, writing

NGRAM = {"kind": "ngram", "order": 2, "initial": [0.5, 0.5], "transition": [[0.25, 0.75], [1, 0]]}
TINY = """\
name: tiny
jobs: [samples]
fixed: {language: interval-5, length: 8}
grid: {steps: [2, 4, 8]}
rows: 10
"""
COMMANDS = """
generate --language interval-5 --length 8 --rows 5 --steps 4 --out samples.npy
generate --language ngram.json --prompt-length 2 --length 8 --rows 5 --steps 4 --out prompted.npy
train --language paper-2gram --steps 2 --hidden 16 --heads 2 --layers 1 --length 8 --batch 4 --out net
board --rows 10 --samplers ancestral strided --languages interval-5 --lengths 8 --steps 2 4 --seeds 2 --out board
"""
MEMORY = 2**30  # bytes, of the machine that commands see


@pytest.fixture(scope="session")
def valid(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory of valid files. Its store has a cell that is done, one that is to do, and one that has failed."""
    place = tmp_path_factory.mktemp("valid")
    with pytest.MonkeyPatch.context() as patch, in_this_process(), undrawn():
        patch.chdir(place)
        Path("ngram.json").write_text(json.dumps(NGRAM))
        Path("text").write_text("the cat sat on the mat, and the rat ran.\n" * 3)
        Path("tiny.yaml").write_text(TINY)
        for line in COMMANDS.strip().splitlines():
            assert main(line.split()) == 0, line
        unmask.sweep("tiny.yaml", store="store", engine="here")
        with writing("store") as store:
            _, todo, failed = store.cells.values()
            store.append(todo, Failed(failed.key, "code", 1, "no reason"))
    return place


@pytest.fixture
def keeps(valid: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Callable[[Case], Ran]:
    """Runs a case; the result has what breaks the promise."""

    def run(case: Case) -> Ran:
        place = tmp_path / f"{len(os.listdir(tmp_path))}"
        place.mkdir()
        case.put(place, valid)
        before = snapshot(place)
        with pytest.MonkeyPatch.context() as patch, in_this_process(), undrawn():
            patch.chdir(place)
            patch.setattr(memory, "available", lambda: MEMORY)
            patch.setattr(sys, "path", [path for path in sys.path if path])  # as of the program, when it starts
            for name, value in case.environment.items():
                patch.setenv(name, value)
            capsys.readouterr()
            with bounded():
                code = main(list(case.words))
        err = capsys.readouterr().err
        return Ran(code, err, list(broken(case, code, err, before, snapshot(place))))

    return run
