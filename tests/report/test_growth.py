"""The page on growth: every row is a measured number, and cards name the lengths that were measured."""

from __future__ import annotations

import pytest

from unmask.experiments import sweep
from unmask.report.figures import GROWTH, drawn, label
from unmask.report.publishing import Selection, page_of
from unmask.report.results import read
from unmask.report.verdict import Shown

PAGE = page_of("growth")
SET = ("rows=20", "length=[8,16]", "most=16", "steps=[2,4]", "language=[paper-2gram,interval(width=2)]")


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    out = tmp_path_factory.mktemp("growth")
    sweep(PAGE.recipe(Selection("growth-quick", SET)), store=out, engine="here")
    return read([out])


def test_rows_are_what_was_measured(results):
    points = [p for p in results.of("steps_for_ser") if p["setting"] == "ser=0.1"]
    assert {p["sampler"] for p in points} >= {"ancestral", "uniform-ancestral"}
    rows, of = GROWTH["growth-1"](Shown(results)).rows, Shown(results).languages
    expected = {(p["of"], label(p), p["length"], p["value"]) for p in points if p["value"] is not None}
    assert {(of[int(row["l"])], row["series"], row["x"], row["value"]) for row in rows} == expected
    assert GROWTH["growth-01"](Shown(results)) is None


def test_networks_of_both_kinds_of_noise(tmp_path):
    page = page_of("growth-networks")
    small = ("rows=20", "length=8", "training_steps=2", "layers=1", "steps=[2,4]", "language=[paper-2gram]")
    sweep(page.recipe(Selection("growth-networks", small)), store=tmp_path / "s", engine="here")
    results = read([tmp_path / "s"])
    figures = drawn(Shown(results, page.view))
    assert list(figures) == ["ser-by-network", "front"]
    expected = {(p["sampler"], p["model_calls"], p["value"]) for p in results.of("ser")}
    assert expected <= {(r["series"], r["x"], r["value"]) for r in figures["front"].rows}
    assert {name.rpartition(", ")[2] for name in results.networks} == {"MDM", "uniform noise"}
    assert "with 4 steps" not in f"{page.view.cards(results, Shown(results).state)}"  # cards are for 8 steps


def test_the_page_has_them_for_one_language(results):
    shown = Shown(results, PAGE.view)
    figures = drawn(shown)
    assert {"growth-1", "growth-5"} <= set(figures)
    assert not {"growth-01", "lengths"} & set(figures)
    numbers = {row["k"] for row in figures["growth-1"].rows if row["l"] == "0"}
    assert len(numbers) == 1
    assert "at 8 and at 16 tokens" in f"{shown.view.cards(results, shown.state)}"
