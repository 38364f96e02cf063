"""The smallest integer that reaches a target: steps for a quality, for a budget, or for a condition."""

from __future__ import annotations

import math
from collections.abc import Callable

from unmask.core.errors import UnmaskError

MOST = 2**24


class Floor(UnmaskError):
    """No number reaches the target: at `steps` the quality is `value`; stuck: more steps do not improve it."""

    def __init__(self, target: float, steps: int, value: float, stuck: bool) -> None:
        self.steps, self.value, self.stuck = steps, value, stuck
        super().__init__(f"no number of steps up to {steps:,} reaches {target:g}; {steps:,} steps reach {value:.6g}")


def least(
    quality: Callable[[int], float],
    target: float,
    guess: float = 1,
    slack: float = 0.0,
    most: int = MOST,
    flat: float = math.inf,
) -> int:
    """The smallest N at which quality(N) <= target, up to a fraction `slack` of N, for a quality that falls with N.

    least(lambda n: metrics.ser(language, 510, "linear", n).value, 0.5)

    A quality falls about as 1/N, which suggests the next N; every third trial bisects, in case it does not. An infinite
    quality shows only the side of N. A quality has reached its floor if twice the steps leave more than a fraction
    `flat` of it.
    """
    low, high = 0, most + 1
    worst = math.inf  # the quality at `low`
    steps = round(min(max(guess * (1 + slack / 2), 1), most))
    trials = 0

    while high - low > 1:
        value = quality(steps)
        trials += 1
        if value <= target:
            high = steps
            if value > (1 - slack) * target:
                break
        else:
            stuck = steps >= 2 * low > 0 and value > flat * worst
            if stuck or steps == most:
                raise Floor(target, steps, value, stuck)
            low, worst = steps, value

        if high <= most and (trials % 3 == 0 or math.isinf(value)):
            steps = (low + high) // 2
        elif math.isinf(value):
            steps = min(2 * steps, most)
        else:
            aim = math.inf
            if target > 0:
                aim = steps * value / target * (1 + slack / 2)
            steps = math.ceil(min(max(aim, low + 1), high - 1))
    return high


def first(holds: Callable[[int], bool], guess: float = 1, most: int = MOST) -> int:
    """The smallest N for which a condition holds; it must also hold for all larger N."""
    return least(lambda steps: -math.inf if holds(steps) else math.inf, 0.0, guess, most=most)
