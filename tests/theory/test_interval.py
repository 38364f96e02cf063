"""The interval language: curves, divergences for any schedule, least numbers of steps, and a million of both."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.brute import distribution, entropy
from tests.metrics.small import SMALL, average_over_labels, by_rank, conditional_entropies
from tests.theory.small import contradictions
from unmask.core.errors import UnmaskError
from unmask.core.search import least
from unmask.languages import Interval
from unmask.languages.closed_form import agreement, disagreement
from unmask.samplers.schedules import deltas
from unmask.theory.known import curve, error_curve

NAMES = ["interval 2", "interval 3", "interval 3, partial"]


@pytest.mark.parametrize("name", NAMES)
def test_the_curves_are_the_enumerated_ones(name):
    language, length = SMALL[name]
    np.testing.assert_allclose(curve(language, length).f, by_rank(conditional_entropies(name)), atol=1e-12)
    np.testing.assert_allclose(error_curve(language, length).g, contradictions(name), atol=1e-12)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(("schedule", "steps"), [("linear", 1), ("cosine", 4), ([0.2, 0.0, 0.8], None)])
def test_the_divergence_over_orders(name, schedule, steps):
    language, length = SMALL[name]
    delta = deltas(schedule, steps)
    expected = average_over_labels(conditional_entropies(name), delta) - entropy(distribution(language, length))
    assert language.closed_form.order_divergence(length, delta) == pytest.approx(expected, abs=1e-10)
    assert curve(language, length).divergence(delta).value == pytest.approx(expected, abs=1e-10)
    assert language.closed_form.divergence(length, delta) <= expected + 1e-12  # Jensen


@settings(deadline=None, database=None, derandomize=True, max_examples=200)
@given(st.lists(st.floats(1e-6, 1), min_size=1, max_size=30), st.integers(0, 8))
def test_agreement_and_disagreement_are_two_forms_of_one_number(rates, places):
    delta = torch.tensor(rates, dtype=torch.float64) / sum(rates)
    assert agreement(places, delta) + disagreement(places, delta) == pytest.approx(1, abs=1e-12)


def test_small_errors_keep_their_digits():
    """N SER -> pairs / 2, to the next order in 1/N: at N = 10^6 twelve digits of 1 - G would not do."""
    for steps in (10**4, 10**6):
        assert disagreement(2, deltas("linear", steps)) == pytest.approx(0.5 / steps, rel=1e-9)
        assert disagreement(5, deltas("linear", steps)) == pytest.approx(5 / steps, rel=5 / steps)


def test_a_million_positions_in_a_million_rounds():
    """Whole intervals, E KL = (l-1)/2 bits; KL = E KL to the next order; and the step constant (l-1)/4 a token."""
    language, size = Interval(5), 10**6
    for schedule in ("linear", "cosine"):
        delta = deltas(schedule, size)
        squares = size * float((delta**2).sum())
        nats = language.closed_form.divergence(size, delta)
        assert nats == pytest.approx(squares, rel=3e-6)  # 10 pairs / 5 positions / 2, each to first order
        assert language.closed_form.ser(size, delta) == pytest.approx(-math.expm1(-nats))
        assert language.closed_form.order_divergence(size, delta) == pytest.approx(2 * squares * math.log(2))
    assert error_curve(language, 1000).constant.value / 1000 == pytest.approx(1)
    assert error_curve(language, 1000).ser(deltas("linear", 10**5)).value == pytest.approx(
        language.closed_form.ser(1000, deltas("linear", 10**5)), rel=1e-4
    )


@pytest.mark.parametrize(("length", "steps"), [(5, 8), (10, 15), (100, 145), (510, 737), (1000, 1444)])
def test_the_least_number_of_rounds(length, steps):
    language = Interval(5)
    assert least(lambda n: language.closed_form.ser(length, deltas("linear", n)), 0.5) == steps


def test_the_error_rates_at_510():
    language = Interval(5)
    assert language.closed_form.ser(510, deltas("linear", 737)) == pytest.approx(0.49966, abs=5e-6)
    assert language.closed_form.ser(510, deltas("linear", 736)) == pytest.approx(0.50013, abs=5e-6)


@pytest.mark.parametrize("schedule", ["linear", "cosine", "geometric(ratio=1.01)"])
@pytest.mark.parametrize("target", [0.9, 0.5, 0.1])
def test_least_is_least(schedule, target):
    language = Interval(3)

    def quality(steps):
        return language.closed_form.ser(12, deltas(schedule, steps))

    steps = least(quality, target)
    assert quality(steps) <= target
    assert steps == 1 or quality(steps - 1) > target


def test_a_target_that_no_number_reaches():
    """The last steps of a geometric schedule stay large, however many there are."""
    with pytest.raises(UnmaskError, match=r"no number of steps up to 1,024 reaches 0\.003; 1,024 steps reach 0\.0294"):
        least(lambda n: Interval(3).closed_form.ser(12, deltas("geometric(ratio=1.01)", n)), 0.003, most=1024)


def test_a_target_that_is_reached_at_once():
    assert least(lambda n: 0.0, 0.0) == 1
