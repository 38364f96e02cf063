"""Sums that do not depend on their order: numbers in units of 2^-64, added as whole numbers.

Rounding a number to the unit is the only step that loses anything, and it is done to each alone; so a mean and its
interval are the same however the numbers were grouped.
"""

from __future__ import annotations

import math
from fractions import Fraction

from torch import Tensor

from unmask.estimates import LEVEL, Estimate, quantile

UNIT = 64  # bits after the point


def sums(name: str, samples: Tensor) -> dict[str, int]:
    """The count, the sum and the sum of squares of samples (n), to be added to those of others."""
    units = [round(Fraction(value) * 2**UNIT) for value in samples.double().tolist()]
    squares = sum(unit * unit for unit in units)
    return {f"{name}_count": len(units), f"{name}_sum": sum(units), f"{name}_squares": squares}


def mean(name: str, tally: dict[str, int], level: float = LEVEL) -> Estimate | None:
    """The mean with its normal interval, as estimates.mean has it; None of nothing, the whole line of one sample."""
    n, total, squares = (tally[f"{name}_{part}"] for part in ("count", "sum", "squares"))
    if n == 0:
        return None
    value = float(Fraction(total, n * 2**UNIT))
    if n == 1:
        return Estimate(value, -math.inf, math.inf, n, level, "normal")
    variance = float(Fraction(n * squares - total**2, n * (n - 1) * 4**UNIT))
    half = quantile(level) * math.sqrt(variance / n)
    return Estimate(value, value - half, value + half, n, level, "normal")
