"""The page on growth: every row is a measured number, and cards name the lengths that were measured."""

from __future__ import annotations

import pytest

from unmask.experiments import sweep
from unmask.report.explorer.figures import growth
from unmask.report.explorer.fragment import Explorer
from unmask.report.results import read
from unmask.report.whole import Selection, of_recipe

PAGE = of_recipe("growth")
SET = ("rows=20", "length=[8,16]", "most=16", "steps=[2,4]", "language=[paper-2gram,interval(width=2)]")


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    out = tmp_path_factory.mktemp("growth")
    sweep(PAGE.recipe(Selection("growth-quick", SET)), store=out, engine="here")
    return read([out])


@pytest.mark.rotates(3)
def test_rows_are_what_was_measured(results):
    points = [p for p in results.of("steps_for_ser") if p["setting"] == "ser=0.1"]
    assert {p["sampler"] for p in points} >= {"ancestral", "uniform-ancestral"}
    for what in (growth.STEPS, growth.CALLS):
        rows = growth.own(results, "0.1", what)
        expected = {(p["of"], growth.label(p), p["length"], p[what.field]) for p in points}
        assert {(row["of"], row["series"], row["place"], row["value"]) for row in rows} == expected
    near = {(p["of"], growth.label(p), p["length"], p["value"]) for p in results.of("bigram_distance")}
    assert {(r["of"], r["series"], r["place"], r["value"]) for r in growth.own(results, "0.5", growth.DISTANCE)} < near
    assert not growth.own(results, "0.01", growth.STEPS)


def test_networks_of_both_kinds_of_noise(tmp_path):
    page = of_recipe("growth-networks")
    small = ("rows=20", "length=8", "training_steps=2", "layers=1", "steps=[2,4]", "language=[paper-2gram]")
    sweep(page.recipe(Selection("growth-networks", small)), store=tmp_path / "s", engine="here")
    results = read([tmp_path / "s"])
    rows = growth.learned(results)
    expected = {(p["model"], p["sampler"], p["model_calls"], p["value"]) for p in results.of("ser")}
    samplers = {name: sampler for sampler, name in growth.NOISES.items()}
    assert {(r["model"], samplers[r["noise"]], r["place"], r["value"]) for r in rows} == expected
    assert len(rows) == 8
    explorer = Explorer(results, page.view)
    assert "growth-networks" in [figure.name for figure in explorer.figures]
    assert {training.kind for training in results.trainings} == {"mdm", "uniform noise"}
    assert "with 4 steps" not in " ".join(f"{card}" for card in explorer.cards)  # cards are for 8 steps


def test_the_page_has_them_for_one_language(results):
    explorer = Explorer(results, PAGE.view)
    names = [figure.name for figure in explorer.figures]
    assert {"growth-5", "growth-1", "growth-1-calls", "growth-1-distance"} <= set(names)
    assert not {"growth-01", "lengths"} & set(names)
    drawn = explorer.drawn(next(figure for figure in explorer.figures if figure.name == "growth-1"), of="paper-2gram")
    assert {row["of"] for row in drawn["datasets"]["rows"]} == {"paper-2gram"}
    texts = " ".join(f"{card}" for card in explorer.cards)
    assert "at 8 and at 16 tokens" in texts
