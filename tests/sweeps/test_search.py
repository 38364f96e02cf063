"""The searches for a number of rounds, against brute force and against what is known exactly."""

from __future__ import annotations

import math
from itertools import count

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from unmask import languages, metrics
from unmask.cost.flops import evaluations
from unmask.errors import UnmaskError
from unmask.estimates import Estimate
from unmask.report.cells import Correctness, StepsForCorrectness, StepsForFluency
from unmask.sweeps.search import MOST_STEPS, fit_slope, least_steps, least_steps_between, steps_at_ser
from unmask.schedules import deltas


@given(st.integers(1, 10**6))
def test_least_steps(answer):
    asked = []

    def holds(n):
        asked.append(n)
        return n >= answer

    assert least_steps(holds) == answer
    assert min(asked) >= 1
    assert len(asked) <= 2 * math.log2(answer) + 2


def test_least_steps_ends():
    with pytest.raises(UnmaskError, match="not reached"):
        least_steps(lambda n: False)
    assert least_steps(lambda n: n >= MOST_STEPS) == MOST_STEPS


def test_the_interval_is_the_inverted_band():
    def excess(n):
        return Estimate(100 / n, 80 / n, 120 / n, 7, 0.95, "normal")

    found = least_steps_between(excess, 1.0)
    assert (found.value, found.low, found.high, found.n) == (100, 80, 120, 7)


@pytest.mark.parametrize("length", [10, 12, 30])
def test_interval_by_brute_force(length):
    """Every N from 1 on: the least for SER 1/2 and for TER within 1%, and that what holds there holds above it."""
    language = languages.preset("interval-5")
    own = metrics.ter_autoregressive(language, length).value
    correct = [metrics.exact_ser(language, length, deltas("linear", n)) <= 0.5 for n in range(1, 400)]
    fluent = [metrics.exact_ter(language, length, deltas("linear", n)) <= 1.01 * own for n in range(1, 400)]
    for holds, cell in (
        (correct, StepsForCorrectness("interval-5", length, 0)),
        (fluent, StepsForFluency("interval-5", length, 0)),
    ):
        first = holds.index(True)
        assert holds == [False] * first + [True] * (len(holds) - first)
        (record,) = cell.records()
        assert (record["value"], record["method"]) == (first + 1, "exact")
        assert record["evaluations"] == pytest.approx(evaluations(deltas("linear", first + 1), length))


def test_steps_for_fluency_by_brute_force():
    """On a language that is measured, the same profile at every N."""
    cell = StepsForFluency("paper-2gram", 24, 20)
    profile = metrics.profile(cell.q, 24, 20)
    excess = [profile.divergence(deltas("linear", n)) for n in range(1, 400)]
    most = 24 * math.log(1.01)
    (record,) = cell.records()
    for end in ("value", "low", "high"):
        within = [getattr(estimate, end) <= most for estimate in excess]
        assert record[end] == within.index(True) + 1
    assert record["low"] <= record["value"] <= record["high"]


def test_fit_slope_is_the_likeliest():
    """Against a grid of slopes, with the half counts that it adds."""
    counts = [(30, 70, 100), (40, 55, 100), (60, 41, 100)]

    def log_likelihood(c):
        total = 0.0
        for n, wrong, rows in counts:
            total += (wrong + 0.5) * math.log(-math.expm1(-c / n)) - (rows - wrong + 0.5) * c / n
        return total

    found = fit_slope(counts)
    best = max((c / 1000 for c in range(10_000, 60_000)), key=log_likelihood)
    assert found.value == pytest.approx(best, abs=2e-3)
    assert found.low < found.value < found.high


@pytest.mark.parametrize("wrong", [0, 5])
def test_fit_slope_exists_whatever_was_counted(wrong):
    found = fit_slope([(10, wrong, 5)])
    assert 0 < found.low < found.value < found.high < math.inf


@pytest.mark.parametrize("start", [1, 40, 5000])
def test_measured_steps_hold_the_exact_ones(start):
    """The search of other languages, on Interval, where the answer is known; 1e-6 a test is 4.9 standard errors."""
    language = languages.preset("interval-5")
    cell = Correctness("interval-5", 40, 0, seed=start)
    drawn = count()

    def count_wrong(steps, rows):
        made = cell.generate(steps, rows, next(drawn) * 2000)
        return metrics.score(made, language).invalid_rows

    found = steps_at_ser(count_wrong, 0.5, start, 2000)
    exact = StepsForCorrectness("interval-5", 40, 0).records()[0]["value"]
    error = (math.log(found.high) - math.log(found.low)) / (2 * 1.96)
    assert abs(math.log(found.value) - math.log(exact)) < 4.9 * error + 0.5 / exact
    assert error < 0.05


def test_what_is_never_wrong_needs_one_step():
    assert steps_at_ser(lambda steps, rows: 0, 0.5, 64, 50).value == 1


def test_points_are_independent():
    """Rows are never used twice: a common seed would make the interval too narrow."""
    cell = StepsForCorrectness("paper-2gram", 16, 30)
    used = []
    original = Correctness.generate

    class Spy(StepsForCorrectness):
        def generate(self, steps, rows, first_row=0):
            used.append(range(first_row, first_row + rows))
            return original(self, steps, rows, first_row)

    assert Spy("paper-2gram", 16, 30).records() == cell.records()
    assert len(used) >= 4
    rows = torch.tensor([row for block in used for row in block])
    assert len(rows.unique()) == len(rows)
