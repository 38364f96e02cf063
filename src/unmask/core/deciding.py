"""Which measured setting to take: the cheapest that meets a target. One rule for pages and for `unmask advise`.

meets     the whole interval is on the good side of the target
may       the interval contains the target: more sequences would decide
misses    the whole interval is on the wrong side
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

MEETS, MAY, MISSES = "meets", "may meet", "misses"
T = TypeVar("T")


def standing(low: float, high: float, target: float, rises: bool) -> str:
    """rises: larger values are better."""
    if low >= target if rises else high <= target:
        return MEETS
    return MAY if (high >= target if rises else low <= target) else MISSES


def cheapest(options: Sequence[T], of: Callable[[T], str], cost: Callable[[T], Any]) -> T | None:
    """The option of least cost that meets the target; if there is none, the one of least cost that may meet it."""
    for wanted in (MEETS, MAY):
        if kept := [option for option in options if of(option) == wanted]:
            return min(kept, key=cost)
    return None
