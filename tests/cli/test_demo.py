"""`unmask demo`: thin over the report, and leaving nothing where it cannot finish."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from tests.report.tiny import demo
from tests.sparing import undrawn
from unmask.experiments.pool import attempt
from unmask.experiments.tables import status
from unmask.report import publishing


@pytest.fixture(autouse=True)
def tiny(monkeypatch, tmp_path):
    """Few short sequences, measured in this process."""
    place = tmp_path / "recipes"
    place.mkdir()
    demo(place)
    monkeypatch.setattr("unmask.experiments.recipe.DIRECTORIES", (place,))


FEW = ("--engine", "here", "--set", "rows=5")


@pytest.mark.long
def test_json(run):
    ran = run("demo", *FEW, "--out", "shown", "--json")
    assert ran.code == 0
    assert not ran.err or ran.err.startswith("first figures: ")  # nothing but that an early page is there
    assert ran.result["page"] == str(Path("shown/index.html").resolve())
    assert sorted([*ran.result["files"], "shown/sweep"]) == sorted(str(path) for path in Path("shown").iterdir())
    assert ran.result["seconds"] > 0
    assert len(ran.result["sentences"]) == 3
    settings = json.loads(Path("shown/data.json").read_text())["settings"]
    assert (settings["recipe"], settings["set"]) == ("demo", ["rows=5"])


def test_table(run):
    with undrawn():
        ran = run("demo", *FEW, "seeds=[3]", "--languages", "sparse-hmm", "interval-5")
    assert ran.code == 0, ran.err
    assert "Correctness: sequence error rate (SER)" in ran.out
    assert "Fluency saturates" in ran.out
    assert " at 20 tokens, " in ran.out
    assert "sparse-hmm" in ran.out
    assert str(Path("demo/index.html").resolve()) in ran.out
    assert not [*Path("demo").glob("*.svg")]  # without --svg


@pytest.fixture
def numbers_alone(monkeypatch):
    """A page of nothing, beside the records: charts take seconds to define."""

    def contents(_made, given):
        return publishing.numbers("data", publishing.records(given.shown.results)) | {"index.html": b""}

    real = publishing.page_of
    monkeypatch.setattr(publishing, "page_of", lambda name: replace(real(name), contents=contents))


@pytest.mark.usefixtures("numbers_alone")
def test_an_interrupted_demo_goes_on(run, monkeypatch):
    """What was done is not done again, and the numbers are those of an undisturbed run to the bit."""
    measured = []

    def stop(*arguments):
        if len(measured) == 8:
            raise KeyboardInterrupt
        measured.append(arguments)
        return attempt(*arguments)

    monkeypatch.setattr("unmask.experiments.pool.attempt", stop)
    assert run("demo", *FEW).code == 130
    assert [path.name for path in Path("demo").iterdir()] == ["sweep"]
    found = status("demo/sweep")
    assert (found["done"], found["running"]) == (8, 0)

    def count(*arguments):
        measured.append(arguments)
        return attempt(*arguments)

    monkeypatch.setattr("unmask.experiments.pool.attempt", count)
    assert run("demo", *FEW).code == 0
    assert len(measured) == found["cells"]
    assert run("demo", *FEW, "--out", "again").code == 0
    assert len(measured) == 2 * found["cells"]
    resumed, undisturbed = (json.loads(Path(f"{out}/data.json").read_text())["records"] for out in ("demo", "again"))
    assert resumed == undisturbed


@pytest.mark.usefixtures("numbers_alone")
def test_a_finished_demo_is_drawn_again_without_measuring(run, monkeypatch):
    assert run("demo", *FEW).code == 0
    Path("demo/index.html").unlink()
    monkeypatch.setattr("unmask.experiments.pool.attempt", pytest.fail)
    assert run("demo", *FEW).code == 0
    assert Path("demo/index.html").exists()


def test_a_cell_that_fails_is_said(run, monkeypatch):
    from unmask.experiments.pool import measure as real

    def fail(block, *arguments):
        if block.job == "prediction":
            raise MemoryError
        return real(block, *arguments)

    monkeypatch.setattr("unmask.experiments.pool.measure", fail)
    ran = run("demo", *FEW)
    assert ran.code == 2
    assert "cells failed, the first prediction (paper-2gram, 20): out of memory" in ran.err
    assert "`unmask sweep retry demo/sweep` tries again" in ran.err
    assert not Path("demo/index.html").exists()


@pytest.mark.parametrize("arguments", [("--out", "file"), ("--out", "nowhere/out"), ("--set", "rows=0")])
def test_a_mistake_is_found_before_the_work(run, monkeypatch, arguments):
    Path("file").touch()
    monkeypatch.setattr("unmask.experiments.pool.attempt", pytest.fail)
    ran = run("demo", *arguments)
    assert ran.code == 2
    assert arguments[1].replace("=", " is ") in ran.err
    assert {path.name for path in Path(".").iterdir()} == {"file", "recipes"}


def test_help_is_light():
    program = (
        "import atexit, sys; atexit.register(lambda: print(*sys.modules, file=sys.stderr));"
        "from unmask.cli.main import main; main(['demo', '--help'])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    loaded = {name.partition(".")[0] for name in done.stderr.split()}
    assert not loaded & {"torch", "numba", "altair", "pandas", "vl_convert", "numpy"}
    assert "--languages" in done.stdout
