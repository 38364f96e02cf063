"""p-values of counts: scipy's tests, with rare cells pooled until the expected count of each is at least five."""

from __future__ import annotations

import math

import torch
from scipy import stats
from torch import Tensor


def chi_square(value: float, degrees: int) -> float:
    """P(chi-square >= value); 0 for an infinite value, otherwise 1 without degrees of freedom."""
    if math.isinf(value) or not degrees:
        return 0.0 if math.isinf(value) else 1.0
    return float(stats.chi2.sf(value, degrees))


def table(first: Tensor, second: Tensor) -> float:
    """p-value of counts (K) and (K) under one distribution: G = 2 sum O log(O / E) with K - 1 degrees of freedom."""
    counts = torch.stack([first, second])
    nonzero = counts[:, counts.sum(0) > 0]
    return float(stats.chi2_contingency(nonzero.numpy(), correction=False, lambda_="log-likelihood").pvalue)


def against_distribution(counts: Tensor, distribution: Tensor, least: float = 5.0) -> float:
    """Pearson's p-value of counts (K) under a distribution (K), rare cells pooled; 0 if an impossible cell occurred."""
    if bool((counts[distribution <= 0] > 0).any()):
        return 0.0
    n = float(counts.sum())
    order = distribution.argsort(descending=True)
    means, values = n * distribution[order].double(), counts[order].double()
    alone = int((means >= least).sum())
    pools = int(float(means[alone:].sum()) / least)  # of rare cells; a remainder too small for one joins the last cell
    pooled = (means[alone:].cumsum(0) / least).long().clamp(max=pools - 1) + alone
    groups = torch.cat([torch.arange(alone), pooled]).clamp(min=0)
    size = int(groups.max()) + 1
    expected = torch.zeros(size).double().scatter_add_(0, groups, means)
    observed = torch.zeros(size).double().scatter_add_(0, groups, values)
    if size == 1:
        return 1.0
    expected *= n / expected.sum()  # equal except for rounding
    return float(stats.chisquare(observed.numpy(), expected.numpy()).pvalue)


def shares(successes: int, n: int, others: int, m: int) -> float:
    """Fisher's exact test, two-sided: successes of n against others of m."""
    return float(stats.fisher_exact([[successes, n - successes], [others, m - others]]).pvalue)


def at_least(k: int, n: int, p: float) -> float:
    """P(Binomial(n, p) >= k)."""
    return float(stats.binom.sf(k - 1, n, p))
