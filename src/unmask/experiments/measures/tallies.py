"""Sums that do not depend on their order: numbers in units of 2^-64, added as whole numbers.

Rounding a number to the unit is the only step that loses anything, and it is done to each alone; so a mean and its
interval are the same however the numbers were grouped. Of samples in K independent groups, s_k the sum of one and n_k
its size, four more sums say what the variance of their mean is, as core.estimates.mean has it:

    K / (K-1) sum_k (s_k - n_k mean)^2 / n^2,   sum_k (..)^2 = sum s_k^2 - 2 mean sum s_k n_k + mean^2 sum n_k^2
"""

from __future__ import annotations

from fractions import Fraction

import torch
from torch import Tensor

from unmask.core.estimates import LEVEL, Estimate, of_variance, proportion, within

UNIT = 64  # bits after the point


def sums(name: str, samples: Tensor, groups: Tensor | None = None) -> dict[str, int]:
    """What is added up of samples (n), alone or in groups (n numbers), none of which goes on in another tally."""
    units = [round(Fraction(value) * 2**UNIT) for value in samples.double().tolist()]
    squares = sum(unit * unit for unit in units)
    found = {f"{name}_count": len(units), f"{name}_sum": sum(units), f"{name}_squares": squares}
    if groups is None:
        return found
    distinct, which = torch.unique(groups, return_inverse=True)
    totals, members = [0] * len(distinct), [0] * len(distinct)
    for unit, group in zip(units, which.tolist(), strict=True):
        totals[group] += unit
        members[group] += 1
    return found | {
        f"{name}_groups": len(distinct),
        f"{name}_group_squares": sum(total * total for total in totals),
        f"{name}_products": sum(total * size for total, size in zip(totals, members, strict=True)),
        f"{name}_sizes": sum(size * size for size in members),
    }


def counts(name: str, events: Tensor, groups: Tensor | None = None) -> dict[str, int]:
    """What is added up of events (n), 0 or 1: how many, and of groups how many have which share.

    A share is named by its least terms, so that groups of one share count together whatever their sizes.
    """
    found = {f"{name}_count": len(events), f"{name}_sum": int(events.sum())}
    if groups is None:
        return found
    for group in groups.unique():
        own = events[groups == group]
        part = f"{name}_of_{Fraction(int(own.sum()), len(own))}"
        found[part] = found.get(part, 0) + 1
    return found


def mean(name: str, tally: dict[str, int], level: float = LEVEL) -> Estimate | None:
    """The mean with its interval, as core.estimates.mean has it; None of nothing."""
    n, total = tally[f"{name}_count"], tally[f"{name}_sum"]
    if n == 0:
        return None
    groups = _groups(name, tally)
    variance = _variance(name, tally, groups) / n if n > 1 else 0.0
    method = "t" if groups == n else "t by prompt"
    return of_variance(float(Fraction(total, n * 2**UNIT)), variance, groups, level, method)


def share(name: str, tally: dict[str, int], level: float = LEVEL) -> Estimate | None:
    """The probability of an event that was counted, as core.estimates.share has it; None of nothing."""
    n, successes = tally[f"{name}_count"], tally[f"{name}_sum"]
    if n == 0:
        return None
    part = f"{name}_of_"
    shares = sorted((Fraction(key.removeprefix(part)), many) for key, many in tally.items() if key.startswith(part))
    if sum(many for _, many in shares) in (0, 1, n):
        return proportion(successes, n, level)
    atoms, often = torch.tensor([[float(value), float(many)] for value, many in shares], dtype=torch.float64).T
    return within(successes / n, atoms, often, (0.0, 1.0), level, "gaffke by prompt")


def _groups(name: str, tally: dict[str, int]) -> int:
    """How many independent groups there are: n of samples that are alone, or all in one, which says nothing of it."""
    groups = tally.get(f"{name}_groups", 1)
    return tally[f"{name}_count"] if groups == 1 else groups


def _variance(name: str, tally: dict[str, int], groups: int) -> float:
    """n times that of the mean of n samples in K groups."""
    n, total, squares = (tally[f"{name}_{part}"] for part in ("count", "sum", "squares"))
    products, sizes = total, n
    if groups < n:
        squares, products, sizes = (tally[f"{name}_{part}"] for part in ("group_squares", "products", "sizes"))
    mean = Fraction(total, n)
    return float((squares - 2 * mean * products + mean**2 * sizes) * groups / ((groups - 1) * n * 4**UNIT))
