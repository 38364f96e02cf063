"""What a notebook shows of an object: a chart that draws, and HTML that asks nobody for anything."""

from __future__ import annotations

import ast
import json
from pathlib import Path

import pytest

import unmask
from unmask.core.errors import UnmaskError
from unmask.report import charts, notebook

TOUR = Path(__file__).parents[2] / "examples" / "tour.ipynb"
LANGUAGE = unmask.languages.load("interval-5")


def _sweep(tmp_path):
    recipe = {"name": "small", "jobs": ["samples", "autoregressive"], "grid": {"steps": [2, 8]}, "rows": 30}
    recipe |= {"fixed": {"language": "interval-5", "length": 20}}
    return unmask.sweep(recipe, store=tmp_path / "store", engine="here")


def _board(tmp_path):
    settings = {"samplers": ("ancestral", "strided"), "languages": ("interval-5",), "lengths": (20,), "rows": 20}
    return unmask.board.board(unmask.board.quick(**settings, seeds=1))


MADE = {
    "generation": lambda _: unmask.generate(LANGUAGE, steps=4, length=20, rows=5),
    "curve": lambda _: unmask.theory.sampled.information_curve(LANGUAGE, 20, rows=20),
    "board": _board,
    "sweep": _sweep,
}


@pytest.mark.rotates(4)
@pytest.mark.parametrize("kind", MADE)
def test_it_is_drawn_with_its_own_numbers(kind, tmp_path):
    thing = MADE[kind](tmp_path)
    definition = thing.plot().to_dict()
    assert "<svg" in charts.svg(definition)
    assert any(definition.get("datasets", {}).values())
    said = thing._repr_html_()
    assert "<svg" in said
    assert "http" not in said.replace("http://www.w3.org", "")
    if kind == "generation":
        (rows,) = definition["datasets"].values()
        assert [row["step"] for row in rows] == thing.order.flatten().tolist()
    if kind == "sweep":
        rows = [row for rows in definition["datasets"].values() for row in rows]
        drawn = {row["x"]: row["value"] for row in rows if row.get("dot")}
        assert drawn == {r["steps"]: r["value"] for r in thing.rows() if (r["measure"], r["job"]) == ("ser", "samples")}


def test_what_nobody_draws_is_refused():
    with pytest.raises(UnmaskError, match="a list has no drawing; expected a generation"):
        notebook.plot([])


def test_the_tour_runs():
    """Every cell of examples/tour.ipynb, as a notebook runs it; what a cell ends with has a drawing, or is a chart."""
    cells = json.loads(TOUR.read_text())["cells"]
    space: dict[str, object] = {}
    shown = []
    for cell in cells:
        if cell["cell_type"] == "code":
            *body, last = ast.parse(cell["source"]).body
            exec(compile(ast.Module(body, []), str(TOUR), "exec"), space)
            if isinstance(last, ast.Expr):
                shown.append(eval(compile(ast.Expression(last.value), str(TOUR), "eval"), space))
            else:
                exec(compile(ast.Module([last], []), str(TOUR), "exec"), space)
    drawn = [thing for thing in shown if thing is not None]
    assert [type(thing).__name__ for thing in drawn] == [
        "Generation",
        "Score",
        "Chart",
        "Verdict",
        "Audit",
        "Sweep",
    ]
    assert all(not cell.get("outputs") for cell in cells)
