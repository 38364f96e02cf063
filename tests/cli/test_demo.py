"""`unmask demo`: thin over the report, and leaving nothing where it cannot finish."""

from __future__ import annotations

import json
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest

from unmask import progress, report
from unmask.report import plan

TINY = {"steps": (2, 64), "length": 20, "panel_lengths": (10, 20), "profile_rows": 5, "perplexity_rows": 5}
TINY |= {"samplers": ("ancestral",), "sampler_languages": ("interval-5",), "sampler_length": 20, "sampler_rows": 8}


@pytest.fixture(autouse=True)
def tiny(monkeypatch):
    monkeypatch.setattr(report, "Settings", partial(report.Settings, **TINY))


FEW = ("--rows", 10, "--small-rows", 5)


def test_json(run):
    ran = run("demo", *FEW, "--out", "shown", "--json")
    assert (ran.code, ran.err) == (0, "")
    assert ran.result["page"] == str(Path("shown/index.html").resolve())
    assert sorted(ran.result["files"]) == sorted(str(path) for path in Path("shown").iterdir())
    assert ran.result["seconds"] > 0
    assert len(ran.result["sentences"]) == 3
    settings = json.loads(Path("shown/data.json").read_text())["settings"]
    assert (settings["rows"], settings["small_rows"], settings["seed"]) == (10, 5, 0)


def test_table(run):
    ran = run("demo", *FEW, "--seed", 3, "--generative-perplexity", "--lengths", "sparse-hmm")
    assert (ran.code, ran.err) == (0, "")
    assert "SER, the share of wrong sequences" in ran.out
    assert "Generative perplexity" in ran.out
    assert "sparse-hmm" in ran.out
    assert str(Path("demo/index.html").resolve()) in ran.out
    assert Path("demo/generative-perplexity.svg").exists()
    assert json.loads(Path("demo/data.json").read_text())["settings"]["seed"] == 3


def test_an_interruption_leaves_nothing(run, monkeypatch):
    def stop(cells):
        raise KeyboardInterrupt

    monkeypatch.setattr("unmask.report.run.measure", stop)
    assert run("demo", *FEW).code == 130
    assert list(Path(".").iterdir()) == []


@pytest.mark.parametrize("arguments", [("--out", "file"), ("--out", "nowhere/out"), ("--rows", 0)])
def test_a_mistake_is_found_before_the_work(run, monkeypatch, arguments):
    Path("file").touch()
    monkeypatch.setattr("unmask.report.run.measure", pytest.fail)
    ran = run("demo", *arguments)
    assert ran.code == 2
    assert str(arguments[1]) in ran.err
    assert [path.name for path in Path(".").iterdir()] == ["file"]


def test_one_bar_for_everything(monkeypatch):
    """The outer track counts all of the cost."""
    seen = []

    class Track:
        def __init__(self, label, total):
            self.total, self.done = total, 0
            seen.append(self)

        def __enter__(self):
            return self.advance

        def __exit__(self, *_):
            return None

        def advance(self, steps):
            self.done += steps

    monkeypatch.setattr(progress, "track", Track)
    cells = plan.cells(report.Settings(10, 5))[:6]
    plan.measure(cells)
    assert seen[0].done == seen[0].total == sum(cell.cost for cell in cells)


def test_help_is_light():
    program = (
        "import atexit, sys; atexit.register(lambda: print(*sys.modules, file=sys.stderr));"
        "from unmask.cli.main import main; main(['demo', '--help'])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    loaded = {name.partition(".")[0] for name in done.stderr.split()}
    assert not loaded & {"torch", "numba", "altair", "pandas", "vl_convert", "numpy"}
    assert "--generative-perplexity" in done.stdout
