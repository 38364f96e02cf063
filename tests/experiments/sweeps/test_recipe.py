"""Recipes and cells: what is read, what is refused, and what makes a cell the same cell."""

from __future__ import annotations

import inspect
import re
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from unmask.core.errors import UnmaskError
from unmask.experiments import recipe
from unmask.experiments.cell import EMPTY, INDEX, JOBS, Cell, cells_of, check, digest, find
from unmask.experiments.recipe import from_dict, read_recipe, settings

SQUARE = "tests.experiments.sweeps.trivial:square"
TOTAL = "tests.experiments.sweeps.trivial:total"
SPOILED = "tests.experiments.sweeps.trivial:spoiled"
HARVEST = "tests.experiments.sweeps.trivial:harvest"
RECIPES = sorted((Path(__file__).parents[3] / "recipes").glob("*.yaml"))
GRID = {"name": "g", "jobs": [SQUARE], "grid": {"x": [1, 2, 3]}, "seeds": 2}
OF = {"jobs": ["samples"]}


def xs(recipe):
    return [(cell.spec["x"], cell.spec["seed"]) for cell in cells_of(recipe)]


def test_a_grid_is_every_combination():
    assert xs(from_dict(GRID)) == [(1, 0), (1, 1), (2, 0), (2, 1), (3, 0), (3, 1)]
    assert cells_of(from_dict(GRID))[0].spec == {"job": SQUARE, "x": 1, "seconds": 0.0, "seed": 0}


def test_tied_lists_are_walked_together():
    tied = {"x": [1, 2], "seconds": [0, 0.5]}
    made = cells_of(from_dict({"jobs": [SQUARE], "zip": tied}, "z"))
    assert [(cell.spec["x"], cell.spec["seconds"]) for cell in made] == [(1, 0.0), (2, 0.5)]
    assert type(made[0].spec["seconds"]) is float
    twice = cells_of(from_dict({"jobs": [SQUARE], "zip": [{"x": [1, 2]}, {"seconds": [0, 0.5]}]}, "z"))
    assert len(twice) == 4


def test_a_dotted_key_is_an_option_of_a_spec():
    """Random languages take it, others ignore it; the spec's own option wins, and a default is left out."""
    languages = ["paper-2gram", "paper-2gram(pruned=False, seed=7)", "interval-5"]
    content = {"jobs": ["samples"], "grid": {"language": languages, "language.seed": [0, 3]}, "fixed": {"length": 8}}
    found = [cell.spec["language"] for cell in cells_of(from_dict(content, "l"))]
    assert found == ["paper-2gram", "paper-2gram(seed=3)", "paper-2gram(seed=7, pruned=False)", "interval-5"]
    content = {"jobs": ["samples"], "fixed": {"language": "interval-5", "sampler": "blocks(block_length=5)"}}
    (cell,) = cells_of(from_dict(content | {"grid": {"sampler.inner": ["strided"]}}, "s"))
    assert cell.spec["sampler"] == "blocks(inner='strided', block_length=5)"


def test_a_cell_is_there_once():
    """theory has no rows and no sampler: points that differ in them are one cell of it."""
    recipe = from_dict(
        {
            "jobs": ["samples", "theory"],
            "grid": {"sampler": ["ancestral", "gibbs"], "steps": [4, 8]},
            "fixed": {"language": "interval-5"},
            "rows": 10,
        },
        "t",
    )
    found = [cell.job for cell in cells_of(recipe)]
    assert (found.count("samples"), found.count("theory")) == (4, 2)


def test_the_key_is_the_content():
    a, b = Cell(SQUARE, {"x": 1, "seed": 0}), Cell(SQUARE, {"seed": 0, "x": 1})
    assert a.key == b.key == a.stem
    assert a.key != Cell(SQUARE, {"x": 2, "seed": 0}).key
    total = {"first_row": 0, "length": 2**16, "seconds": 0.0}
    few, many = Cell(TOTAL, total | {"rows": 4}), Cell(TOTAL, total | {"rows": 9})
    assert few.key != many.key
    assert few.stem == many.stem


def test_each_job_is_where_the_index_says():
    """And each function that has the attributes of a job is in the index."""
    for name in INDEX:
        assert find(name).run.__module__ == INDEX[name]
    for module in set(INDEX.values()):
        own = vars(import_module(module)).items()
        found = {name: value for name, value in own if inspect.isfunction(value) and value.__module__ == module}
        jobs = {name for name, value in found.items() if getattr(value, "check", None)}
        assert jobs == {name for name in INDEX if INDEX[name] == module}


def test_a_program_registers_its_own():
    @JOBS.register("mine")
    def mine(x: int) -> list[dict[str, Any]]:
        return []

    assert find("mine").fields == {"x": EMPTY}
    assert JOBS.names()[-1] == "mine"
    del JOBS._makers["mine"]


def test_a_file_is_known_by_its_content(tmp_path):
    (tmp_path / "a").write_text("1")
    before = digest(str(tmp_path)), digest(str(tmp_path / "a"))
    (tmp_path / "a").write_text("2")
    assert before != (digest(str(tmp_path)), digest(str(tmp_path / "a")))
    assert digest("paper-2gram") == ""


def test_blocks_are_what_is_left():
    cell = Cell(TOTAL, {"rows": 11, "first_row": 5, "length": 2**16, "seconds": 0.0})
    assert cell.blocks(()) == ([], [(5, 3), (8, 4), (12, 4)])
    assert cell.blocks([(9, 4), (5, 2)]) == ([(5, 2), (9, 4)], [(7, 1), (8, 1), (13, 3)])
    assert cell.blocks([(5, 1), (5, 20), (5, 3), (8, 4), (12, 4), (0, 5)]) == ([(5, 3), (8, 4), (12, 4)], [])


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (GRID | {"girds": {}}, "a recipe: unknown key 'girds'; did you mean grid"),
        (GRID | {"grid": {"w": [1], "x": [], "y": []}}, "grid.x does not fit; expected a list of length >= 1"),
        (GRID | {"grid": {"x": [{"a": 1}]}}, "grid.x[0] is a mapping"),
        (GRID | {"fixed": {"x": 1}}, "x is set more than once"),
        (GRID | {"zip": {"a": [1], "b": [1, 2]}}, "a has 1, b has 2"),
        (GRID | {"rows": 0}, "rows is 0"),
        (GRID | {"seeds": []}, "seeds "),
        (GRID | {"jobs": []}, "jobs does not fit; expected a list of length >= 1"),
        (GRID | {"jobs": ""}, "jobs does not fit"),
        (GRID | {"parts": [{"jobs": []}]}, "parts[0].jobs does not fit; expected a list of length >= 1"),
        (GRID | {"name": "../up"}, "expected letters, digits"),
        (GRID | {"grid": {"seed": [1]}, "seeds": 2}, "seed is set more than once"),
        ([], "a recipe is a mapping"),
        ({"parts": []}, "parts "),
        ({"parts": [{"jobs": [SQUARE], "gird": {}}]}, "unknown key of parts[0]: 'gird'; did you mean grid"),
        ({"parts": [{"jobs": [SQUARE], "name": "x"}]}, "unknown key of parts[0]: 'name'"),
        ({"parts": [{"grid": {"x": [1]}}]}, "no jobs"),
        ({"fixed": {"x": 1}, "parts": [{"jobs": [SQUARE], "grid": {"x": [2]}}]}, "x is set more than once"),
        ({"jobs": ["sampls"]}, "unknown job 'sampls'; did you mean samples"),
        ({"jobs": ["samples"], "fixed": {"lenght": 3}}, "did you mean length"),
        ({"jobs": ["samples(colour=3)"]}, "unknown parameter of job 'samples': 'colour'"),
        ({"jobs": [SQUARE]}, "needs x"),
        ({"jobs": ["theory"], "fixed": {"language": "paper-2gram", "langage.seed": 1}}, "parameter: 'langage.seed'"),
        (OF | {"fixed": {"language": "interval-5", "length": "long"}}, "length of job 'samples' is 'long'"),
        (OF | {"fixed": {"language": "interval-5", "steps": True}}, "expected a whole number"),
        (OF, "needs language"),
        (OF | {"fixed": {"language": "interval5"}}, "'interval5'; did you mean interval-5"),
        (OF | {"fixed": {"language": "paper-2gram", "language.sed": 1}}, "unknown option of language 'paper-2gram'"),
        (OF | {"fixed": {"language": "interval-5", "sampler": "ancestrl"}}, "did you mean ancestral"),
        (OF | {"fixed": {"language": "interval-5", "steps": 0}}, "steps is 0"),
        (OF | {"fixed": {"language": "interval-5", "seed": -1}}, "seed is"),
        (OF | {"fixed": {"language": "interval-5", "first_row": 2**63 - 2}}, "first_row is"),
        (OF | {"fixed": {"language": "interval-5", "rows": 10**12}}, "rows is 1000000000000"),
        (OF | {"fixed": {"language": "interval-5", "length": 2**20, "rows": 10**9}}, "more than 100000 blocks"),
        (OF | {"fixed": {"language": "interval-5", "prompt_length": 512}}, "prompt_length is 512; expected 0 to 511"),
    ],
)
def test_mistakes_are_found_before_anything_is_measured(content, expected):
    with pytest.raises(UnmaskError, match=re.escape(expected)):
        check(cells_of(from_dict(content, "r")))


def test_changes():
    recipe = from_dict(GRID | {"fixed": {"seconds": 0.5}, "zip": {"a": [1, 2], "b": [3, 4]}})

    def changed(**changes):
        (part,) = recipe.with_changes(changes).parts
        return {", ".join(tied): [*tied.values()] for tied in part.lists}

    assert changed(x=[7, 8])["x"] == [(7, 8)]
    moved = changed(x=7, seconds=[1, 2])
    assert (moved["x"], moved["seconds"]) == ([(7,)], [(1, 2)])
    other = changed(**settings(["seeds=[5]", "rows=3", "name=other"]))
    assert (other["seed"], other["rows"]) == ([(5,)], [(3,)])
    assert recipe.with_changes({"name": "other"}).name == "other"
    for changes in ({"jobs": []}, {"jobs": ""}, {"x": []}, {"seeds": []}):
        with pytest.raises(UnmaskError, match=f"{min(changes)} does not fit"):
            recipe.with_changes(changes)
    assert changed(a=[5, 6])["a, b"] == [(5, 6), (3, 4)]
    assert changed(a=[5, 6, 7], b=[8, 9, 0])["a, b"] == [(5, 6, 7), (8, 9, 0)]  # longer, both at once
    apart = changed(a=5)
    assert (apart["a"], apart["b"]) == ([(5,)], [(3, 4)])
    paired = from_dict({"jobs": [SQUARE], "zip": {"x": [1, 2], "seed": [3, 4]}}, "p")
    for changes, expected in (({"seeds": 1}, [(1, 0), (2, 0)]), ({"seed": [5, 6]}, [(1, 5), (2, 6)])):
        assert xs(paired.with_changes(changes)) == expected
    with pytest.raises(UnmaskError, match="equally long"):
        changed(a=[5])
    with pytest.raises(UnmaskError, match="not grid itself"):
        changed(grid=3)
    with pytest.raises(UnmaskError, match="write name=value"):
        settings(["steps"])


PARTS = {
    "seeds": 2,
    "fixed": {"seconds": 0.5},
    "parts": [
        {"jobs": [SQUARE], "grid": {"x": [1, 2]}},
        {"jobs": [SPOILED], "fixed": {"x": 3, "how": "nan"}, "seeds": [7]},
    ],
}


def test_parts_are_grids_of_their_own():
    made = [cell.spec for cell in cells_of(from_dict(PARTS, "p"))]
    assert [(spec["job"], spec["x"], spec["seed"]) for spec in made] == [
        (SQUARE, 1, 0),
        (SQUARE, 1, 1),
        (SQUARE, 2, 0),
        (SQUARE, 2, 1),
        (SPOILED, 3, 7),
    ]
    assert {spec["seconds"] for spec in made if spec["job"] == SQUARE} == {0.5}


def test_a_change_is_for_the_parts_that_know_the_name():
    recipe = from_dict(PARTS, "p")
    assert [spec.spec.get("how") for spec in cells_of(recipe.with_changes({"how": "kill"}))] == [None] * 4 + ["kill"]
    assert [cell.spec["x"] for cell in cells_of(recipe.with_changes({"x": 5}))] == [5, 5, 5]
    everywhere = cells_of(recipe.with_changes({"bad": 1}))  # which none has named
    assert [cell.spec.get("bad") for cell in everywhere] == [None] * 4 + [1]


def test_what_a_cell_needs_stands_before_it():
    cells = cells_of(from_dict({"jobs": [HARVEST], "grid": {"x": [1, 2], "factor": [1, 10]}}, "r"))
    found = [(cell.job.partition(":")[2], cell.spec["x"]) for cell in cells]
    assert found == [("sown", 1), ("harvest", 1), ("harvest", 1), ("sown", 2), ("harvest", 2), ("harvest", 2)]
    assert "place" not in cells[0].spec
    assert "needed" not in cells[1].spec
    assert [cell.key for cell in cells[1].needs] == [cells[0].key]


def test_ours_are_found_by_name(tmp_path, monkeypatch):
    """As they are installed, beside the modules; where a file of one's own has the same name, it is meant."""
    monkeypatch.chdir(tmp_path)
    assert list(recipe.packaged().values()) == RECIPES
    assert read_recipe("smoke") == read_recipe(RECIPES[[path.stem for path in RECIPES].index("smoke")])
    Path("lengths").mkdir()  # what a sweep has written, say
    assert read_recipe("lengths").name == "lengths"
    Path("smoke").write_text("name: mine\njobs: [ser]\n")
    assert read_recipe("smoke").name == "mine"
    monkeypatch.setattr(recipe, "DIRECTORIES", (tmp_path / "nowhere", tmp_path / "neither"))
    with pytest.raises(UnmaskError, match="lengths"):
        read_recipe("lengths")
