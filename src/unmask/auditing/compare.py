"""Tests of two sets of rows against each other, or of one against a known law: over rows, which are independent."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from unmask.auditing.statistics import EXPECTED, Rows

ROUNDING = 1e-9  # of floats; a statistic that varies by less does not vary
NEGLIGIBLE = 1e-6  # of the largest eigenvalue of a correlation: statistics that are sums of others


class Noise:
    """The covariance of the difference of two means, in the directions in which there is any.

    pooled = ((n-1) S_1 + (m-1) S_2) / (n+m-2),   Cov = pooled (1/n + 1/m)           (Hotelling)
    """

    def __init__(self, first: Rows, second: Rows, dense: bool = False) -> None:
        n, m = len(first), len(second)
        centred = torch.cat([first.columns - first.mean, second.columns - second.mean])
        pooled = centred.T @ centred / (n + m - 2)
        size = 1 + torch.maximum(first.mean.abs(), second.mean.abs())
        self.used = pooled.diagonal() > (ROUNDING * size) ** 2
        self.apart = bool((~self.used & ((first.mean - second.mean).abs() > ROUNDING * size)).any())  # beyond all doubt
        if dense:
            mean = (n * first.mean + m * second.mean) / (n + m)
            counted = torch.arange(len(mean)) < first.counted
            self.used &= ~counted | (n * mean >= EXPECTED)
            last = first.counted - 1  # whether a row is invalid: rare validity is as far from normal
            self.used[last] &= bool(n * (1 - mean[last]) >= EXPECTED)
        pooled = pooled[self.used][:, self.used] * (1 / n + 1 / m)
        self.scale = pooled.diagonal().sqrt()
        values, vectors = torch.linalg.eigh(pooled / self.scale / self.scale.unsqueeze(1))
        kept = values > NEGLIGIBLE * values.max() if len(values) else values > 0
        self.whiten = vectors[:, kept] / values[kept].sqrt()
        self.degrees = int(kept.sum())

    def white(self, difference: Tensor) -> Tensor:
        """A difference of means (D) in coordinates (degrees) whose noise is standard normal."""
        return (difference[..., self.used] / self.scale) @ self.whiten


def chi_square(value: float, degrees: float) -> float:
    """P(chi-square >= value)."""
    if value == math.inf:
        return 0.0
    if degrees == 0:
        return 1.0
    return float(torch.special.gammaincc(*torch.tensor([degrees / 2, value / 2], dtype=torch.float64)))


def table(first: Tensor, second: Tensor) -> float:
    """p-value of counts (K) and (K) having one law: likelihood ratio G = 2 sum O log(O / E) with K - 1 degrees."""
    counts = torch.stack([first, second]).double()
    counts = counts[:, counts.sum(0) > 0]
    expected = counts.sum(1, keepdim=True) * counts.sum(0) / counts.sum()
    return chi_square(2 * float(torch.xlogy(counts, counts / expected).sum()), counts.shape[1] - 1)


def against_law(counts: Tensor, law: Tensor, least: float = 5.0) -> float:
    """p-value of counts (K) under a law (K), Pearson, rare cells pooled; 0 where an impossible one has occurred."""
    if bool((counts[law <= 0] > 0).any()):
        return 0.0
    n = float(counts.sum())
    order = law.argsort(descending=True)
    wanted, seen = n * law[order].double(), counts[order].double()
    alone = int((wanted >= least).sum())
    pools = int(float(wanted[alone:].sum()) / least)  # of rare cells; what is too little for one joins the last cell
    pooled = (wanted[alone:].cumsum(0) / least).long().clamp(max=pools - 1) + alone
    groups = torch.cat([torch.arange(alone), pooled]).clamp(min=0)
    size = int(groups.max()) + 1
    expected = torch.zeros(size).double().scatter_add_(0, groups, wanted)
    observed = torch.zeros(size).double().scatter_add_(0, groups, seen)
    return chi_square(float(((observed - expected) ** 2 / expected.clamp(min=1e-300)).sum()), size - 1)


def shares(successes: int, n: int, others: int, m: int) -> float:
    """Fisher's exact test, two-sided: successes of n against others of m."""
    total = successes + others
    k = torch.arange(max(0, total - m), min(n, total) + 1, dtype=torch.float64)
    log = _log_choose(n, k) + _log_choose(m, total - k) - _log_choose(n + m, torch.tensor(total, dtype=torch.float64))
    seen = log[successes - int(k[0])]
    return min(1.0, float(log[log <= seen + 1e-9].exp().sum()))


def at_least(k: int, n: int, p: float) -> float:
    """P(Binomial(n, p) >= k)."""
    if k == 0:
        return 1.0
    counts = torch.arange(k, n + 1, dtype=torch.float64)
    return min(1.0, float((_log_choose(n, counts) + counts * math.log(p) + (n - counts) * math.log1p(-p)).exp().sum()))


def _log_choose(n: int, k: Tensor) -> Tensor:
    return math.lgamma(n + 1) - torch.lgamma(k + 1) - torch.lgamma(n - k + 1)
