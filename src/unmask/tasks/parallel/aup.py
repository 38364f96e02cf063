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
from dataclasses import dataclass, replace
from itertools import pairwise

import torch
from torch import Tensor

from unmask.core.errors import UnmaskError
from unmask.core.estimates import LEVEL, Estimate

TOLERANCE = 5.0  # percentage points below y_1
STEEPNESS = 3.0

Pair = tuple[float, float]  # (r, y)


@dataclass(frozen=True)
class Aup:
    value: float
    best: float  # y_max
    dropped: tuple[Pair, ...]
    interval: Estimate | None = None


def aup(points: Sequence[Pair], best: float) -> Aup:
    """AUP of the points of a method; best: y_max of all methods on the task, in percent."""
    ordered = sorted(points)
    least = ordered[0][1] - TOLERANCE
    if ordered[-1][1] < least:
        problem = f"accuracy falls from {ordered[0][1]:g}% to {ordered[-1][1]:g}% at the most tokens per model call"
        raise UnmaskError(f"{problem}. AUP allows {TOLERANCE:g} percentage points. Leave the point out")
    return Aup(_area(ordered, best), best, tuple(pair for pair in ordered if pair[1] < least))


def of_items(speeds: Tensor, scores: Tensor, best: float) -> Aup:
    """AUP with an interval from resampled items. speeds, scores: those of a sampler of pbx.py."""
    rows = [sorted(zip(*row, strict=True)) for row in zip(speeds.tolist(), scores.tolist(), strict=True)]
    result = aup(rows[0], best)
    drawn = torch.tensor([_area(row, best) for row in rows[1:]], dtype=torch.float64)
    low, high = (float(drawn.quantile(tail)) for tail in ((1 - LEVEL) / 2, (1 + LEVEL) / 2))
    ends = min(low, result.value), max(high, result.value)
    interval = Estimate(result.value, *ends, len(drawn), LEVEL, "paired bootstrap over items")
    return replace(result, interval=interval)


def _area(ordered: Sequence[Pair], best: float) -> float:
    """The area of the points that are not dropped."""
    least = ordered[0][1] - TOLERANCE
    pairs = [(r, y, y * min(1.0, math.exp(-STEEPNESS * (1 - y / best)))) for r, y in ordered if y >= least]
    steps = sum((r - before) * (own + other) / 2 for (before, _, other), (r, _, own) in pairwise(pairs))
    return pairs[0][0] * pairs[0][1] + steps
