"""Cells are pure, and say what the library says."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from unmask import generate, languages, metrics, score
from unmask.board import Settings as BoardSettings
from unmask.board import board
from unmask.errors import UnmaskError
from unmask.report import Settings
from unmask.report.cells import (
    Autoregression,
    Correctness,
    Fluency,
    GenerativePerplexity,
    Predicted,
    Standings,
)
from unmask.report.plan import cells, measure
from unmask.schedules import deltas
from unmask.theory.exact import exact

TINY = Settings(
    rows=20,
    small_rows=6,
    steps=(2, 8, 64),
    length=20,
    panel_lengths=(10, 20),
    profile_rows=5,
    perplexity_rows=5,
    generative_perplexity=True,
    samplers=("ancestral", "left-to-right"),
    sampler_length=20,
    sampler_rows=8,
)


def by_measure(records):
    return {(r["measure"], r["steps"]): r for r in records}


def test_correctness_is_generate_and_score():
    made = generate(languages.preset("paper-3gram", seed=4), steps=7, length=30, rows=40, seed=4)
    (record,) = Correctness("paper-3gram", 30, 40, 4, steps=7).records()
    ser = score(made, languages.preset("paper-3gram", seed=4)).ser
    assert {name: record[name] for name in ser.to_dict()} == ser.to_dict()
    assert record["evaluations"] == float(made.evaluations.double().mean())
    assert (record["language"], record["length"], record["steps"], record["pruned"]) == ("paper-3gram", 30, 7, True)


def test_generative_perplexity_is_of_the_unpruned_language():
    language = languages.preset("paper-2gram", pruned=False)
    made = generate(language, steps=4, length=30, rows=40)
    found = by_measure(GenerativePerplexity("paper-2gram", 30, 40, pruned=False, steps=4).records())
    expected = score(made, language).generative_perplexity.value
    assert found["generative_perplexity", 4]["value"] == expected
    own = metrics.ter_autoregressive(language, 30).value
    assert found["generative_perplexity_ratio", 4]["value"] == pytest.approx(expected / own)


def test_fluency_is_the_profile():
    profile = metrics.profile(languages.preset("sparse-hmm", seed=1), 16, 30, seed=1)
    found = by_measure(Fluency("sparse-hmm", 16, 30, 1, steps=(2, 50)).records())
    for n in (2, 50):
        assert found["ter_upper", n]["value"] == profile.ter_upper("linear", n).value
        excess = profile.divergence(deltas("linear", n)).value
        assert found["ter_upper_ratio", n]["value"] == pytest.approx(math.exp(excess / 16))


def test_the_ratio_is_of_the_bound_to_the_language():
    """Measured on the same rows, it agrees with the quotient of the bound and the exact TER(q)."""
    found = by_measure(Fluency("paper-2gram", 16, 400, steps=(4,)).records())
    own = metrics.ter_autoregressive(languages.preset("paper-2gram"), 16).value
    quotient = found["ter_upper", 4]
    assert quotient["low"] / own < found["ter_upper_ratio", 4]["value"] < quotient["high"] / own


def test_fluency_of_interval_is_exact():
    language = languages.preset("interval-5")
    found = by_measure(Fluency("interval-5", 512, 0, steps=(1, 8)).records())
    for n in (1, 8):  # at these 1 - SER is below what a float holds beside 1
        assert found["ter", n]["value"] == metrics.ter(language, 512, "linear", n).value
        assert found["ter_ratio", n]["method"] == "exact"
        assert 1 < found["ter_ratio", n]["value"] <= 4


def test_the_curve_of_interval_is_exact():
    language = languages.preset("interval-5")
    found = by_measure(Predicted("interval-5", 33, 0, steps=(8, 2048)).records())
    steps = [n for measure, n in found if measure == "ser_predicted"]
    assert (steps[0], steps[-1]) == (8, 2048)
    assert steps == sorted(set(steps))
    own = metrics.ter_autoregressive(language, 33).value
    for n in steps:
        assert found["ser_predicted", n]["value"] == metrics.exact_ser(language, 33, deltas("linear", n))
        assert found["ter_ratio_predicted", n]["value"] == metrics.ter(language, 33, "linear", n).value / own


def test_the_curve_of_a_chain_is_where_it_is_known_exactly():
    language, length = languages.preset("paper-2gram"), 40
    found = by_measure(Predicted("paper-2gram", length, 0, steps=(4, 64)).records())
    for n in (4, 8, 64):
        truth = exact(language, length, deltas("linear", n))
        assert found["ser_predicted", n]["value"] == pytest.approx(truth.ser, abs=0.01)
        nats = truth.expected_plan_divergence_nats
        assert found["ter_ratio_predicted", n]["value"] == pytest.approx(math.exp(nats / length), rel=1e-9)


def test_what_has_no_theory_has_no_curve():
    assert not Predicted.knows(languages.preset("sparse-hmm"), 512)
    assert not Predicted.knows(languages.preset("paper-3gram"), 512)


def test_autoregression_has_neither_error():
    found = by_measure(Autoregression("paper-2gram", 20, 0).records())
    assert (found["ser", None]["value"], found["ser", None]["method"]) == (0.0, "exact")
    assert found["ter_ratio", None]["value"] == 1.0
    assert all(record["evaluations"] == 20 for record in found.values())
    made = generate(languages.preset("paper-2gram"), sampler="autoregressive", length=20, rows=200)
    assert score(made, languages.preset("paper-2gram")).invalid_rows == 0
    assert set(made.evaluations.tolist()) == {20}


def test_standings_are_a_small_board():
    cell = Standings("interval-5", 20, 8, samplers=("ancestral", "left-to-right"))
    made = board(BoardSettings(cell.samplers, ("interval-5",), (20,), 4, 2, quick=True, ter_share=0))
    drawn = [r for r in made.records if r["measure"] in ("ser", "diversity")]
    assert cell.records() == [r | {"pruned": True, "steps": r["budget"]} for r in drawn]
    assert {r["sampler"] for r in drawn} == set(cell.samplers)


def test_cells_are_pure():
    plan = cells(TINY)
    assert len(set(plan)) == len(plan)
    chosen = plan[::5]
    assert measure(chosen) == measure(chosen) == [record for cell in chosen for record in cell.records()]
    assert all(cell.cost > 0 for cell in plan)


def test_the_plan_has_what_the_issue_asks_for():
    plan = cells(Settings())
    points = {(c.language, c.steps): c.rows for c in plan if type(c) is Correctness}
    few = {"paper-3gram", "paper-4gram"}
    languages_shown = {"paper-2gram", "sparse-hmm", "interval-5"} | few
    expected = {(name, 2**k): 500 if name in few else 2000 for name in languages_shown for k in range(3, 12)}
    assert points == expected
    assert {c.length for c in plan if type(c) is Correctness} == {512}
    assert not any(isinstance(c, GenerativePerplexity) for c in plan)
    more = cells(replace(Settings(), generative_perplexity=True, lengths=("sparse-hmm",)))
    assert {c.rows for c in more if isinstance(c, GenerativePerplexity)} == {200}
    assert {(c.language, c.length) for c in more if type(c).__name__ == "StepsForFluency"} == {
        (name, 2**k) for name in ("paper-2gram", "interval-5", "sparse-hmm") for k in range(7, 12)
    }


def test_mistakes_are_found_before_the_work(tmp_path):
    with pytest.raises(UnmaskError, match="rows is 0"):
        Settings(rows=0)
    with pytest.raises(UnmaskError, match="did you mean"):
        cells(replace(TINY, lengths=("paper-2grm",)))
    with pytest.raises(UnmaskError, match="nearest it has"):
        cells(replace(TINY, lengths=("brackets",), panel_lengths=(15, 16)))
    endless = tmp_path / "brackets.json"
    endless.write_text('{"kind": "brackets", "stop": 0.2}')
    with pytest.raises(UnmaskError, match="vary in length"):
        cells(replace(TINY, lengths=(str(endless),)))
