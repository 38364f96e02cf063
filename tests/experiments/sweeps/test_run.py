"""What a run does besides surviving: cells that need others, the engine that is this process, another code."""

from __future__ import annotations

import pytest

from tests.experiments.sweeps.conftest import SQUARE, Bench
from unmask.core import files
from unmask.core.errors import UnmaskError
from unmask.experiments import run, tables
from unmask.experiments.run import resume
from unmask.experiments.store import Block, writing
from unmask.experiments.tables import status

HARVEST = "tests.experiments.sweeps.trivial:harvest"
TOTAL = "tests.experiments.sweeps.trivial:total"
GRID = {"jobs": [HARVEST], "grid": {"x": [1, 2, 3], "factor": [1, 10]}}
TRUSTED = {"engine": "here", "allow_imports": ["tests.experiments.sweeps.trivial"]}


@pytest.fixture(params=["local", "here"])
def engine(request):
    return {"engine": request.param, "workers": 2 if request.param == "local" else None}


def another_code(monkeypatch) -> None:
    for module in (run, files, tables):
        monkeypatch.setattr(module, "code", lambda: "another")


@pytest.mark.long
def test_what_a_cell_needs_is_measured_once_and_before_it(bench: Bench, engine):
    table = bench.sweep(GRID, **engine).table()
    found = table[table["measure"] == "harvest"]
    assert dict(zip(zip(found["x"], found["factor"], strict=True), found["value"], strict=True)) == {
        (x, factor): x * factor for x in (1, 2, 3) for factor in (1, 10)
    }
    assert {bench.measured()[f"sown {x}"] for x in (1, 2, 3)} == {1}
    bench.sweep(GRID | {"grid": {"x": [3, 4], "factor": [2]}}, **engine)  # one of them is there
    assert {bench.measured()[f"sown {x}"] for x in (3, 4)} == {1}


def test_what_needs_a_failed_cell_fails_with_it(bench: Bench, engine):
    recipe = GRID | {"fixed": {"bad": 2}}
    bench.sweep(recipe, **engine)
    found = status(bench.store)
    assert (found["done"], found["failed"], found["todo"]) == (6, 3, 0)
    errors = {failure["cell"]["job"]: failure["error"] for failure in found["failures"]}
    assert "nothing grows" in errors[HARVEST]
    assert "which has failed" in errors[HARVEST]
    assert not any(line.startswith("harvest 2") for line in bench.measured())
    bench.sweep(recipe | {"grid": {"x": [2], "factor": [7]}}, **engine)  # asked for after it has failed
    assert (status(bench.store)["failed"], status(bench.store)["todo"]) == (4, 0)


ENGINE = "tests.experiments.sweeps.trivial:backwards"


def test_an_engine_of_your_own_measures(bench: Bench, tmp_path):
    """The user names it, so that a recipe in a file, which may import nothing, is no reason to refuse it."""
    recipe = tmp_path / "r.json"
    recipe.write_text('{"name": "r", "jobs": ["theory"], "grid": {"language": ["interval-5"], "steps": [4, 8, 16]}}')
    usual = run.sweep(recipe, store=tmp_path / "usual", engine="here", length=[8])
    made = run.sweep(recipe, store=bench.store, engine=f"{ENGINE}(bonus=3)", length=[8])
    assert [row["value"] for row in made.rows()] == [row["value"] + 3 for row in usual.rows()]
    done = [made.store.spec(key)["steps"] for key in made.store.done]
    assert done == [16, 8, 4]
    assert made.store.runs[-1].engine == f"{ENGINE}(bonus=3)"


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"engine": "locl"}, "unknown engine 'locl'; did you mean local"),
        ({"engine": f"{ENGINE}(speed=2)"}, "unknown option .*'speed'; known: bonus"),
        ({"engine": f"{ENGINE}(bonus='x')"}, "bonus of engine .* is 'x'; expected a whole number"),
        ({"engine": "os:getcwd"}, "not declared to return an engine; write .* -> Generator"),
        ({"address": "auto"}, "address is set, but engine `local` is this machine alone"),
    ],
)
def test_a_wrong_engine_makes_no_store(bench: Bench, options, problem):
    with pytest.raises(UnmaskError, match=problem):
        bench.sweep(GRID, **options)
    assert not bench.store.exists()


def test_this_process_alone_measures_the_same(bench: Bench, undisturbed):
    recipe = {"jobs": [SQUARE, TOTAL], "grid": {"x": [1, 2, 3]}, "rows": 21}
    expected = undisturbed(recipe)
    bench.sweep(recipe, workers=None, engine="here")
    assert bench.records() == expected
    for more in ({"workers": 2}, {"workers": None, "limit": 3}):
        with pytest.raises(UnmaskError, match="this process only"):
            bench.sweep(recipe, engine="here", **more)


def test_fresh_is_what_this_code_has_measured(bench: Bench, monkeypatch):
    recipe = {"jobs": [SQUARE, HARVEST], "grid": {"x": [1, 2]}}
    for _ in range(2):
        bench.sweep(recipe, workers=None, engine="here", fresh=True)
    another_code(monkeypatch)
    bench.sweep(recipe, workers=None, engine="here")  # a sweep keeps what it has
    assert set(bench.measured().values()) == {1}
    assert status(bench.store)["code_versions"] == 1
    bench.sweep(recipe | {"grid": {"x": [1, 2, 3]}}, workers=None, engine="here")
    assert (status(bench.store)["code_versions"], status(bench.store)["of_other_code"]) == (2, 6)
    bench.sweep(recipe, workers=None, engine="here", fresh=True)
    assert bench.measured()["1 0"] == bench.measured()["harvest 1 1"] == 2
    assert bench.measured()["sown 1"] == 1  # which lasts


def test_parts_of_a_cell_are_of_one_code(bench: Bench, monkeypatch):
    """A block of the same code is used as it is; one of another is measured again."""
    bench.sweep({"jobs": [TOTAL], "rows": 12}, workers=None, engine="here")
    ((stem, blocks),) = bench.content.blocks.items()
    with writing(bench.store) as store:
        store.append(Block(stem, 0, 4, blocks[0, 4].code, 1.0, {"sum": 999, "rows": 4}))
    assert bench.sweep({"jobs": [TOTAL], "rows": 16}, workers=None, engine="here").rows()[0]["value"] > 999
    another_code(monkeypatch)
    found = bench.sweep({"jobs": [TOTAL], "rows": 20}, workers=None, engine="here").rows()
    assert found[0]["value"] == sum(range(20))


def test_a_store_goes_on_without_its_recipe(bench: Bench, undisturbed, monkeypatch):
    recipe = {"jobs": [TOTAL, HARVEST], "grid": {"x": [1, 2]}, "rows": 9}
    expected = undisturbed(recipe)
    bench.sweep(recipe, workers=None, engine="here")
    path = bench.store / "sweep.jsonl"
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join(line for line in lines if '"done"' not in line))
    assert len(resume(bench.store, **TRUSTED).keys) == len(bench.records()) == 5
    assert bench.records() == expected


@pytest.mark.long
def test_the_bar_moves_with_every_block_and_ends_full(bench: Bench, monkeypatch, engine):
    seen = []

    class Track:
        def __init__(self, label, total):
            seen.append((label, total))

        def __enter__(self):
            return seen.append

        def __exit__(self, *_):
            return None

    monkeypatch.setattr(run.progress, "track", Track)
    bench.sweep({"jobs": [TOTAL], "rows": 40}, **engine)
    assert seen[0] == ("t", 10)
    assert sum(seen[1:]) == 10
