"""Results of a curve: the model calls for a target, and accuracy under parallelism.

A curve has the points of a sampler by model calls e, a mean over rows. Between two points a value y is interpolated so
that log(y + target) is linear in log e. Near a target it then follows a power of e, such as 1/N, and y may be zero. If
y falls from far above the target to less than a twentieth, the points between are unknown and the later point counts.

Accuracy under parallelism is the mean of 1 - SER over log2 e from one model call to L:

    AUP = 1/log2(L) * integral from 0 to log2(L) of A(2^x) dx

where A(e) is 1 - SER at the most expensive measured budget that costs at most e, and 0 below the first budget. AUP is 0
for AR, which has no parallelism, and x for a sampler that is always right with L^(1-x) model calls. Between two budgets
nothing is measured. If more model calls do no harm, A is there at most its value at the next budget, and AUP at most
`accuracy_at_most`; more budgets make the two closer. AUP is linear in the correctness of each row, so each row has an
accuracy, and two samplers have a paired difference. (Qian et al., arXiv 2601.07568, proposed an area under the accuracy
against tokens per forward pass, which has no upper end; this formula is different.)
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

import torch
from torch import Tensor

from unmask.core.estimates import Estimate, bounded_mean
from unmask.experiments.board.cells import Point
from unmask.experiments.board.families import Family

Values = Sequence[float]
FAR, STEEP = 1.5, 20


@dataclass(frozen=True)
class Need:
    """The model calls at which a target is met: `value`, of the kind `how`.

    low, high: the same for the ends of the measured intervals; None if they are not on the curve.
    "jump": met at a budget, and missed so clearly at the previous one that the values between are unknown.
    "at most": met at the smallest budget already. "not reached": at no budget; `best` is the smallest measured value.
    """

    how: Literal["crossed", "jump", "at most", "not reached"]
    value: float | None
    low: float | None
    high: float | None
    best: float  # the measured value nearest to the target
    at: float  # the model calls there

    @property
    def sure(self) -> bool:
        """Whether the interval has an upper end: the rows suffice."""
        return self.high is not None


def crossing(model_calls: Values, values: Values, target: float) -> float | None:
    """The smallest e at which the interpolated values reach the target; at the first point, its own e."""
    met = first_met(values, target)
    if met is None:
        return None
    if met == 0 or falls_off(values, met, target):
        return model_calls[met]
    above, below, aim = (math.log(max(y, 0.0) + target) for y in (values[met - 1], values[met], target))
    first, last = (math.log(e) for e in model_calls[met - 1 : met + 1])
    return math.exp(first + (above - aim) / (above - below) * (last - first))


def first_met(values: Values, target: float) -> int | None:
    return next((i for i, value in enumerate(values) if value <= target), None)


def falls_off(values: Values, at: int, target: float) -> bool:
    return values[at - 1] > FAR * target and values[at] < values[at - 1] / STEEP


def need(model_calls: Values, estimates: Sequence[Estimate], target: float) -> Need:
    """The model calls at which an estimated curve meets a target, with the crossings of its band."""
    values = [estimate.value for estimate in estimates]
    low, high = (crossing(model_calls, [getattr(e, end) for e in estimates], target) for end in ("low", "high"))
    value, met = crossing(model_calls, values, target), first_met(values, target)
    best = min(range(len(values)), key=values.__getitem__)
    nearest = values[best], model_calls[best]
    if met is None:
        return Need("not reached", None, low, None, *nearest)
    if met == 0:
        return Need("at most", value, None, high, *nearest)
    if falls_off(values, met, target):
        upper = None if high is None else max(high, model_calls[met])
        return Need("jump", value, min(low or math.inf, model_calls[met - 1]), upper, *nearest)
    assert value is not None  # it is met
    within = None if low is None else min(low, value)  # an end of the band may fall off if the curve does not
    return Need("crossed", value, within, None if high is None else max(high, value), *nearest)


class Curve:
    """The points of a sampler on one language, by model calls."""

    def __init__(self, points: Sequence[Point]) -> None:
        self.points = sorted(points, key=lambda point: point.model_calls)
        self.length = points[0].length
        self.model_calls = [point.model_calls for point in self.points]

    def ser_need(self, target: float) -> Need:
        return need(self.model_calls, [point.ser for point in self.points], target)

    def ter_need(self, excess: float) -> Need | None:
        """Until TER or its bound is within `excess` of the language's TER; None if the last point has neither."""
        if self.points[-1].divergence is None:
            return None
        known = [(p.model_calls, p.divergence) for p in self.points if p.divergence is not None]
        target = self.length * math.log1p(excess)
        return need([e for e, _ in known], [nats for _, nats in known], target)

    @property
    def right(self) -> list[Tensor]:
        """(rows of all seeds) for each point: 1 where possible."""
        return [1 - point.wrong.double() for point in self.points]

    @property
    def sizes(self) -> list[int]:
        """The rows of each seed."""
        return [len(sample.wrong) for sample in self.points[0].samples]

    @property
    def weights(self) -> list[float]:
        """The weight of 1 - SER of each point in the accuracy under parallelism."""
        return area_weights(self.model_calls, self.length)

    @property
    def accuracy_rows(self) -> Tensor:
        """(rows of all seeds): the area of each row; its mean is the accuracy under parallelism."""
        return sum_of(self.weights, [1 - point.wrong for point in self.points])

    @property
    def accuracy(self) -> Estimate:
        return bounded_mean(self.accuracy_rows)

    @property
    def accuracy_at_most(self) -> float:
        """The accuracy if each budget had its value from the previous budget on."""
        weights = area_weights(self.model_calls, self.length, early=True)
        return float(sum_of(weights, [1 - point.wrong for point in self.points]).mean())

    def by_seed(self, rows: Tensor) -> list[float]:
        """The mean for each seed of a number for each row (rows of all seeds)."""
        return [float(part.mean()) for part in rows.split(self.sizes)]


@dataclass(frozen=True)
class Measured:
    """One sampler on one language."""

    language: str  # its spec without a seed
    length: int
    family: Family
    curve: Curve
    specs: tuple[str, ...] = ()  # the languages of its seeds; empty for a network


def area_weights(model_calls: Values, length: int, early: bool = False) -> list[float]:
    """The part of log2 e from 1 to L for each point: from its budget to the next, for the last point to the end.

    early: from the previous budget, or from 1, to its own; for the last point also to the end.
    """
    whole = math.log2(length) if length > 1 else 1.0
    places = [min(max(math.log2(e) / whole, 0.0), 1.0) for e in model_calls]
    steps = [b - a for a, b in pairwise([0.0, *places, 1.0])]
    return [*steps[:-2], steps[-2] + steps[-1]] if early else steps[1:]


def sum_of(weights: Values, parts: Sequence[Tensor]) -> Tensor:
    return torch.stack([weight * part for weight, part in zip(weights, parts, strict=True)]).sum(0)


def ratio(one: Need, other: Need) -> Estimate | None:
    """The ratio of model calls, with the widest interval that the two allow; None if either is unknown."""
    if one.value is None or other.value is None or other.how == "at most":
        return None
    low = one.low / other.high if one.low is not None and other.high is not None else 0.0
    high = one.high / other.low if one.high is not None and other.low is not None else math.inf
    return Estimate(one.value / other.value, low, high, 0, method="ratio of crossings")
