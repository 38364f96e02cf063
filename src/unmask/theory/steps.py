"""The least number of rounds for a quality, whatever the quality and the schedule."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor

from unmask.errors import UnmaskError
from unmask.schedules import deltas

MOST = 2**24


def least_steps(quality: Callable[[Tensor], float], target: float, schedule: str = "linear", most: int = MOST) -> int:
    """The smallest N at which quality(deltas(schedule, N)) <= target, for a quality that falls with N.

    least_steps(lambda delta: exact_ser(language, 510, delta), 0.5)
    """
    low, high = 0, 1
    while (reached := quality(deltas(schedule, high))) > target:
        if high >= most:
            raise UnmaskError(f"no number of steps up to {most:,} reaches {target:g}: at {high:,} it is {reached:.6g}")
        low, high = high, min(2 * high, most)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if quality(deltas(schedule, middle)) <= target else (middle, high)
    return high
