"""The page and the figure of a board: its table first, errors against cost by language."""

from __future__ import annotations

from dataclasses import replace

import pytest

from unmask.experiments.board import Settings, board
from unmask.experiments.board.run import Failure
from unmask.report import publishing
from unmask.report.figures import front
from unmask.report.publishing import Context
from unmask.report.results import Results, points
from unmask.report.verdict import ORACLES, Shown


@pytest.fixture(scope="module")
def made():
    usual = ("ancestral", "strided", "speculative(draft_length=[2, 4])", "autoregressive", ORACLES[-1])
    where = {"languages": ("paper-2gram", "interval-5"), "lengths": (20,)}
    return board(Settings(samplers=usual, **where, rows=20, seeds=2, steps=(2, 20)))


@pytest.fixture(scope="module")
def shown(made):
    rows = [record | {"job": "curve", "key": ""} for record in made.records if record["budget"] is not None]
    return Shown(Results(points(rows)), publishing.BOARD.view)


@pytest.mark.long
def test_a_drawing_per_language_with_the_measured_points(made, shown):
    figure = front(shown)
    for number, language in enumerate(shown.languages):
        rows = [row for row in figure.rows if row["l"] == str(number) and row["kind"] == "mdm"]
        wanted = {
            (r["sampler"].partition("(")[0], r["model_calls"], r["value"])
            for r in made.records
            if (r["measure"], r["language"]) == ("ser", language) and r["budget"] and r["sampler"] != "autoregressive"
        }
        assert wanted <= {(row["series"], row["x"], row["value"]) for row in rows}


def test_nothing_is_better_and_cheaper_than_the_front(shown):
    rows = [row for row in front(shown).rows if row["series"] not in ORACLES]
    ser = [row for row in rows if row["k"] == 0]
    best = [row for row in ser if row["front"]]
    assert best
    assert not [r for r in best for other in ser if other["x"] < r["x"] and other["value"] <= r["value"]]
    assert not [row for row in front(shown).rows if row["front"] and row["series"] in ORACLES]


def test_the_page_begins_with_the_board(made, shown):
    """AUP of every sampler, the reference and what was left out stand above the figures."""
    lost = Failure("interval-5", 20, "strided", "steps", 2, "it <broke>")
    given = Context({"command": ["unmask", "board"]}, replace(shown, results=replace(shown.results)))
    page = publishing.board_contents(replace(made, failures=[lost]), given)["index.html"].decode()
    table, figures = page.index("<caption>"), page.index('class="figures"')
    assert table < figures
    accuracy = {r["sampler"]: r["value"] for r in made.records if r["measure"] == "accuracy_under_parallelism"}
    assert all(f"{value:.3f}" in page[:figures] for value in accuracy.values())
    assert "compared with ancestral" in page[:figures]
    assert "left out: strided at steps = 2: it &lt;broke&gt; (interval-5)" in page[:table]
