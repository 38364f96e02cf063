"""AUP of d3LLM (Qian et al., arXiv 2601.07568), the area under accuracy by tokens per model call: `aup-d3llm`.

Points (r_i, y_i) are sorted by r, tokens per model call; y is an accuracy in percent, and y_1 belongs to the smallest
r. Points with y < y_1 - 5 are dropped, and it is an error if the last one is. With the best accuracy y_max of all
methods on the task,

    W(y) = min(1, exp(-3 (1 - y / y_max)))
    AUP  = r_1 y_1 + sum_{i >= 2} (r_i - r_{i-1}) (y_i W(y_i) + y_{i-1} W(y_{i-1})) / 2

The board's accuracy under parallelism (board/measures.py) is another number. AUP has no upper end, changes with the
methods on the list, and can fall when a point is added.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor

from unmask.core.errors import UnmaskError
from unmask.core.estimates import LEVEL, Estimate

NAME = "aup-d3llm"
TOLERANCE = 5.0  # percentage points below y_1
STEEPNESS = 3.0
DRAWS = 1000

Pair = tuple[float, float]  # (r, y)


@dataclass(frozen=True)
class Aup:
    value: float
    best: float  # y_max
    dropped: tuple[Pair, ...]
    interval: Estimate | None = None
    drops: float | None = None  # the fraction of draws in which other points are dropped

    def to_dict(self) -> dict[str, Any]:
        return {"name": NAME} | asdict(self)


def aup(points: Sequence[Pair], best: float) -> Aup:
    """AUP of the points of a method; best: y_max of all methods on the task, in percent."""
    ordered = sorted(points)
    value, dropped = _measure(ordered, best)
    if len(ordered) - 1 in dropped:
        problem = f"accuracy falls from {ordered[0][1]:g}% to {ordered[-1][1]:g}% at the most tokens per model call"
        raise UnmaskError(f"{problem}. AUP allows {TOLERANCE:g} percentage points. Leave the point out")
    return Aup(value, best, tuple(ordered[number] for number in dropped))


def of_accuracies(points: Sequence[Pair], best: float, items: int) -> Aup:
    """AUP with an interval from accuracies on this number of items; y_max is fixed.

    Accuracies of one method on the same items depend on each other in an unknown way. The interval contains those of
    two extremes: independent accuracies, and accuracies of equal rank.
    """
    from scipy.special import betaincinv

    ordered = sorted(points)
    right = torch.tensor([y * items / 100 for _, y in ordered], dtype=torch.float64)
    uniform = torch.rand(DRAWS, len(ordered), generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    extremes = []
    for ranks in (uniform, uniform[:, :1].expand_as(uniform)):
        drawn = betaincinv(*(part.numpy() for part in (right + 0.5, items - right + 0.5, ranks)))  # Jeffreys
        extremes.append([[(r, 100 * y) for (r, _), y in zip(ordered, row, strict=True)] for row in drawn.tolist()])
    return _of_draws(ordered, best, extremes, items, "Jeffreys")


def of_items(speeds: Tensor, scores: Tensor, best: float) -> Aup:
    """AUP with an interval from resampled items. speeds, scores: those of a sampler of pbx.py."""
    rows = [sorted(zip(*row, strict=True)) for row in zip(speeds.tolist(), scores.tolist(), strict=True)]
    return _of_draws(rows[0], best, [rows[1:]], len(rows) - 1, "paired bootstrap over items")


def _of_draws(
    points: Sequence[Pair], best: float, kinds: Sequence[Sequence[Sequence[Pair]]], n: int, method: str
) -> Aup:
    """AUP of the points; its interval contains the quantiles over the rows of points of every kind."""
    result, dropped = aup(points, best), _measure(points, best)[1]
    drawn = [[_measure(row, best) for row in rows] for rows in kinds]
    values = torch.tensor([[value for value, _ in rows] for rows in drawn], dtype=torch.float64)
    tail = torch.tensor([(1 - LEVEL) / 2, (1 + LEVEL) / 2], dtype=torch.float64)
    low, high = values.quantile(tail, dim=1)
    least, most = min(float(low.min()), result.value), max(float(high.max()), result.value)
    drops = max(sum(other != dropped for _, other in rows) / len(rows) for rows in drawn)
    return replace(result, interval=Estimate(result.value, least, most, n, LEVEL, method), drops=drops)


def _measure(ordered: Sequence[Pair], best: float) -> tuple[float, tuple[int, ...]]:
    """(AUP of the kept points, the numbers of the dropped ones)."""
    least = ordered[0][1] - TOLERANCE
    area = [(r, y, y * min(1.0, math.exp(-STEEPNESS * (1 - y / best)))) for r, y in ordered if y >= least]
    steps = sum((r - before) * (own + other) / 2 for (before, _, other), (r, _, own) in pairwise(area))
    return area[0][0] * area[0][1] + steps, tuple(number for number, (_, y) in enumerate(ordered) if y < least)
