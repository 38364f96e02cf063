"""unmask figure: the page of a recipe; tests/report has the pages themselves."""

from __future__ import annotations

from pathlib import Path

import pytest

from unmask.cli.figure import NAMES
from unmask.experiments import read_recipe
from unmask.report.whole import of_recipe


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("figure-3", "unknown figure 'figure-3'; did you mean figure-"),
        ("growth-networks --quick", "growth-networks-quick"),
        ("growth --out file", "it is a file"),
        ("growth --quick --set rows=0", "rows is 0"),
    ],
)
def test_mistakes_are_one_line(run, words, message):
    Path("file").touch()
    ran = run("figure", *words.split())
    assert (ran.code, ran.out, ran.err.count("\n")) == (2, "", 1)
    assert message in ran.err
    assert [path.name for path in Path().iterdir()] == ["file"]


@pytest.mark.parametrize("name", NAMES)
def test_every_figure_has_a_recipe_and_a_view(name):
    assert of_recipe(name).recipe
    assert read_recipe(name).name == name
