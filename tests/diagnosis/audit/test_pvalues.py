"""p-values against sums over all that could have been counted."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest
import torch

from unmask.diagnosis.audit.statistics import against_distribution, at_least, chi_square, shares, table


def poisson_tail(value, degrees):
    """P(chi-square >= x) of an even number of degrees is that of fewer than degrees / 2 arrivals by x / 2."""
    return sum(math.exp(-value / 2) * (value / 2) ** i / math.factorial(i) for i in range(degrees // 2))


@pytest.mark.parametrize(("value", "degrees"), [(0.0, 4), (4.0, 2), (80.0, 54), (400.0, 54)])
def test_chi_square(value, degrees):
    assert chi_square(value, degrees) == pytest.approx(poisson_tail(value, degrees), rel=1e-9)
    assert chi_square(value, 0) == 1.0
    assert chi_square(math.inf, degrees) == 0.0


@pytest.mark.parametrize(("k", "n", "others", "m"), [(0, 200, 0, 300), (7, 200, 3, 900), (200, 200, 290, 300)])
def test_shares_are_fisher_s_test(k, n, others, m):
    """Of all ways to place the successes, those no likelier than what was seen."""
    total = k + others
    ways = {i: math.comb(n, i) * math.comb(m, total - i) for i in range(max(0, total - m), min(n, total) + 1)}
    expected = Fraction(sum(count for count in ways.values() if count <= ways[k]), math.comb(n + m, total))
    assert shares(k, n, others, m) == pytest.approx(float(expected), rel=1e-6)


@pytest.mark.parametrize(("k", "n"), [(0, 5), (3, 5), (16, 16)])
def test_at_least_is_a_binomial_tail(k, n):
    expected = sum(math.comb(n, i) * Fraction(1, 5) ** i * Fraction(4, 5) ** (n - i) for i in range(k, n + 1))
    assert at_least(k, n, 0.2) == pytest.approx(float(expected), rel=1e-9)


def test_table_is_the_likelihood_ratio():
    """The cell that neither has is none: two degrees are left."""
    first, second = torch.tensor([30, 50, 20, 0]), torch.tensor([90, 110, 0, 0])
    expected = [(share * total / 300) for share in (120, 160, 20) for total in (100, 200)]
    seen = [30, 90, 50, 110, 20, 0]
    g = 2 * sum(o * math.log(o / e) for o, e in zip(seen, expected, strict=True) if o)
    assert table(first, second) == pytest.approx(poisson_tail(g, 2), rel=1e-9)
    assert table(torch.tensor([7, 0]), torch.tensor([9, 0])) == 1.0


def test_against_law():
    distribution = torch.tensor([0.5, 0.3, 0.2, 0.0], dtype=torch.float64)
    pearson = 20**2 / 500 + 30**2 / 300 + 10**2 / 200
    assert against_distribution(torch.tensor([480, 330, 190, 0]), distribution) == pytest.approx(
        poisson_tail(pearson, 2), rel=1e-9
    )
    assert against_distribution(torch.tensor([480, 330, 189, 1]), distribution) == 0.0
    assert against_distribution(torch.tensor([9, 0]), torch.tensor([1.0, 0.0], dtype=torch.float64)) == 1.0


def test_rare_cells_are_pooled():
    distribution = torch.tensor([0.9, *[0.001] * 100], dtype=torch.float64)
    assert against_distribution(torch.tensor([900, *[1] * 100]), distribution) == pytest.approx(1.0)
    assert against_distribution(torch.tensor([1000, *[0] * 100]), distribution) < 1e-6
