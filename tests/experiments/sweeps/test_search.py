"""The searches for a number of steps, against brute force and against what is known exactly."""

from __future__ import annotations

import math
from itertools import count

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unmask import generate, languages, metrics, score
from unmask.core.estimates import Estimate
from unmask.core.search import MOST, Floor, first, least
from unmask.experiments.jobs.steps import PILOT_ROWS, fit_slope, steps_at_ser, steps_between, steps_on_grid


@given(st.integers(1, 10**6))
def test_the_first_that_holds(answer):
    asked = []

    def holds(n):
        asked.append(n)
        return n >= answer

    assert first(holds) == answer
    assert min(asked) >= 1
    assert len(asked) <= 2 * math.log2(answer) + 2


def test_the_search_ends():
    with pytest.raises(Floor, match="no number of steps up to 16,777,216"):
        first(lambda n: False)
    assert first(lambda n: n >= MOST) == MOST
    assert first(lambda n: n >= 5, guess=64, most=64) == 5
    assert first(lambda n: True, guess=64, most=64) == 1


def test_the_interval_is_the_inverted_band():
    def excess(n):
        return Estimate(100 / n, 80 / n, 120 / n, 7, 0.95, "normal")

    found = steps_between(excess, 1.0)
    assert (found.value, found.low, found.high, found.n) == (100, 80, 120, 7)


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
    language = languages.load("interval-5")
    drawn = count()

    def count_wrong(steps, rows):
        how = {"steps": steps, "length": 40, "rows": rows, "first_row": next(drawn) * 2000, "seed": start}
        return score(generate(language, **how), language).impossible_rows

    found = steps_at_ser(count_wrong, 0.5, start, 2000)
    exact = least(lambda n: metrics.ser(language, 40, "linear", n).value, 0.5)
    error = (math.log(found.high) - math.log(found.low)) / (2 * 1.96)
    assert abs(math.log(found.value) - math.log(exact)) < 4.9 * error + 0.5 / exact
    assert error < 0.05


@pytest.mark.parametrize(("target", "value"), [(0.5, 1), (0.1, 4), (0.01, 8), (0.001, 12)])
def test_the_grid_finds_the_first_n(target, value):
    """A curve 2^-N without noise, which no line through 1/N fits."""
    seen = []

    def count_wrong(steps, rows):
        seen.append((steps, rows))
        return round(rows * 0.5**steps)

    found = steps_on_grid(count_wrong, target, 20_000, 64)
    assert found.value == value
    assert found.low <= value <= found.high
    assert {rows for steps, rows in seen if steps < value / 2} <= {PILOT_ROWS}  # far away pilots are enough
    assert max(steps for steps, _ in seen) <= 2 * value


def test_the_grid_ends():
    assert steps_on_grid(lambda steps, rows: rows, 0.5, 100, 64) is None
    few = steps_on_grid(lambda steps, rows: 0, 0.001, 10, 64)
    assert (few.value, few.low, few.high) == (1, 1, math.inf)


def test_what_is_never_wrong_needs_one_step():
    assert steps_at_ser(lambda steps, rows: 0, 0.5, 64, 50).value == 1
