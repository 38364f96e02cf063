"""`unmask sweep`: thin over unmask.experiments, its JSON plain, its mistakes said."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from unmask.core.files import code
from unmask.experiments.store import Store

SQUARE = "tests.experiments.sweeps.trivial:square"
SPOILED = "tests.experiments.sweeps.trivial:spoiled"
TRUSTED = ("--allow-imports", "tests.experiments.sweeps.trivial")


@pytest.fixture
def recipe(run):
    """In the directory that `run` works in."""
    Path("squares.yaml").write_text(f"jobs: [{SQUARE}]\ngrid: {{x: [1, 2, 3]}}\nseeds: 2\n")
    return "squares.yaml"


@pytest.mark.long
def test_run_status_and_export(run, recipe):
    ran = run("sweep", "run", recipe, *TRUSTED, "--set", "x=[2,3]", "seeds=1", "--workers", 1, "--json")
    assert (ran.code, ran.err) == (0, "")
    assert (ran.result["cells"], ran.result["done"], ran.result["failed"]) == (2, 2, 0)
    assert ran.result["store"] == "sweeps/squares"
    more = run("sweep", "run", recipe, *TRUSTED)
    assert more.code == 0
    assert "done           6" in more.out
    shown = run("sweep", "status", "sweeps/squares", "--json").result
    assert (shown["cells"], shown["done"], shown["driver"]) == (6, 6, None)
    ran = run("sweep", "export", "sweeps/squares", "--out", "t.csv", "--json")
    with open("t.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == len(ran.result["table"]) == 12
    assert {"job", "x", "seed", "measure", "value", "low", "high", "n", "code_digest", "key"} <= rows[0].keys()
    assert {row["code_digest"] for row in rows} == {code()}
    squares = {(int(r["x"]), int(r["seed"])): float(r["value"]) for r in rows if r["measure"] == "square"}
    assert squares == {(x, seed): x * x + seed for x in (1, 2, 3) for seed in (0, 1)}
    assert run("sweep", "export", "sweeps/squares").code == 0
    assert Path("sweeps/squares/table.csv").read_text() == Path("t.csv").read_text()


def test_dry_run_measures_nothing(run, recipe):
    ran = run("sweep", "run", recipe, *TRUSTED, "--dry-run")
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.splitlines()[0] == f"{SQUARE}(x=1, seconds=0.0, seed=0)"
    assert "to do  6" in ran.out
    assert not Path("sweeps").exists()
    run("sweep", "run", recipe, *TRUSTED, "--set", "x=[1]")
    result = run("sweep", "run", recipe, *TRUSTED, "--dry-run", "--json").result
    assert (result["cells"], result["to_do"], len(result["grid"])) == (6, 4, 6)


@pytest.mark.long
def test_failures_are_said_and_tried_again(run):
    Path("bad.yaml").write_text(f"jobs: [{SPOILED}]\ngrid: {{x: [2, 3]}}\n")
    ran = run("sweep", "run", "bad.yaml", *TRUSTED, "--store", "s")
    assert ran.code == 2
    assert "1 cell failed. Try again: `unmask sweep retry s`" in ran.err
    assert f"failed: {SPOILED}(x=3, bad=3, how=raise, seed=0): ValueError: three is not a number" in ran.out
    ran = run("sweep", "resume", "s", "--json")  # which does not try it again
    assert (ran.result["failed"], ran.result["failures"][0]["attempts"]) == (1, 1)
    assert run("sweep", "retry", "s", *TRUSTED).code == 2
    assert run("sweep", "status", "s", "--json").result["failures"][0]["attempts"] == 1


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("run", "none.yaml"), "cannot read none.yaml"),
        (("run", "squares.yaml", "--set", "y=3", *TRUSTED), "unknown parameter: 'y'"),
        (("status", "nowhere"), "there is no sweep in nowhere"),
        (("resume", "nowhere"), "there is no sweep in nowhere"),
        (("export", "nowhere", "--out", "t.xls"), "expected a name with .csv, not '.xls'"),
        (("rum",), "did you mean run"),
    ],
)
def test_mistakes(run, recipe, arguments, expected):
    ran = run("sweep", *arguments)
    assert ran.code == 2
    assert expected in ran.err


def test_what_runs_knows_where_it_came_from(run, recipe):
    run("sweep", "run", recipe, *TRUSTED, "--store", "s")
    (made,) = Store.open("s").runs
    assert {"x": [1, 2, 3]} in made.recipe["parts"][0]["lists"]
    assert {"versions", "machine", "command", "python"} <= made.origin.keys()
    assert made.engine == "local"


def test_parts_are_merged(run, recipe):
    for part in ("1/2", "2/2"):
        ran = run("sweep", "run", recipe, *TRUSTED, "--part", part, "--engine", "here", "--json")
        assert (ran.code, ran.result["store"]) == (0, f"sweeps/squares-{part[0]}-of-2")
        assert (ran.result["cells"], ran.result["done"]) == (3, 3)
    dry = run("sweep", "run", recipe, *TRUSTED, "--part", "1/2", "--dry-run", "--json").result
    assert (dry["cells"], dry["to_do"]) == (3, 0)
    merged = run("sweep", "merge", "sweeps/squares", "sweeps/squares-1-of-2", "sweeps/squares-2-of-2")
    assert merged.code == 0
    assert "done           6" in merged.out
    assert run("sweep", "run", recipe, *TRUSTED, "--dry-run", "--json").result["to_do"] == 0
    wrong = run("sweep", "run", recipe, *TRUSTED, "--part", "3/2")
    assert (wrong.code, wrong.err.count("\n")) == (2, 1)
    assert "Write 3/40 for part 3 of 40" in wrong.err


ENGINED = {
    "sweep run": ("sweep", "run", "smoke"),
    "board": ("board", "run", "--quick"),
    "board compare": ("board", "compare", "strided", "ancestral"),
    "demo": ("demo",),
    "report": ("report", "--recipe", "gap"),
    "eval": ("eval", "--task", "sums", "--model", "m"),
}


@pytest.mark.parametrize("command", ENGINED)
def test_every_command_that_measures_takes_an_engine(run, command):
    """And passes it on: an engine of another name is refused there, before anything is written."""
    ran = run(*ENGINED[command], "--engine", "rai")
    assert (ran.code, ran.err) == (2, "unmask: error: unknown engine 'rai'; did you mean ray?\n")
    assert not list(Path().iterdir())
