"""Intervals of a mean over rows of which most lose little and a few lose much.

Student's interval lies below such a mean too often: with one sequence of mass .96 in 8 bits it covers 84% to 91% of
cases at 100 rows. Gaffke's bound (core/estimates.py) covers any distribution within known ends. Here the ends are 0
and twice the largest loss; where losses can be below 0, as log ratios, a quarter of the range beyond the rows.

That suffices if the rows show the rare event: a token that is not the most likely one, in a step of several tokens. The
model's own probabilities give the number of rows in which this is expected, with less noise than the rows:

    expected = sum over rows of 1 - prod_i max_v c_i(v | x_R)

With fewer than SEEN of them, or with fewer than LEAST rows, there is no interval.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from unmask.core.estimates import LEAST, Estimate, bounded_mean

SEEN = 12  # with 5, 3 and 2 rows expected, about 90%, 80% and 70% of intervals cover the mean


def units(rows: int, groups: Tensor | None) -> int:
    """Number of independent rows: those of one group (n numbers) are not, unless it is the only one."""
    return rows if groups is None or len(groups.unique()) == 1 else len(groups.unique())


def interval(
    values: Tensor,
    groups: Tensor | None = None,
    least: float | None = None,
    count: Tensor | None = None,
    wide: bool = False,
) -> Estimate:
    """The mean of values (n), none below `least`; or per count (n): a ratio of sums, linearized.

    wide: whether there is no interval whatever the number of rows."""
    size = torch.ones_like(values) if count is None else count.double()
    share, value = size / size.mean(), float(values.sum() / size.sum())
    each = values / size.mean() + value * (1 - share)
    low, high, n = float(each.min()), float(each.max()), units(len(values), groups)
    if wide or n < LEAST:
        return Estimate(value, -math.inf, math.inf, n, method="no interval")
    floor = low if least is None else float((least * share + value * (1 - share)).min())
    span = high - floor
    if span <= 1e-12 * (1 + abs(high)):
        return Estimate(value, value, value, n, method="all rows are equal")
    ends = (floor - span / 4, high + span / 4) if least is None else (floor, high + span)
    return bounded_mean(each, ends, method="gaffke, beyond the largest row", groups=groups)


def exceeds(one: Estimate, other: Estimate, margin: float = 0.0) -> bool:
    """Whether a mean is above another one by more than a margin, beyond the noise of both."""
    return one.value - other.value - math.hypot(one.value - one.low, other.high - other.value) > margin
