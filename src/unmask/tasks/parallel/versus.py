"""Two samplers on the same items: their whole curves by the board's rule (board/difference.py), and at equal speed.

A row is an item, and each item counts the same. The cost of a setting is its model calls for a canvas of L positions,
L * mean(model calls / canvas), where L is the largest canvas: then tasks with other canvases have equal costs. So the
verdict, its interval and its band are those of `unmask board compare`, with items in place of sequences.

At equal speed, a sampler between two settings scores the mean of both, weighted as on the line of PBx. This has no
allowance for the unknown course between two settings; the curves have.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

import torch
from torch import Tensor

from unmask.core.errors import UnmaskError
from unmask.experiments.board.compare import Difference, difference
from unmask.tasks.evaluation.compare import Comparison, compare_shares
from unmask.tasks.parallel.points import Outcome, Setting

Item = tuple[str, str]  # (task, key)


@dataclass(frozen=True)
class Items:
    """The curve of a sampler over items, by model calls."""

    length: int
    model_calls: Sequence[float]
    right: Sequence[Tensor]  # (items) for each setting

    @property
    def sizes(self) -> list[int]:
        return [len(self.right[0])]

    def at(self, calls: float) -> Tensor:
        """(items) the score at this cost, linear in speed L / calls between two settings."""
        above = next(number for number, cost in enumerate(self.model_calls) if cost >= calls)
        if above == 0:
            return self.right[0]
        slow, speed, fast = (1 / cost for cost in (self.model_calls[above], calls, self.model_calls[above - 1]))
        part = (speed - slow) / (fast - slow)
        return part * self.right[above - 1] + (1 - part) * self.right[above]


def versus(one: Sequence[Setting], other: Sequence[Setting]) -> Difference:
    """The difference of two samplers, the settings of each, on the items that all settings have."""
    return difference(*_curves(one, other))


def at_speed(one: Sequence[Setting], other: Sequence[Setting], speed: float) -> Comparison:
    """The paired comparison at equal tokens per model call."""
    curves = _curves(one, other)
    calls = curves[0].length / speed
    least, most = (side(end(curve.model_calls) for curve in curves) for side, end in ((max, min), (min, max)))
    if not least <= calls <= most:
        length = curves[0].length
        span = f"{length / most:.4g} to {length / least:.4g}" if least <= most else "none"
        raise UnmaskError(f"--speed is {speed:g} tokens per model call; both samplers were measured at {span}")
    return compare_shares(list(zip(*(curve.at(calls).tolist() for curve in curves), strict=True)))


def _curves(one: Sequence[Setting], other: Sequence[Setting]) -> tuple[Items, Items]:
    every = [_outcomes(setting) for setting in (*one, *other)]
    common = sorted(set.intersection(*map(set, every)))
    if not common:
        raise UnmaskError("the samplers have no items in common. Compare results on the same items of one model")
    length = max(own[item].canvas or 0 for own in every for item in common)
    return _curve(every[: len(one)], common, length), _curve(every[len(one) :], common, length)


def _curve(settings: Sequence[dict[Item, Outcome]], items: Sequence[Item], length: int) -> Items:
    points = []
    for own in settings:
        costs = [_cost(own[item]) for item in items]
        scores = torch.tensor([own[item].score for item in items], dtype=torch.float64)
        points.append((length * fmean(costs), scores))
    points.sort(key=lambda point: point[0])
    return Items(length, [calls for calls, _ in points], [scores for _, scores in points])


def _cost(one: Outcome) -> float:
    if one.forwards is None or not one.canvas:
        raise UnmaskError(f"{one.sampler}, {one.setting}: {one.task} has no model calls. Compare records with them")
    return one.forwards / one.canvas


def _outcomes(setting: Setting) -> dict[Item, Outcome]:
    return {(task, one.item): one for task, own in setting.tasks.items() for one in own}
