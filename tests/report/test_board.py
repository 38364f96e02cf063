"""The page and the figure of a board: its table first, errors against cost by language."""

from __future__ import annotations

from dataclasses import replace

import pytest

from unmask.experiments.board import Settings, board
from unmask.experiments.board.grid import standard
from unmask.experiments.board.run import Failure
from unmask.report import board as drawing
from unmask.report import frame
from unmask.report.explorer import figure
from unmask.report.explorer.fragment import Explorer
from unmask.report.publishing import Context
from unmask.report.results import CURVE, Results, points


@pytest.fixture(scope="module")
def made():
    usual = ("ancestral", "strided", "speculative(draft_length=[2, 4])", "autoregressive")
    return board(Settings(usual, ("paper-2gram", "interval-5"), (20,), 20, 2, steps=(2, 20)))


@pytest.mark.rotates(3)
def test_a_figure_per_language_with_the_measured_points(made):
    drawn = drawing.fronts(made.records)
    assert list(drawn) == ["paper-2gram", "interval-5"]
    for language, definition in drawn.items():
        assert "<svg" in frame.svg(definition)
        rows = [row for row in definition["datasets"]["rows"] if row["kind"] == "mdm"]
        wanted = {
            (r["sampler"], r["model_calls"], r["value"])
            for r in made.records
            if (r["measure"], r["language"]) == ("ser", language) and r["budget"] and r["sampler"] != "autoregressive"
        }
        assert {(row["series"], row["place"], row["value"]) for row in rows} == wanted
        (ar,) = [row for row in definition["datasets"]["rows"] if row["kind"] == "even"]
        assert ar["place"] == 20  # as many model calls as tokens


def test_the_page_begins_with_the_board(made, tmp_path):
    """AUP of every sampler, the reference and what was left out stand above the figures."""
    rows = [record | {"job": CURVE, "key": ""} for record in made.records if record["budget"] is not None]
    lost = Failure("interval-5", 20, "strided", "steps", 2, "it <broke>")
    about = Context({"command": ["unmask", "board"]}, 1.0, Explorer(Results(points(rows)), drawing.VIEW), tmp_path)
    contents = drawing.contents(replace(made, failures=[lost]), made.settings, about)
    page = contents["index.html"].decode()
    table, figures = page.index("<caption>"), page.index('class="figures"')
    assert table < figures
    accuracy = {r["sampler"]: r["value"] for r in made.records if r["measure"] == "accuracy_under_parallelism"}
    assert all(f"{value:.3f}" in page[:figures] for value in accuracy.values())
    assert "compared with ancestral" in page[:figures]
    assert "left out: strided at steps = 2: it &lt;broke&gt; (interval-5)" in page[:table]


def test_few_samplers_have_a_colour_each_and_many_share_one():
    assert figure.colour("ancestral") == figure.colour("blocks(block_length=8)")
    assert figure.colour("mine.samplers:Mine(strength=[1, 2])") == figure.OWN
    assert not [name for name in standard() if figure.colour(name) == figure.OWN]

    def of(names):
        rows = [
            {"job": CURVE, "key": "", "language": "l", "length": 8, "sampler": name, "budget": 2, "measure": "ser"}
            | {"value": 0.5, "low": 0.4, "high": 0.6, "n": 9, "level": 0.95, "method": "t", "model_calls": 2.0}
            for name in names
        ]
        return figure.looks(Results(points(rows)), "sampler")

    few = of(["ancestral", "entropy", "low-confidence", "best-order"])
    assert len(set(few.values())) == 4
    assert few["best-order"] == frame.GREY
    assert len(set(of(standard()).values())) <= len(figure.KINDS)
