"""The way through a family's budgets, from cheap to dear: the same for the rows of one seed and for those of all."""

from __future__ import annotations

from collections.abc import Callable

import torch

from unmask.experiments.board.cells import Point
from unmask.experiments.board.families import STEPS, Family


def walk(member: Family, most: float, at: Callable[[int], Point | None]) -> list[Point]:
    """The points of a family until a row needs `most` evaluations, or N is found to do nothing.

    at: the point at the budget of an index, or None where there is none; the others go on without it.
    """
    points: list[Point] = []
    for index in range(len(member.values)):
        point = at(index)
        if point is None:
            continue
        if points and does_nothing(point, points[-1]):
            if member.knob == STEPS:
                break
            continue
        points.append(point)
        if point.evaluations >= most - 1e-9:
            break
    return points


def does_nothing(point: Point, earlier: Point) -> bool:
    """Whether turning the knob has changed no token and no evaluation: then it is no knob of this sampler."""
    pairs = zip(point.samples, earlier.samples, strict=True)
    return all(a.digest == b.digest and torch.equal(a.evaluations, b.evaluations) for a, b in pairs)
