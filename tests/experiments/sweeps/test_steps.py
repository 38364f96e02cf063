"""The metrics that look for a number of steps, and the curves of theory."""

from __future__ import annotations

import math

import pytest

from tests.experiments.sweeps.conftest import measured
from unmask import generate, languages, metrics, score
from unmask.planning.flops import model_calls
from unmask.samplers.schedules import deltas
from unmask.theory.known import exact
from unmask.theory.sampled import information_curve

GRID = (1, 2, 3, 4, 6, 8, 12, 16, 24)


def the(job, **cell):
    (found,) = (record for record in measured(job, **cell) if record["measure"] == job)
    return found


@pytest.mark.parametrize("length", [10, 12, 30])
def test_interval_by_brute_force(length):
    """Every N from 1 on: the least for SER 1/2 and for TER within 1%, and that what holds there holds above it."""
    language = languages.load("interval-5")
    own = metrics.ter_autoregressive(language, length).value
    correct = [metrics.ser(language, length, "linear", n).value <= 0.5 for n in range(1, 400)]
    fluent = [metrics.ter(language, length, "linear", n).value <= 1.01 * own for n in range(1, 400)]
    for holds, job in ((correct, "steps_for_ser"), (fluent, "steps_for_ter")):
        first = holds.index(True)
        assert holds == [False] * first + [True] * (len(holds) - first)
        found = the(job, language="interval-5", length=length)
        assert (found["value"], found["method"]) == (first + 1, "exact")
        assert found["model_calls"] == pytest.approx(model_calls(deltas("linear", first + 1), length))


def test_steps_for_ter_by_brute_force():
    """On a language that is measured, the same curve at every N."""
    curve = information_curve(languages.load("paper-2gram"), 24, rows=20)
    excess = [curve.divergence(deltas("linear", n)) for n in range(1, 400)]
    most = 24 * math.log(1.02)
    found = the("steps_for_ter", language="paper-2gram", length=24, rows=20, excess=0.02)
    for end in ("value", "low", "high"):
        within = [getattr(estimate, end) <= most for estimate in excess]
        assert found[end] == within.index(True) + 1
    assert found["low"] <= found["value"] <= found["high"]


def test_points_are_independent(monkeypatch):
    """Rows are never used twice: a common seed would make the interval too narrow."""
    used = []

    def spy(*arguments, rows, first_row, **options):
        used.extend(range(first_row, first_row + rows))
        return generate(*arguments, rows=rows, first_row=first_row, **options)

    monkeypatch.setattr("unmask.experiments.jobs.sources.generate", spy)
    the("steps_for_ser", language="paper-2gram", length=16, rows=30)
    assert len(used) >= 64 + 3 * 30
    assert len(set(used)) == len(used)


def test_steps_for_ser_is_where_half_are_wrong():
    """At the N that was found, SER is the one asked for: within four standard errors of both measurements."""
    found = the("steps_for_ser", language="paper-2gram", length=64, rows=400)
    q = languages.load("paper-2gram")
    ends = [
        score(generate(q, steps=round(found[end]), length=64, rows=4000, seed=5), q).ser.value
        for end in ("low", "high")
    ]
    assert ends[1] - 0.06 < 0.5 < ends[0] + 0.06
    assert found["low"] < found["value"] < found["high"]


def test_steps_for_ser_is_of_the_sampler():
    """Interval in closed form is for ancestral sampling alone, and so is the line through 1/N."""
    found = the("steps_for_ser", language="interval-5", length=33, sampler="left-to-right", rows=60)
    assert found["method"] == "grid"


def test_steps_of_a_sampler_that_repairs():
    """The first N of the grid that reaches the target, with the bigrams of its rows; all targets use the same rows."""
    cell = {"language": "interval(width=2)", "length": 16, "sampler": "uniform-ancestral", "rows": 100, "most": 24}
    cell |= {"schedule": "geometric(last=0.001)"}
    q = languages.load("interval(width=2)")
    made = {n: generate(q, rows=100, length=16, steps=n, **{k: cell[k] for k in ("sampler", "schedule")}) for n in GRID}
    for ser in (0.5, 0.1):
        first = next(n for n in GRID if score(made[n], q).ser.value <= ser)
        found = {record["measure"]: record for record in measured("steps_for_ser", ser=ser, **cell)}
        assert found["steps_for_ser"]["value"] == first == found["steps_for_ser"]["model_calls"]
        pairs = metrics.bigrams(made[first].tokens, q)
        excess = pairs.entropy_bits - pairs.entropy_bits_of_language
        assert found["bigram_distance"]["value"] == pairs.total_variation.value
        assert found["bigram_floor"]["value"] == pairs.total_variation_floor
        assert found["bigram_entropy_excess"]["value"] == pytest.approx(excess, abs=1e-12)


def test_steps_out_of_reach():
    (found,) = measured("steps_for_ser", language="paper-2gram", length=64, sampler="remdm", rows=40, most=2, ser=0.1)
    assert found["value"] is None
    assert found["note"] == "SER is above 0.1 at all measured steps up to 2"


def test_the_curve_of_interval_is_exact():
    language, length = languages.load("interval-5"), 33
    found = {(r["measure"], r["steps"]): r for r in measured("prediction", language="interval-5", length=length)}
    steps = [n for measure, n in found if measure == "ser_predicted"]
    assert (steps[0], steps[-1]) == (8, 2048)
    assert steps == sorted(set(steps))
    own = metrics.ter_autoregressive(language, length).value
    for n in steps:
        assert found["ser_predicted", n]["value"] == metrics.ser(language, length, "linear", n).value
        assert found["ter_ratio_predicted", n]["value"] == metrics.ter(language, length, "linear", n).value / own


def test_the_curve_of_a_chain_is_where_it_is_known_exactly():
    language, length = languages.load("paper-2gram"), 40
    made = measured("prediction", language="paper-2gram", length=length, least=4, most=64)
    found = {(r["measure"], r["steps"]): r for r in made}
    for n in (4, 8, 64):
        truth = exact(language, length, deltas("linear", n))
        assert found["ser_predicted", n]["value"] == pytest.approx(truth.ser, abs=0.01)
        nats = truth.expected_plan_divergence_nats
        assert found["ter_ratio_predicted", n]["value"] == pytest.approx(math.exp(nats / length), rel=1e-9)


def test_what_has_no_theory_has_no_curve():
    assert measured("prediction", language="sparse-hmm", length=16) == []
    assert measured("prediction", language="paper-3gram", length=512) == []
