"""What the driver does besides surviving: cells that need others, the engine that is this process, another code."""

from __future__ import annotations

import pytest

from tests.experiments.sweeps.conftest import SQUARE, Bench
from unmask.core import files
from unmask.core.errors import UnmaskError
from unmask.experiments.sweeps import driver, run
from unmask.experiments.sweeps.status import status
from unmask.experiments.sweeps.store import Store

HARVEST = "tests.experiments.sweeps.trivial:harvest"
TOTAL = "tests.experiments.sweeps.trivial:total"
GRID = {"jobs": [HARVEST], "grid": {"x": [1, 2, 3], "factor": [1, 10]}}


@pytest.fixture(params=["local", "here"])
def engine(request):
    return {"engine": request.param, "workers": 2 if request.param == "local" else None}


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


def test_this_process_alone_measures_the_same(bench: Bench, undisturbed):
    recipe = {"jobs": [SQUARE, TOTAL], "grid": {"x": [1, 2, 3]}, "rows": 21}
    expected = undisturbed(recipe)
    bench.sweep(recipe, workers=None, engine="here")
    assert bench.records() == expected
    with pytest.raises(UnmaskError, match="this process only"):
        bench.sweep(recipe, workers=2, engine="here")
    with pytest.raises(UnmaskError, match="this process only"):
        bench.sweep(recipe, workers=None, engine="here", limit=3)


def test_fresh_is_what_this_code_has_measured(bench: Bench, monkeypatch):
    recipe = {"jobs": [SQUARE, HARVEST], "grid": {"x": [1, 2]}}
    bench.sweep(recipe, workers=None, engine="here", fresh=True)
    bench.sweep(recipe, workers=None, engine="here", fresh=True)
    assert set(bench.measured().values()) == {1}
    for module in (run, files):
        monkeypatch.setattr(module, "code", lambda: "another")
    bench.sweep(recipe, workers=None, engine="here")  # a sweep keeps what it has
    assert set(bench.measured().values()) == {1}
    assert status(bench.store)["code_versions"] == 1
    bench.sweep(recipe | {"grid": {"x": [1, 2, 3]}}, workers=None, engine="here")
    assert status(bench.store)["code_versions"] == 2
    bench.sweep(recipe, workers=None, engine="here", fresh=True)
    assert bench.measured()["1 0"] == bench.measured()["harvest 1 1"] == 2
    assert bench.measured()["sown 1"] == 1  # which lasts


def test_parts_of_a_cell_are_of_one_code(bench: Bench, monkeypatch):
    recipe = {"jobs": [TOTAL], "rows": 12}
    bench.sweep(recipe, workers=None, engine="here")

    def spoil():
        with Store.open(bench.store) as store, store.writing() as connection:
            connection.execute("update cell set state = 'todo'")
            store.keep(store.keys()[0], (0, 4), {"sum": 999, "rows": 4}, 1.0)

    spoil()
    bench.sweep(recipe, workers=None, engine="here")
    assert bench.sweep(recipe, workers=None, engine="here").rows()[0]["value"] > 999  # of the same code
    spoil()
    monkeypatch.setattr(files, "code", lambda: "another")
    assert bench.sweep(recipe, workers=None, engine="here").rows()[0]["value"] == sum(range(12))


def test_the_bar_moves_with_every_block_and_ends_full(bench: Bench, monkeypatch, engine):
    seen = []

    class Track:
        def __init__(self, label, total):
            seen.append((label, total))

        def __enter__(self):
            return seen.append

        def __exit__(self, *_):
            return None

    monkeypatch.setattr(driver.progress, "track", Track)
    bench.sweep({"jobs": [TOTAL], "rows": 40}, **engine)
    (label, total), *steps = seen
    assert label == "t"
    assert total - len(steps) <= sum(steps) <= total
    moves = len([step for step in steps if step])
    assert 2 <= moves <= 10  # what ends together moves it once
