"""Curves of several seeds as one: what a sampler came to on one language, and what it could not do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from unmask.experiments.board.cells import Point, Sample
from unmask.experiments.board.families import Family
from unmask.experiments.board.measures import Curve
from unmask.experiments.board.walk import walk


@dataclass(frozen=True)
class Failure:
    """What a sampler could not do: the others go on without it."""

    language: str
    length: int
    sampler: str
    knob: str
    value: object  # of the knob; None where nothing of a seed was measured
    message: str


@dataclass(frozen=True)
class Measured:
    """One sampler on one language."""

    language: str
    length: int
    family: Family
    curve: Curve
    language_seeds: tuple[int, ...] = ()  # of the languages that were met, where it is not that of a network


def joined(member: Family, length: int, seeds: Sequence[Mapping[int, Sample]]) -> list[Point]:
    """The points at budgets that all seeds have, until a row costs as much as AR; seeds: samples by index of budget."""

    def at(index: int) -> Point | None:
        if not all(index in samples for samples in seeds):
            return None
        return Point(member.values[index], [samples[index] for samples in seeds], length)

    return walk(member, length, at)
