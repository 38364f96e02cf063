"""Intervals against scipy's, and how a number is printed."""

from __future__ import annotations

import itertools
import math
from statistics import NormalDist

import numpy as np
import pytest
import torch
from scipy.integrate import quad
from scipy.special import betainc
from scipy.stats import beta, binomtest, t

from unmask import UnmaskError
from unmask.core.estimates import Estimate, bounded_mean, exactly, proportion, quantile, within
from unmask.core.gaffke import exceeds
from unmask.core.means import RARE_ROWS, interval, mean


@pytest.mark.parametrize("level", [0.5, 0.9, 0.95, 0.999])
@pytest.mark.parametrize("n", [1, 2, 7, 2000])
def test_proportion(n, level):
    for successes in sorted({0, 1, n // 2, n - 1, n}):
        ours = proportion(successes, n, level)
        wanted = binomtest(successes, n).proportion_ci(level)
        assert (ours.low, ours.high) == pytest.approx((wanted.low, wanted.high), abs=1e-12)
        assert (ours.value, ours.n, ours.level) == (successes / n, n, level)
        assert ours.method == "clopper-pearson"
        assert 0 <= ours.low <= ours.value <= ours.high <= 1


@pytest.mark.parametrize("level", [0.9, 0.95])
def test_mean(level):
    samples = torch.from_numpy(np.random.default_rng(0).normal(3, 2, 500))
    ours = mean(samples, level)
    error = float(samples.std()) / math.sqrt(500)
    assert (ours.low, ours.high) == pytest.approx(t.interval(level, 499, float(samples.mean()), error))
    assert ours.standard_error == pytest.approx(error, rel=3e-3)
    assert (ours.n, ours.level, ours.method, ours.exact) == (500, level, "t", False)


def test_mean_of_float32_is_taken_in_float64():
    """16777217 ones and zeros: float32 cannot count them."""
    samples = torch.ones(2**24 + 2, dtype=torch.float32)
    samples[0] = 3
    assert mean(samples).value == pytest.approx(1 + 2 / len(samples), rel=1e-12)


def test_one_sample_knows_no_interval():
    ours = mean(torch.tensor([2.5]), method="monte carlo")
    assert (ours.value, ours.low, ours.high) == (2.5, -math.inf, math.inf)


@pytest.mark.parametrize("seen", [[1, 0], [3, 0], [199, 1], [5, 5], [0, 4], [10**6, 2]])
def test_a_bounded_mean_of_noughts_and_ones_is_a_share(seen):
    counts = torch.tensor(seen)
    ours = within(seen[1] / sum(seen), torch.tensor([0.0, 1.0])[counts > 0], counts[counts > 0], (0.0, 1.0), 0.95, "")
    wanted = proportion(seen[1], sum(seen))
    assert (ours.low, ours.high) == pytest.approx((wanted.low, wanted.high), rel=1e-6)


def test_a_bounded_mean_is_the_quantile_of_its_dirichlet_sum():
    rng = np.random.default_rng(0)
    samples = rng.random(12) ** 3 * 2 - 1
    ours = bounded_mean(torch.from_numpy(samples), (-1.0, 1.0), level=0.8)
    parts = rng.dirichlet(np.ones(13), 200_000)
    for end, unseen, share in ((ours.low, -1, 0.1), (ours.high, 1, 0.9)):
        below = (parts @ np.append(samples, unseen) < end).mean()
        assert abs(below - share) < 5 * math.sqrt(0.09 / 200_000)


@pytest.mark.sampled(7)
@pytest.mark.parametrize("many", [5, 20, 50, 200, 600, 20_000, 10**6])
def test_the_tail_of_a_dirichlet_sum_of_three_values(many):
    """P(D_1 - D_2 < x), D ~ Dirichlet(b, c, m), is an integral over D_1 + D_2; many zeros are tiny gains of a sum."""
    for b, c, away in itertools.product((1, 2, 5, 20), (1, 2, 5, 20), (0, 0.5, 1, 1.5, 2, 2.5, 3)):
        m, width = many - b - c, math.sqrt(b + c) / many
        x = (b - c) / many - away * width
        if m > 0 and x > -1:
            ends = sorted({abs(x), *(min(max(width * width * many + k * width, abs(x)), 1) for k in (0, 4, 12, 10**6))})
            parts = [quad(_below, *pair, (b, c, m, x), epsabs=1e-12, limit=200)[0] for pair in itertools.pairwise(ends)]
            wanted = sum(parts) + (float(beta.cdf(x, b + c, m)) if x > 0 else 0.0)
            ours = exceeds(x - np.array([1.0, -1.0, 0.0]), np.array([b, c, m], dtype=float))
            assert ours == pytest.approx(wanted, rel=1e-4, abs=1e-8), (b, c, m, x)


def _below(both: float, b: int, c: int, m: int, x: float) -> float:
    return float(beta.pdf(both, b + c, m) * betainc(b, c, min(max((1 + x / both) / 2, 0.0), 1.0)))


def test_quantile():
    assert quantile() == pytest.approx(NormalDist().inv_cdf(0.975))
    assert quantile(0.5) == pytest.approx(NormalDist().inv_cdf(0.75))


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
        (proportion(7, 20), "0.35 [0.1539, 0.5922]"),
        (mean(torch.ones(3)), "1 (no interval: only 3 values; 20 needed)"),
        (mean(torch.ones(1)), "1 (no interval: only 1 value; 20 needed)"),
        (interval(torch.ones(200), seen=3), f"1 (no interval: {RARE_ROWS})"),
        (Estimate(math.inf, math.inf, math.inf, 200, method="a row is lost"), "inf (no interval: a row is lost)"),
        (bounded_mean(torch.zeros(100)), "< 0.036 (none in 100)"),
        (proportion(20, 20), "1 [0.8316, 1]"),
        (Estimate(0.0, -0.1, 0.1, 9), "0 [-0.1, 0.1]"),
    ],
)
def test_printed(estimate, text):
    """A measured zero is an upper limit; only a computed one is zero."""
    assert str(estimate) == text
    assert estimate.exact == text.endswith("(exact)")


@pytest.mark.parametrize("name", ["value", "low", "high", "n", "level", "method"])
def test_a_record_without_a_field_of_its_interval_is_named(name):
    record = {"measure": "ser"} | exactly(0.5).to_dict()
    assert Estimate.of_record(record | {"low": None}).low == -math.inf
    record.pop(name)
    with pytest.raises(UnmaskError, match=f"a record of 'ser' has no {name}; expected value, low, high, n"):
        Estimate.of_record(record)


@pytest.mark.parametrize("n", [1, 3, 20])
@pytest.mark.parametrize("apart", [0.0, 1e-16, 1e-14, 1e-12, 1e-10, 1e-8])
def test_values_next_to_an_end_have_the_interval_of_the_end(n, apart):
    for end, value in ((0.0, apart), (1.0, 1 - apart)):
        near, at = (bounded_mean(torch.full((n,), one, dtype=torch.float64)) for one in (value, end))
        assert (near.low, near.high) == pytest.approx((at.low, at.high), abs=1e-6)
