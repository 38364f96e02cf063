"""Bernstein forms against sums of scipy's binomial and hypergeometric laws; curves as properties of their points."""

from __future__ import annotations

import math
import time
from itertools import combinations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom

from unmask.samplers.schedules import Schedule, deltas, sizes
from unmask.theory.curves import ErrorCurve, InformationCurve, bernstein, by_size

EXAMPLES = settings(max_examples=100)
points = st.lists(st.floats(0, 3), min_size=1, max_size=40).map(np.array)
SCHEDULES = [("linear", 1), ("linear", 7), ("cosine", 9), ([0.3, 0.0, 0.7], None)]


@EXAMPLES
@given(points, st.lists(st.floats(0, 1), min_size=1, max_size=5))
def test_bernstein_is_a_mean_over_a_binomial_law(coefficients, u):
    expected = binom.pmf(np.arange(len(coefficients)), len(coefficients) - 1, np.array(u)[:, None]) @ coefficients
    np.testing.assert_allclose(bernstein(coefficients, u), expected, atol=1e-11)


@pytest.mark.parametrize("u", [0.0, 1e-300, 1e-9, 0.3, 1 - 1e-12, 1.0])
def test_bernstein_of_many_coefficients(u):
    k = np.arange(100_000)
    assert bernstein(np.ones(len(k)), u) == pytest.approx(1, abs=1e-13)
    assert bernstein(k / (len(k) - 1), u) == pytest.approx(u, abs=1e-11)
    assert bernstein(np.zeros(0), [u, u]).tolist() == [0, 0]


@pytest.mark.parametrize("places", [0, 1, 2, 5, 7])
def test_patterns_by_size(places):
    """The share of sets of each size that hold the first r positions and not the m after them, by counting sets."""
    patterns = np.random.default_rng(places).random((4, 6))
    expected = []
    for size in range(places + 1):
        sets = [set(chosen) for chosen in combinations(range(places), size)]
        total = 0.0
        for r, m in np.ndindex(patterns.shape):
            if r + m <= places:
                hits = [set(range(r)) <= R and not R & set(range(r, r + m)) for R in sets]
                total += patterns[r, m] * np.mean(hits)
        expected.append(total)
    np.testing.assert_allclose(by_size(patterns, places), expected, atol=1e-12)


def test_the_patterns_of_a_long_sequence_take_seconds():
    """Exactly one of n places is the first in R: the chances of all places sum to 1."""
    places = 60_000
    patterns = np.stack([np.zeros(places), np.ones(places)])
    began = time.process_time()
    means = by_size(patterns, places)
    assert time.process_time() - began < 5
    np.testing.assert_allclose(means[1:], 1, rtol=1e-10)


@EXAMPLES
@given(points, st.lists(st.floats(0.01, 1), min_size=1, max_size=9))
def test_a_curve_of_falling_points_is_what_the_theory_says(points, rates):
    """h falls, its area is H, its slope is its derivative, and 0 <= E KL <= max delta (h(0) - h(1))."""
    curve = InformationCurve(np.sort(points)[::-1], "test")
    u = np.linspace(0, 1, 50)
    assert (np.diff(curve.h(u)) <= 1e-10).all()
    nodes, weights = np.polynomial.legendre.leggauss(len(points))
    assert weights @ curve.h((nodes + 1) / 2) / 2 == pytest.approx(curve.entropy.value, abs=1e-9)
    middle = (curve.h(u[1:-1] + 1e-6) - curve.h(u[1:-1] - 1e-6)) / 2e-6
    np.testing.assert_allclose(curve.slope(u[1:-1]), middle, atol=1e-4)
    delta = torch.tensor(rates, dtype=torch.float64) / sum(rates)
    most = float(delta.max()) * float(curve.h(0) - curve.h(1))
    assert -1e-10 <= curve.divergence(delta).value <= most + 1e-10
    assert curve.total_correlation + curve.dual_total_correlation == pytest.approx(float(curve.h(0) - curve.h(1)))
    assert curve.total_correlation >= -1e-10
    assert curve.dual_total_correlation >= -1e-10


@pytest.mark.parametrize(("schedule", "steps"), SCHEDULES)
def test_what_a_schedule_pays(schedule, steps):
    rng = np.random.default_rng(1)
    f, g = np.sort(rng.random(12))[::-1], rng.random(11)
    curve, errors, delta = InformationCurve(f, "test"), ErrorCurve(g, "test"), deltas(schedule, steps)
    p, shares = Schedule(delta).p.numpy(), delta.numpy()
    assert curve.nelbo(delta).value == pytest.approx(shares @ curve.h(p), abs=1e-11)
    assert curve.divergence(delta).value == pytest.approx(shares @ curve.h(p) - f.sum(), abs=1e-11)
    assert errors.ser(delta).value == pytest.approx(1 - math.exp(-(shares**2) @ errors.e(p)), abs=1e-11)
    counts = sizes(delta, 12).tolist()
    paid, wrong, begun = 0.0, 0.0, 0
    for count in counts:
        if count:
            paid += count * f[begun]
        if count > 1:
            wrong += math.comb(count, 2) * g[begun]
        begun += count
    assert curve.divergence(delta, fixed_size=True).value == pytest.approx(paid - f.sum(), abs=1e-11)
    assert errors.ser(delta, fixed_size=True).value == pytest.approx(1 - math.exp(-wrong), abs=1e-11)
    assert curve.divergence(delta).exact
    assert not errors.ser(delta).exact
    assert errors.ser(delta).standard_error == 0


def test_the_constant_is_the_area_of_the_error_curve():
    errors = ErrorCurve(np.random.default_rng(2).random(20), "test")
    nodes, weights = np.polynomial.legendre.leggauss(20)
    assert errors.constant.value == pytest.approx(weights @ errors.e((nodes + 1) / 2) / 2, abs=1e-10)


@pytest.mark.parametrize("length", [1, 2, 3])
def test_short_sequences(length):
    errors, delta = ErrorCurve(np.ones(length - 1), "test"), deltas("linear", 1)
    assert errors.pairs == math.comb(length, 2)
    assert errors.e([0, 0.5, 1]).tolist() == pytest.approx([errors.pairs] * 3)
    for fixed in (False, True):
        assert errors.ser(delta, fixed_size=fixed).value == pytest.approx(1 - math.exp(-errors.pairs))
    assert InformationCurve(np.ones(length), "test").divergence(delta).value == pytest.approx(0, abs=1e-12)
