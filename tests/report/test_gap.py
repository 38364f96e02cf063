"""The page of the gap's study: figures of cells that have a known truth, and the curve of the most errors."""

from __future__ import annotations

import json

import pytest

from tests.sparing import in_this_process, undrawn
from unmask.cli.main import main
from unmask.report import studies
from unmask.report.page import drawn
from unmask.report.results import read
from unmask.report.verdict import Shown
from unmask.report.view import saved

WORDS = "report --recipe gap --quick --device cpu --set training_steps=10 rows=12 length=8 layers=1 steps=[4]"
WORDS += " sampler=[ancestral,strided] --out"


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    out = tmp_path_factory.mktemp("gap")
    with in_this_process(), undrawn():
        assert main([*WORDS.split(), str(out), "--json"]) == 0
    return out, read([out])


def test_the_page_shows_the_figures(made):
    out, results = made
    shown = Shown(results, saved("gap"))
    names = [*drawn(shown)]
    assert names[:2] == ["gap-divergence", "gap-ser"]
    assert "gap-answer-error" not in names
    assert len(shown.view.cards(results, shown.state)) == 1
    text = (out / "index.html").read_text()
    assert all(f'id="figure-{name}"' in text for name in names)
    assert json.loads((out / "data.json").read_text())["records"]


def test_divergences_are_those_of_the_same_rows(made):
    _, results = made
    rows = studies.gap_divergence(Shown(results)).rows
    assert {row["series"] for row in rows} == {"ancestral", "strided"}
    exact = [row for row in rows if row["sure"]]
    assert {row["model"] for row in exact} == {"ideal"}
    assert {row["model"] for row in rows} <= {"ideal", "trained"}
    assert all(row["x"] > 0 for row in exact if row["of"] == "paper-2gram(pruned=False)")


def test_the_curve_is_the_binary_divergence(made):
    """At s = s_1 no gap is needed; towards s = 1 it is log 1/s_1."""
    import math

    _, results = made
    rows = studies.gap_errors(Shown(results), "ser").rows
    curve = [row for row in rows if "series" not in row]
    (one,) = {p["value"] for p in results.of("ser") if p["sampler"] == "fixed-size"}
    if 0 < one < 1:
        assert (curve[0]["x"], curve[0]["value"]) == (pytest.approx(0, abs=1e-9), one)
        assert curve[-1]["x"] == pytest.approx(-math.log(one))
        middle = curve[50]["value"]
        expected = middle * math.log(middle / one) + (1 - middle) * math.log((1 - middle) / (1 - one))
        assert curve[50]["x"] == pytest.approx(expected)
    else:
        assert not curve
    points = [row for row in rows if "series" in row]
    expected = {(p["steps"], p["value"]) for p in results.of("ser") if p["model"] == "trained" and p["steps"] == 4}
    assert {(row["steps"], row["value"]) for row in points} >= expected
