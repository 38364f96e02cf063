"""Sums that do not depend on their order: numbers in units of 2^-64, added as whole numbers.

Only rounding to the unit loses precision, and it is done to each number alone. So a mean and its interval do not depend
on how the numbers are grouped. For K independent groups with sums s_k and sizes n_k, four more sums give the variance
of their mean, as in core.estimates.mean:

    K / (K-1) sum_k (s_k - n_k mean)^2 / n^2,   sum_k (..)^2 = sum s_k^2 - 2 mean sum s_k n_k + mean^2 sum n_k^2
"""

from __future__ import annotations

from fractions import Fraction

import torch
from torch import Tensor

from unmask.core.estimates import LEVEL, Estimate, of_variance, proportion, within

UNIT = 64  # bits after the point


def sums(name: str, samples: Tensor, groups: Tensor | None = None) -> dict[str, int]:
    """The sums of samples (n), independent or in groups (n numbers); a group is within one tally."""
    units = [round(Fraction(value) * 2**UNIT) for value in samples.double().tolist()]
    squares = sum(unit * unit for unit in units)
    tally = {f"{name}_count": len(units), f"{name}_sum": sum(units), f"{name}_squares": squares}
    if groups is None:
        return tally
    distinct, which = torch.unique(groups, return_inverse=True)
    totals, members = [0] * len(distinct), [0] * len(distinct)
    for unit, group in zip(units, which.tolist(), strict=True):
        totals[group] += unit
        members[group] += 1
    return tally | {
        f"{name}_groups": len(distinct),
        f"{name}_group_squares": sum(total * total for total in totals),
        f"{name}_products": sum(total * size for total, size in zip(totals, members, strict=True)),
        f"{name}_sizes": sum(size * size for size in members),
    }


def counts(name: str, events: Tensor, groups: Tensor | None = None) -> dict[str, int]:
    """The counts of events (n), 0 or 1, and for groups the number of groups with each fraction of events.

    Fractions are in lowest terms, so that groups of all sizes count together.
    """
    tally = {f"{name}_count": len(events), f"{name}_sum": int(events.sum())}
    if groups is None:
        return tally
    for group in groups.unique():
        own = events[groups == group]
        part = f"{name}_of_{Fraction(int(own.sum()), len(own))}"
        tally[part] = tally.get(part, 0) + 1
    return tally


def mean(name: str, tally: dict[str, int], level: float = LEVEL) -> Estimate | None:
    """The mean with its interval, as in core.estimates.mean; None if there are no samples."""
    n, total = tally[f"{name}_count"], tally[f"{name}_sum"]
    if n == 0:
        return None
    groups = _groups(name, tally)
    variance = _variance(name, tally, groups) / n if n > 1 else 0.0
    method = "t" if groups == n else "t by prompt"
    return of_variance(float(Fraction(total, n * 2**UNIT)), variance, groups, level, method)


def share(name: str, tally: dict[str, int], level: float = LEVEL) -> Estimate | None:
    """The probability of a counted event, as in core.estimates.share; None if there are no samples."""
    n, successes = tally[f"{name}_count"], tally[f"{name}_sum"]
    if n == 0:
        return None
    part = f"{name}_of_"
    groups = sorted((Fraction(key.removeprefix(part)), count) for key, count in tally.items() if key.startswith(part))
    if sum(count for _, count in groups) in (0, 1, n):
        return proportion(successes, n, level)
    atoms, weights = torch.tensor([[float(value), float(count)] for value, count in groups], dtype=torch.float64).T
    return within(successes / n, atoms, weights, (0.0, 1.0), level, "gaffke by prompt")


def _groups(name: str, tally: dict[str, int]) -> int:
    """The number of independent groups. It is n without groups, or with one group, which has no variance."""
    groups = tally.get(f"{name}_groups", 1)
    return tally[f"{name}_count"] if groups == 1 else groups


def _variance(name: str, tally: dict[str, int], groups: int) -> float:
    """n times the variance of the mean of n samples in K groups."""
    n, total, squares = (tally[f"{name}_{part}"] for part in ("count", "sum", "squares"))
    products, sizes = total, n
    if groups < n:
        squares, products, sizes = (tally[f"{name}_{part}"] for part in ("group_squares", "products", "sizes"))
    mean = Fraction(total, n)
    return float((squares - 2 * mean * products + mean**2 * sizes) * groups / ((groups - 1) * n * 4**UNIT))
