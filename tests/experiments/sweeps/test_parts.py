"""Parts of a sweep in stores of their own, and one store of all."""

from __future__ import annotations

import pytest
from msgspec import structs

from tests.experiments.sweeps.conftest import SQUARE, Bench
from unmask.core.errors import UnmaskError
from unmask.experiments import sweep
from unmask.experiments.cell import cells_of
from unmask.experiments.parts import Part, merge
from unmask.experiments.recipe import from_dict
from unmask.experiments.store import writing
from unmask.experiments.tables import status

HARVEST = "tests.experiments.sweeps.trivial:harvest"
SPOILED = "tests.experiments.sweeps.trivial:spoiled"
TOTAL = "tests.experiments.sweeps.trivial:total"
PARTS = [
    {"jobs": [HARVEST], "grid": {"x": [1, 2, 3], "factor": [1, 10]}},
    {"jobs": [TOTAL], "grid": {"rows": [8, 12]}},
    {"jobs": [SQUARE], "grid": {"x": [4, 5]}},
]
RECIPE = {"name": "t", "parts": PARTS}


@pytest.mark.parametrize("parts", [1, 2, 3, 9])
def test_parts_are_all_cells_and_what_belongs_together_is_in_one(parts):
    cells = cells_of(from_dict(RECIPE, "t"))
    own = [Part(number, parts).cells(cells) for number in range(1, parts + 1)]
    assert sorted(cell.key for part in own for cell in part) == sorted(cell.key for cell in cells)
    for part in own:
        keys = {cell.key for cell in part}
        assert keys >= {needed.key for cell in part for needed in cell.needs}
    assert sum(any(cell.job == TOTAL for cell in part) for part in own) == 1  # two cells, which share their blocks
    if parts == 3:  # six groups: three fields, the totals, two squares
        assert sorted(len({cell.stem for cell in part if not cell.job.endswith("harvest")}) for part in own) == [
            2,
            2,
            2,
        ]


def test_merged_parts_are_the_whole(bench: Bench, tmp_path):
    """Their records and files; a part that is not there is measured in the merged store, and nothing else is."""
    sweep(RECIPE, store=tmp_path / "whole", engine="here")
    begun = bench.measured()
    bench.log.unlink()
    places = [tmp_path / f"part-{number}" for number in (1, 2, 3)]
    for number, place in enumerate(places, 1):
        sweep(RECIPE, store=place, part=f"{number}/3", engine="here")
    assert bench.measured() == begun
    merge(bench.store, places[:2])
    assert 0 < status(bench.store)["done"] < len(cells_of(from_dict(RECIPE, "t")))
    bench.log.unlink()
    merge(bench.store, places)
    size = (bench.store / "sweep.jsonl").stat().st_size
    assert merge(bench.store, places).todo == []  # again: nothing is there twice
    assert (bench.store / "sweep.jsonl").stat().st_size == size
    made = sweep(RECIPE, store=bench.store, engine="here")
    assert not bench.measured()
    whole = Bench(tmp_path)
    whole.store = tmp_path / "whole"
    assert bench.records() == whole.records()
    sown = [key for key in made.keys if made.store.cells[key].job.endswith("sown")]
    assert [(made.store.place(key) / "kept.txt").read_text() for key in sown] == ["1\n", "2\n", "3\n"]
    sweep({"name": "t", "jobs": [TOTAL], "rows": 16}, store=bench.store, engine="here")  # rows 0 .. 11 came
    assert [line for line in bench.measured() if line[0] in "0123456789" and line.endswith(" 4")] == ["12 4"]


def test_a_failure_gives_way_to_an_answer(bench: Bench, tmp_path):
    recipe = {"name": "t", "jobs": [SPOILED], "grid": {"x": [3, 4]}}
    sweep(recipe, store=tmp_path / "bad", engine="here")
    made = merge(bench.store, [tmp_path / "bad"])
    assert (len(made.done), len(made.failed)) == (1, 1)
    (key,), (done,) = made.failed, made.done.values()
    with writing(tmp_path / "good") as good:
        good.append(*made.runs, *made.cells.values(), done, structs.replace(done, key=key))
    assert (len(merge(bench.store, [tmp_path / "good"]).done), bench.content.failed) == (2, {})
    assert len(merge(bench.store, [tmp_path / "bad"]).done) == 2  # and an answer stays


@pytest.mark.parametrize("text", ["0/4", "5/4", "1", "a/4", "1/0", "-1/4", "1/4/4"])
def test_a_wrong_part_is_said(bench: Bench, text):
    with pytest.raises(UnmaskError, match=r"expected K/N with K from 1 to N. Write 3/40 for part 3 of 40"):
        bench.sweep(RECIPE, part=text)
    assert not bench.store.exists()


def test_a_store_is_not_its_own_part(bench: Bench):
    bench.sweep({"jobs": [SQUARE], "grid": {"x": [1]}})
    with pytest.raises(UnmaskError, match="is also a part"):
        merge(bench.store, [bench.store])
    with pytest.raises(UnmaskError, match="there is no sweep in"):
        merge(bench.store, [bench.directory / "none"])
