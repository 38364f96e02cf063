"""What a curve comes to: the evaluations that a target needs, accuracy under parallelism, differences row by row.

A curve is a sampler's points by evaluations e, the mean over rows of what a row needed. Between two points a value y is
interpolated so that log(y + target) is linear in log e: near a target it follows a power of e, as 1/N laws do, and a
value of zero is no obstacle. Where it falls from far above the target to less than a twentieth of that, nothing is
known of the way down, and the later point counts.

Accuracy under parallelism is the mean of 1 - SER over log2 e from one evaluation to L:

    AUP = 1/log2(L) * integral from 0 to log2(L) of A(2^x) dx

where A(e) is 1 - SER at the dearest budget that was measured and costs at most e, and 0 below the first: what whoever
can spend e is known to get. It is the share of the way from "everything at once" to "one token at a time" that a
sampler was seen to go correctly: 0 for AR, which has no parallelism, and x for one that is right with L^(1-x)
evaluations, whatever stands on the grid besides. What lies between two budgets is not measured: if more evaluations are
no worse, A is there at most what it is at the next one, and AUP at most `accuracy_at_most`; more budgets bring the two
together. (Qian et al., arXiv 2601.07568, weigh an area under the accuracy against tokens per forward, which has no
upper end; the idea is theirs, the formula is not.) It is linear in whether each row is right, so that a sampler has an
accuracy row by row, and two of them a paired difference.
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

Values = Sequence[float]
FAR, STEEP = 1.5, 20


@dataclass(frozen=True)
class Need:
    """The evaluations at which a target is met: `value` where `found`, which otherwise says what is known instead.

    low, high: the same for the ends of the interval of what is measured; None where they are not on the curve.
    "jump": met at a budget, and missed so clearly at the one before that what lies between is unknown; "at most": met
    at the least budget already; "not reached": not at any, `best` being the least that was seen.
    """

    found: Literal["crossed", "jump", "at most", "not reached"]
    value: float | None
    low: float | None
    high: float | None
    best: float  # what is measured, where it is nearest to the target
    at: float  # the evaluations there

    @property
    def sure(self) -> bool:
        """Whether the interval has an upper end too: the rows suffice to say so."""
        return self.high is not None


def crossing(evaluations: Values, values: Values, target: float) -> float | None:
    """The least e at which the interpolated values come down to the target: that of the first point, if it is there."""
    met = first_met(values, target)
    if met is None:
        return None
    if met == 0 or falls_off(values, met, target):
        return evaluations[met]
    above, below, aim = (math.log(max(y, 0.0) + target) for y in (values[met - 1], values[met], target))
    first, last = (math.log(e) for e in evaluations[met - 1 : met + 1])
    return math.exp(first + (above - aim) / (above - below) * (last - first))


def first_met(values: Values, target: float) -> int | None:
    return next((i for i, value in enumerate(values) if value <= target), None)


def falls_off(values: Values, at: int, target: float) -> bool:
    return values[at - 1] > FAR * target and values[at] < values[at - 1] / STEEP


def need(evaluations: Values, estimates: Sequence[Estimate], target: float) -> Need:
    """The evaluations at which an estimated curve meets a target, with the crossings of its band."""
    values = [estimate.value for estimate in estimates]
    low, high = (crossing(evaluations, [getattr(e, end) for e in estimates], target) for end in ("low", "high"))
    value, met = crossing(evaluations, values, target), first_met(values, target)
    best = min(range(len(values)), key=values.__getitem__)
    seen = values[best], evaluations[best]
    if met is None:
        return Need("not reached", None, low, None, *seen)
    if met == 0:
        return Need("at most", value, None, high, *seen)
    if falls_off(values, met, target):
        upper = None if high is None else max(high, evaluations[met])
        return Need("jump", value, min(low or math.inf, evaluations[met - 1]), upper, *seen)
    assert value is not None  # it is met
    within = None if low is None else min(low, value)  # an end of the band may fall off where the curve does not
    return Need("crossed", value, within, None if high is None else max(high, value), *seen)


class Curve:
    """A sampler on one language: its points by evaluations."""

    def __init__(self, points: Sequence[Point]) -> None:
        self.points = sorted(points, key=lambda point: point.evaluations)
        self.length = points[0].length
        self.evaluations = [point.evaluations for point in self.points]

    def ser_need(self, target: float) -> Need:
        return need(self.evaluations, [point.ser for point in self.points], target)

    def ser_need_by_seed(self, target: float) -> list[float | None]:
        """The same by the rows of each seed alone."""
        by_seed = zip(*(point.ser_by_seed for point in self.points), strict=True)
        return [crossing(self.evaluations, list(values), target) for values in by_seed]

    def ter_need(self, excess: float) -> Need | None:
        """Until TER, or its bound, is within `excess` of the language's own; None where there is neither at the end."""
        if self.points[-1].divergence is None:
            return None
        known = [(p.evaluations, p.divergence) for p in self.points if p.divergence is not None]
        target = self.length * math.log1p(excess)
        return need([e for e, _ in known], [nats for _, nats in known], target)

    @property
    def weights(self) -> list[float]:
        """What each point's 1 - SER counts in the accuracy under parallelism."""
        return area_weights(self.evaluations, self.length)

    @property
    def accuracy_rows(self) -> Tensor:
        """(rows of all seeds): each row's own area, whose mean is the accuracy under parallelism."""
        return sum_of(self.weights, [1 - point.wrong for point in self.points])

    @property
    def accuracy(self) -> Estimate:
        return bounded_mean(self.accuracy_rows)

    @property
    def accuracy_at_most(self) -> float:
        """What it would be if each budget's accuracy were there from the budget before it on."""
        weights = area_weights(self.evaluations, self.length, early=True)
        return float(sum_of(weights, [1 - point.wrong for point in self.points]).mean())

    def by_seed(self, rows: Tensor) -> list[float]:
        """The mean of a number a row (rows of all seeds) over each seed's."""
        sizes = [len(sample.wrong) for sample in self.points[0].samples]
        return [float(part.mean()) for part in rows.split(sizes)]


def area_weights(evaluations: Values, length: int, early: bool = False) -> list[float]:
    """How much of log2 e from 1 to L each point stands for: from its budget to the next, the last one to the end.

    early: from the budget before it, or from 1, to its own; the last one to the end as well.
    """
    whole = math.log2(length) if length > 1 else 1.0
    places = [min(max(math.log2(e) / whole, 0.0), 1.0) for e in evaluations]
    steps = [b - a for a, b in pairwise([0.0, *places, 1.0])]
    return [*steps[:-2], steps[-2] + steps[-1]] if early else steps[1:]


def sum_of(weights: Values, parts: Sequence[Tensor]) -> Tensor:
    return torch.stack([weight * part for weight, part in zip(weights, parts, strict=True)]).sum(0)


def paired(ours: Tensor, theirs: Tensor) -> Estimate:
    """The mean difference of two numbers in [0, 1] of each row, which met the same luck."""
    return bounded_mean(ours - theirs, (-1.0, 1.0), method="gaffke, paired")


def ratio(ours: Need, theirs: Need) -> Estimate | None:
    """How many times the evaluations, with the widest interval that the two allow; None where either is unknown."""
    if ours.value is None or theirs.value is None or theirs.found == "at most":
        return None
    low = ours.low / theirs.high if ours.low is not None and theirs.high is not None else 0.0
    high = ours.high / theirs.low if ours.high is not None and theirs.low is not None else math.inf
    return Estimate(ours.value / theirs.value, low, high, 0, method="ratio of crossings")
