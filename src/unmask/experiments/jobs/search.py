"""The number of steps at which a measured value reaches a target."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from unmask.core.estimates import LEVEL, Estimate, proportion, quantile
from unmask.core.search import least

SPREAD = (0.75, 1.0, 1.35)  # SER is measured at these multiples of the pilots' N
PILOT_ROWS = 64
PILOTS = 12

Count = Callable[[int, int], int]  # (steps, rows) -> impossible sequences among fresh rows


def steps_between(excess: Callable[[int], Estimate], most: float) -> Estimate:
    """The least N at which a measured excess is at most `most`; its interval inverts that of the excess."""
    value = float(least(lambda n: excess(n).value, most))
    at = excess(int(value))
    low, high = 1.0, math.inf  # if there are too few rows for an interval
    if math.isfinite(at.low) and math.isfinite(at.high):
        low, high = (float(least(lambda n, end=end: getattr(excess(n), end), most)) for end in ("low", "high"))  # type: ignore[misc]
    return Estimate(value, low, high, at.n, at.level, f"inverted {at.method}")


def steps_at_ser(count_impossible: Count, ser: float, start: int, rows: int) -> Estimate:
    """The N at which SER has a given value, from SER measured at three N around it.

    1 - SER is exp(-c/N) in leading order (theory.md 7.4), so a few pilots lead near that N. A line through the origin,
    fitted by likelihood, interpolates -log(1 - SER) against 1/N.
    """
    aim = -math.log1p(-ser)
    steps = max(start, 1)
    for _ in range(PILOTS):
        impossible = (count_impossible(steps, PILOT_ROWS) + 0.5) / (PILOT_ROWS + 1)
        jump = min(max(-math.log1p(-impossible) / aim, 1 / 8), 8.0)
        moved = max(round(steps * jump), 1)
        if abs(impossible - ser) < 0.2 or moved == steps:
            break
        steps = moved
    points = sorted({max(round(moved * ratio), 1) for ratio in SPREAD})
    slope = fit_slope([(n, count_impossible(n, rows), rows) for n in points])
    return slope.map(lambda c: max(c / aim, 1.0))


def steps_on_grid(count_impossible: Count, ser: float, rows: int, most: int) -> Estimate | None:
    """The least N of 1, 2, 3, 4, 6, 8, 12, .. up to `most` at which the measured SER is at most a value, else None.

    It assumes nothing about the curve but that it falls. The ends are the N at which the interval of SER reaches the
    value with its low and with its high end; pilots of few rows skip an N whose interval is above it.
    """
    octaves, low, value = range(most.bit_length()), None, None
    for n in sorted(n for n in {*(2**k for k in octaves), *(3 * 2**k for k in octaves)} if n <= most):
        if low is None and proportion(count_impossible(n, PILOT_ROWS), PILOT_ROWS).low > ser:
            continue
        at = proportion(count_impossible(n, rows), rows)
        low = n if low is None and at.low <= ser else low
        value = n if value is None and at.value <= ser else value
        if value is not None and (at.high <= ser or n >= 2 * value):
            high = n if at.high <= ser else math.inf
            return Estimate(value, float(low or n), high, rows, LEVEL, "grid")
    return None if value is None else Estimate(value, float(low or value), math.inf, rows, LEVEL, "grid")


def fit_slope(counts: Sequence[tuple[int, int, int]], level: float = LEVEL) -> Estimate:
    """c of SER = 1 - exp(-c/N) from (N, impossible, rows) of each point: maximum likelihood, normal in log c.

    Each point gets half an impossible and half a valid row more, so that the estimate always exists.
    """
    from scipy.optimize import brentq

    data = [(1 / n, impossible + 0.5, rows + 1.0) for n, impossible, rows in counts]

    def score(c: float) -> float:
        return sum(x * (impossible / math.expm1(c * x) - (rows - impossible)) for x, impossible, rows in data)

    high = 1.0
    while score(high) > 0:
        high *= 2
    best = brentq(score, 1e-9, high, xtol=1e-15, rtol=1e-15)
    information = sum(rows * (best * x) ** 2 / math.expm1(best * x) for x, _, rows in data)
    factor = math.exp(quantile(level) / math.sqrt(information))
    n = sum(rows for _, _, rows in counts)
    return Estimate(best, best / factor, best * factor, n, level, "likelihood")
