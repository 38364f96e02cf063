"""Choice of a measured setting: the cheapest one that meets a target. Pages and `unmask plan` share this rule.

meets     the whole interval is on the good side of the target
may       the interval contains the target: more sequences would decide
misses    the whole interval is on the bad side

`sample_size` is the number of items that would decide between two settings.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from statistics import NormalDist
from typing import Any, TypeVar

MEETS, MAY, MISSES = "meets", "may meet", "misses"
POWER = 0.8
T = TypeVar("T")


def standing(low: float, high: float, target: float, rises: bool) -> str:
    """rises: larger values are better."""
    if not rises:
        low, high, target = -high, -low, -target
    if low >= target:
        return MEETS
    if high >= target:
        return MAY
    return MISSES


def cheapest(options: Sequence[T], of: Callable[[T], str], cost: Callable[[T], Any]) -> T | None:
    """The cheapest option that meets the target, or else the cheapest that may meet it."""
    for verdict in (MEETS, MAY):
        if candidates := [option for option in options if of(option) == verdict]:
            return min(candidates, key=cost)
    return None


def sample_size(spread: float, difference: float, level: float) -> int | None:
    """Items for a power of 0.8 at this difference and level; None if it is 0. spread: the mean of squares."""
    if difference == 0:
        return None
    alpha, beta = NormalDist().inv_cdf(1 - level / 2), NormalDist().inv_cdf(POWER)
    rest = max(spread - difference**2, 0.0)
    return math.ceil(((alpha * math.sqrt(spread) + beta * math.sqrt(rest)) / difference) ** 2)
