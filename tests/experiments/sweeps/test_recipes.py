"""The recipes of this project: each is what it says it is, and runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.experiments.sweeps.conftest import measured
from tests.sparing import held_out_in_part
from unmask.experiments import read_recipe, sweep
from unmask.experiments.cell import cells_of, check

PLACE = Path(__file__).parents[3] / "recipes"
RECIPES = sorted(PLACE.glob("*.yaml"))
TINY = {"rows": 3, "length": 20, "seeds": 1}
SMALLER = {
    "smoke": {"steps": [4]},
    "lengths": {"steps": 4},
    "figure-1-exact": {"steps": [8, 2048]},
    "demo": {"steps": [8]},
    "joint": {"steps": [4]},
    "board": {"sampler": ["ancestral", "threshold", "autoregressive"], "language": ["paper-2gram", "interval-5"]},
    "figure-1": {"preset": "quick", "language": ["paper-2gram"], "steps": [4], "layers": 1, "training_steps": 2},
    "figure-1-quick": {"preset": "quick", "language": ["paper-2gram"], "steps": [4], "layers": 1, "training_steps": 2},
    "figure-2-quick": {"tokenizer": "chars", "layers": 1, "hidden": 16, "steps": [4], "training_steps": 2},
    "figure-2": {"tokenizer": "chars", "layers": 1, "hidden": 16, "steps": [4], "training_steps": 2},
    "growth": {"language": "paper-2gram", "length": 8, "most": 2, "steps": 2, "ser": 0.5},
    "growth-quick": {"language": "paper-2gram", "length": 8, "most": 2, "steps": 2, "ser": 0.5},
    "growth-networks": {"preset": "quick", "language": "paper-2gram", "training_steps": 2, "layers": 1, "steps": 4},
    "learning": {"language": ["paper-2gram"], "layers": 1, "training_steps": 2},
    "reasoning": {"language": "modular-sum", "length": 17, "preset": "sums", "prompt_length": 0, "training_steps": 2}
    | {"sampler": ["ancestral"], "steps": 4, "layers": 1},
    "gap": {"language": "paper-2gram", "preset": "quick", "prompt_length": 0, "training_steps": 2, "layers": 1}
    | {"sampler": ["strided"], "steps": 4},
    "gap-quick": {"language": "paper-2gram", "training_steps": 2, "sampler": ["strided"], "steps": 4, "layers": 1},
    "infilling": {"tokenizer": "chars", "layers": 1, "span": 4, "steps": 4, "training_steps": 2},
    "reasoning-quick": {"length": 19, "training_steps": 2, "sampler": ["ancestral"], "steps": 4, "layers": 1},
}
SIZES = {"smoke": 51, "lengths": 90, "figure-1-exact": 135, "demo": 129, "board": 504}
SIZES |= {"figure-1-quick": 96, "figure-2-quick": 27, "learning": 9, "reasoning": 74}
SIZES |= {"figure-1": 88, "figure-2": 27, "reasoning-quick": 27, "growth": 313, "growth-quick": 78}
SIZES |= {"gap": 406, "gap-quick": 74, "growth-networks": 78, "joint": 30}
SIZES |= {"infilling": 37, "figure-2-tasks": 10, "strategies": 22}
OF_WEIGHTS = ("figure-2-tasks", "strategies")  # published models on tasks of lm-eval


@pytest.mark.sampled(4)
@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)
def test_what_it_would_measure(path):
    recipe = read_recipe(path)
    cells = cells_of(recipe)
    assert (recipe.name, len(cells)) == (path.stem, SIZES[path.stem])
    assert len({cell.key for cell in cells}) == len(cells)
    if path.stem not in OF_WEIGHTS:
        check(cells)


@pytest.mark.sampled(19)
@pytest.mark.parametrize("path", [p for p in RECIPES if p.stem not in OF_WEIGHTS], ids=lambda path: path.stem)
@held_out_in_part()
def test_it_runs(path, tmp_path):
    cells = cells_of(read_recipe(path, TINY | SMALLER[path.stem]))
    for cell in cells:
        values = cell.values | ({"rows": 3} if "rows" in cell.values else {})
        needed = [tmp_path / other.stem for other in cell.needs]
        records = measured(cell.job, tmp_path / cell.stem, needed, **values)
        assert records or cell.job == "theory", values  # of which there may be none
        for record in records:
            if record["value"] is None:
                assert record["note"]  # why there is none
                continue
            assert (record["low"] or 0) <= record["value"] <= (record["high"] or record["value"])


@pytest.mark.long
def test_two_workers_and_this_process_agree_to_the_bit(tmp_path):
    """The smallest grid of every job, cut into blocks by its length."""
    changes = {"steps": [8], "rows": 150, "length": 2050, "language": ["paper-2gram", "interval-5"]}
    path = next(path for path in RECIPES if path.stem == "figure-1-exact")
    recipe = read_recipe(path, changes | {"jobs": ["samples", "ter_upper(rows=3)", "theory"]})
    ways = ({"engine": "here"}, {"workers": 2})
    found = [sweep(recipe, store=tmp_path / next(iter(how)), **how) for how in ways]
    tables = [made.table().drop(columns="seconds") for made in found]
    assert tables[0].equals(tables[1])
    assert len(tables[0]["key"].unique()) == 6
