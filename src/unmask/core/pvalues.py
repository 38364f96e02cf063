"""p-values of what was counted: scipy's tests, with the cells of a law pooled until each is expected five times."""

from __future__ import annotations

import math

import torch
from scipy import stats
from torch import Tensor


def chi_square(value: float, degrees: int) -> float:
    """P(chi-square >= value): 0 for what is beyond all noise; else without degrees there is nothing to differ."""
    if math.isinf(value) or not degrees:
        return 0.0 if math.isinf(value) else 1.0
    return float(stats.chi2.sf(value, degrees))


def table(first: Tensor, second: Tensor) -> float:
    """Of counts (K) and (K) having one law: likelihood ratio G = 2 sum O log(O / E) with K - 1 degrees."""
    counts = torch.stack([first, second])
    seen = counts[:, counts.sum(0) > 0]
    return float(stats.chi2_contingency(seen.numpy(), correction=False, lambda_="log-likelihood").pvalue)


def against_law(counts: Tensor, law: Tensor, least: float = 5.0) -> float:
    """Of counts (K) under a law (K), Pearson, rare cells pooled; 0 where an impossible one has occurred."""
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
    if size == 1:
        return 1.0
    expected *= n / expected.sum()  # but for rounding it is
    return float(stats.chisquare(observed.numpy(), expected.numpy()).pvalue)


def shares(successes: int, n: int, others: int, m: int) -> float:
    """Fisher's exact test, two-sided: successes of n against others of m."""
    return float(stats.fisher_exact([[successes, n - successes], [others, m - others]]).pvalue)


def at_least(k: int, n: int, p: float) -> float:
    """P(Binomial(n, p) >= k)."""
    return float(stats.binom.sf(k - 1, n, p))
