"""Intervals against scipy's, and how a number is printed."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from scipy.stats import binomtest, norm

from unmask.core.estimates import Estimate, exactly, mean, proportion, quantile


@pytest.mark.parametrize("level", [0.5, 0.9, 0.95, 0.999])
@pytest.mark.parametrize("n", [1, 2, 7, 2000])
def test_proportion(n, level):
    """Wilson inside, Clopper and Pearson at both ends."""
    for successes in sorted({0, 1, n // 2, n - 1, n}):
        ours = proportion(successes, n, level)
        method = "exact" if successes in (0, n) else "wilson"
        wanted = binomtest(successes, n).proportion_ci(level, method)
        assert (ours.low, ours.high) == pytest.approx((wanted.low, wanted.high), abs=1e-12)
        assert (ours.value, ours.n, ours.level) == (successes / n, n, level)
        assert ours.method == ("clopper-pearson" if successes in (0, n) else "wilson")
        assert 0 <= ours.low <= ours.value <= ours.high <= 1


@pytest.mark.parametrize("level", [0.9, 0.95])
def test_mean(level):
    samples = torch.from_numpy(np.random.default_rng(0).normal(3, 2, 500))
    ours = mean(samples, level)
    error = float(samples.std()) / math.sqrt(500)
    assert (ours.low, ours.high) == pytest.approx(norm.interval(level, float(samples.mean()), error))
    assert ours.standard_error == pytest.approx(error)
    assert (ours.n, ours.level, ours.method, ours.exact) == (500, level, "normal", False)


def test_mean_of_float32_is_taken_in_float64():
    """16777217 ones and zeros: float32 cannot count them."""
    samples = torch.ones(2**24 + 2, dtype=torch.float32)
    samples[0] = 3
    assert mean(samples).value == pytest.approx(1 + 2 / len(samples), rel=1e-12)


def test_one_sample_knows_no_interval():
    ours = mean(torch.tensor([2.5]), method="monte carlo")
    assert (ours.value, ours.low, ours.high) == (2.5, -math.inf, math.inf)


def test_coverage_of_the_mean():
    """1000 intervals of 95 % cover between 91 and 98 % of the time: wider than 5 standard errors."""
    samples = torch.from_numpy(np.random.default_rng(1).exponential(1, (1000, 400)))
    covered = sum(ours.low < 1 < ours.high for ours in map(mean, samples))
    assert 910 < covered < 985


def test_quantile():
    assert quantile() == pytest.approx(norm.ppf(0.975))
    assert quantile(0.5) == pytest.approx(norm.ppf(0.75))


def test_map_changes_the_scale_and_nothing_else():
    ours = Estimate(1.0, 0.5, 2.0, 7, 0.9, "normal").map(lambda x: 2.0**x)
    assert ours == Estimate(2.0, 2**0.5, 4.0, 7, 0.9, "normal")
    assert ours.to_dict() == {"value": 2.0, "low": 2**0.5, "high": 4.0, "n": 7, "level": 0.9, "method": "normal"}


@pytest.mark.parametrize(
    ("estimate", "text"),
    [
        (exactly(0.0), "0 (exact)"),
        (exactly(-0.0), "0 (exact)"),
        (exactly(2.0794415416798357), "2.07944 (exact)"),
        (exactly(0.5, "exact by enumeration"), "0.5 (exact)"),
        (proportion(0, 2000), "< 0.0018 (none in 2000)"),
        (proportion(7, 20), "0.35 [0.1812, 0.5671]"),
        (proportion(20, 20), "1 [0.8316, 1]"),
        (Estimate(0.0, -0.1, 0.1, 9), "0 [-0.1, 0.1]"),
    ],
)
def test_printed(estimate, text):
    """A measured zero is an upper limit; only a computed one is zero."""
    assert str(estimate) == text
    assert estimate.exact == text.endswith("(exact)")
