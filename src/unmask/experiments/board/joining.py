"""Curves of several seeds joined, and failures."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import torch

from unmask.experiments.board.cells import Point, Sample
from unmask.experiments.board.families import STEPS, Family
from unmask.experiments.board.measures import Curve


@dataclass(frozen=True)
class Failure:
    """A failed budget or sampler; the others go on without it."""

    language: str
    length: int
    sampler: str
    knob: str
    value: object  # of the knob; None if a whole seed failed
    message: str


@dataclass(frozen=True)
class Measured:
    """One sampler on one language."""

    language: str  # its spec without a seed
    length: int
    family: Family
    curve: Curve
    specs: tuple[str, ...] = ()  # the languages of its seeds; empty for a network


def joined(member: Family, length: int, seeds: Sequence[Mapping[int, Sample]]) -> list[Point]:
    """The points at budgets of all seeds, until a row costs as much as AR. seeds: samples by index of the budget."""

    def at(index: int) -> Point | None:
        if not all(index in samples for samples in seeds):
            return None
        return Point(member.values[index], [samples[index] for samples in seeds], length)

    return walk(member, length, at)


def walk(member: Family, most: float, at: Callable[[int], Point | None]) -> list[Point]:
    """The points of a family until a row needs `most` model calls, or until N has no effect.

    at: returns the point at the budget of an index, or None.
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
        if point.model_calls >= most - 1e-9:
            break
    return points


def does_nothing(point: Point, earlier: Point) -> bool:
    """Whether another value of the knob changed no token and no model call."""
    pairs = zip(point.samples, earlier.samples, strict=True)
    return all(a.digest == b.digest and torch.equal(a.model_calls, b.model_calls) for a, b in pairs)
