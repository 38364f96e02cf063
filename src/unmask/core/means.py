"""Means of numbers that nothing bounds: Student's interval, or Gaffke's where a few rows carry the mean.

Where most rows lose little and a few lose much, Student's interval lies below the mean too often: with one sequence of
mass .96 in 8 bits it covers 84% to 91% of cases at 100 rows. Gaffke's bound (core/gaffke.py) covers any distribution
within known ends. Here the ends are 0 and twice the largest loss; where losses can be below 0, as log ratios, a quarter
of the range beyond the rows.

That suffices if the rows show the rare event. `seen` is the number of rows that should show it: of a gap, by the
model's own probabilities, with less noise than the rows have:

    expected = sum over rows of 1 - prod_i max_v c_i(v | x_R)

or else by the rows alone, the number that carries the mean:

    carriers = (sum_i |d_i|)^2 / sum_i d_i^2,   d_i the distance of row i from the median

With fewer than SEEN, or with fewer than LEAST rows, there is no interval. The runs that just pass hold the event too
often by chance, so their mean is too large. So with fewer than SURE the interval reaches to the median row.
"""

from __future__ import annotations

import math
from dataclasses import replace

import torch
from torch import Tensor

from unmask.core.entries import chosen
from unmask.core.estimates import BY_GROUP, LEAST, LEVEL, Estimate, bounded_mean, by_group

SEEN = 12  # with 5, 3 and 2 rows expected, about 90%, 80% and 70% of intervals cover the mean
SURE = 40  # from here on, runs that pass by chance are too few to matter
RARE_ROWS = "too few rows hold the rare values that decide the mean"
CERTAIN = 1e-9  # a loss so small is that of the only text
ROUNDING = 1e-9  # of a difference, relative to the numbers
RARE = 0.2  # fraction of the rows below which those that carry the mean are few


def units(rows: int, groups: Tensor | None) -> int:
    """Number of independent rows: those of one group (n numbers) are not."""
    return rows if groups is None else len(groups.unique())


def carriers(values: Tensor) -> float:
    """The number of rows that carry the mean of values (n); infinite if they are not few."""
    middle = values.double().median()
    apart = (values.double() - middle).abs()
    apart[apart <= ROUNDING * (1 + middle.abs())] = 0.0  # equal numbers, such as the texts of a uniform language
    squares = float(apart.square().sum())
    number = float(apart.sum()) ** 2 / squares if squares else 0.0
    return number if 0 < number < RARE * len(values) else math.inf


def skewed_mean(samples: Tensor, groups: Tensor | None = None, method: str = "t") -> Estimate:
    """The mean of unbounded samples (n); where a few carry it, with the bound of `interval`."""
    if math.isfinite(few := carriers(samples)):
        return interval(samples.double(), groups, seen=few)
    return mean(samples, method=method, groups=groups)


def loss(usual: Estimate, each: Tensor | None, copies: bool = False) -> Estimate:
    """The mean of numbers from 0 up: `usual`, or where a few of the independent ones (K) carry it, with `interval`.

    copies: whether the rows are copies of one text, which do not show the others. each: None if few do not carry it.
    """
    few = math.inf if each is None else carriers(each)
    if copies and usual.value > CERTAIN:
        few = 0.0

    best = usual
    if each is not None and usual.n >= LEAST and math.isfinite(few):
        best = interval(each, seen=few)
    low, high = max(min(best.low, usual.value), 0.0), max(best.high, usual.value)
    return replace(best, value=usual.value, low=low, high=high)


def mean(samples: Tensor, level: float = LEVEL, method: str = "t", groups: Tensor | None = None) -> Estimate:
    """The mean of unbounded samples (n), with Student's interval; with fewer than LEAST samples it is the whole line.

    Samples are independent, or only those of different groups (n numbers) are; the interval is then that of K groups.
    """
    n = len(samples)
    samples = samples.double()
    value = float(samples.mean())
    if groups is not None and (count := len(groups.unique())) < n:
        return of_variance(value, _variance(samples, groups), count, level, f"{method}{BY_GROUP}")
    variance = float(samples.var()) / n if n > 1 else 0.0
    return of_variance(value, variance, n, level, method)


def ratio(total: Tensor, count: Tensor, method: str = "t", groups: Tensor | None = None) -> Estimate:
    """A ratio of sums over n rows, as only rows are independent: linearized, with Student's interval."""
    value = float(total.sum() / count.sum())
    errors = (total - value * count) / count.mean()
    return mean(errors, method=method, groups=groups).map(lambda error: value + error)


def of_variance(value: float, variance: float, n: int, level: float, method: str) -> Estimate:
    """Student's interval from the variance of a mean of n independent numbers.

    Few rows do not show how skewed a distribution is: with fewer than LEAST the interval is the whole line.
    """
    from scipy.special import stdtrit

    half = math.inf
    if n >= LEAST:
        half = float(stdtrit(n - 1, 0.5 + level / 2)) * math.sqrt(variance)
    return Estimate(value, value - half, value + half, n, level, method)


def _variance(samples: Tensor, groups: Tensor) -> float:
    """Variance of the mean of n samples in K groups: K / (K-1) sum_k (sum_{i in k} (x_i - mean))^2 / n^2.

    One group does not show it.
    """
    sums, sizes = by_group(samples - samples.mean(), groups)
    if len(sizes) == 1:
        return math.inf
    return float((sums**2).sum()) * len(sizes) / (len(sizes) - 1) / len(samples) ** 2


def interval(
    values: Tensor,
    groups: Tensor | None = None,
    least: float | None = None,
    count: Tensor | None = None,
    seen: float = math.inf,
) -> Estimate:
    """The mean of values (n), none below `least`; or per count (n): a ratio of sums, linearized.

    seen: the number of independent rows that should show the rare event."""
    size = chosen(count, torch.ones_like(values)).double()
    share = size / size.mean()
    value = float(values.sum() / size.sum())
    each = values / size.mean() + value * (1 - share)

    low, high = float(each.min()), float(each.max())
    n = units(len(values), groups)
    if seen < SEEN or n < LEAST:
        return Estimate(value, -math.inf, math.inf, n, method=RARE_ROWS)

    floor = low
    if least is not None:
        floor = float((least * share + value * (1 - share)).min())
    span = high - floor
    if span <= 1e-12 * (1 + abs(high)):
        return Estimate(value, value, value, n, method="all rows are equal")

    ends = floor, high + span
    if least is None:
        ends = floor - span / 4, high + span / 4
    ours = bounded_mean(each, ends, method="gaffke, beyond the largest row", groups=groups)
    if seen >= SURE:
        return ours
    usual = float(each.median())
    return replace(ours, low=min(ours.low, usual), high=max(ours.high, usual))


def exceeds(one: Estimate, other: Estimate, margin: float = 0.0) -> bool:
    """Whether a mean is above another one by more than a margin, beyond the noise of both."""
    return one.value - other.value - math.hypot(one.value - one.low, other.high - other.value) > margin
