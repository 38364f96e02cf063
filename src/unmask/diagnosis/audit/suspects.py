"""Samples beside specimens: which fault is nearest, which would have been seen, and where a graded fault stands."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import NormalDist
from typing import NamedTuple

import torch
from torch import Tensor

from unmask.core.estimates import LEVEL, Estimate, quantile
from unmask.core.pvalues import chi_square
from unmask.diagnosis.audit.compare import Noise
from unmask.diagnosis.audit.specimens import Specimen, deciding, keeps_schedule, specimens, stepped, tempered
from unmask.diagnosis.audit.statistics import Rows
from unmask.samplers import Sampler

COLD = 0.02  # a temperature at which drawing is taking the most likely token
POWER = 0.9  # with which a fault that "would be seen" is seen
NO_STEP = 1e-9  # standard deviations: two specimens that are the same


@dataclass(frozen=True)
class Suspect:
    """Rows of a specimen, and the squared distance of the samples from them: near its degrees for the right one."""

    specimen: Specimen
    made: Rows
    misfit: float
    degrees: int

    @property
    def p_value(self) -> float:
        return chi_square(self.misfit, self.degrees)


def suspect(specimen: Specimen, made: Rows, samples: Rows) -> Suspect:
    noise = Noise(samples, made)
    difference = noise.white(samples.mean - made.mean)
    return Suspect(specimen, made, math.inf if noise.apart else float(difference @ difference), noise.degrees)


@dataclass(frozen=True)
class Grade:
    """A fault that comes in degrees, on a scale on which the means of the statistics are nearly straight."""

    fault: str
    nominal: float
    make: Callable[[float], Specimen]
    near: tuple[float, ...]  # always tried
    far: tuple[float, ...]  # tried where the samples differ

    def place(self, value: float) -> float:
        return math.log(value) if self.fault == "temperature" else -1 / value

    def value(self, place: float) -> float:
        if self.fault == "temperature":
            return math.exp(place)
        return -1 / place if place < 0 else math.inf

    def points(self, suspects: Sequence[Suspect]) -> list[tuple[float, Suspect]]:
        """(place, suspect) of the faultless one, which is the first of the suspects, and of those with this fault."""
        mine = [(s.specimen.value, s) for s in suspects if s.specimen.fault == self.fault]
        placed = [(self.place(value), s) for value, s in mine if value is not None]
        return sorted([(self.place(self.nominal), suspects[0]), *placed], key=lambda point: point[0])

    def fit(self, suspects: Sequence[Suspect], samples: Rows) -> Estimate:
        """The value whose statistics, interpolated between neighbouring specimens, are nearest to the samples."""
        best, place, error = math.inf, 0.0, math.inf
        points = self.points(suspects)
        for (low, left), (high, right) in pairwise(points):
            noise = Noise(samples, left.made)
            start = noise.white(samples.mean - left.made.mean)
            step = noise.white(right.made.mean - left.made.mean)
            shares = torch.linspace(0, 1, 41, dtype=torch.float64)
            misfits = ((start - shares.unsqueeze(1) * step) ** 2).sum(1)
            n, m = len(samples), len(left.made)
            misfits *= (1 / n + 1 / m) / (1 / n + (shares**2 + (1 - shares) ** 2) / m)  # a mixture has less noise
            if float(misfits.min()) < best:
                best, share = float(misfits.min()), float(shares[misfits.argmin()])
                place = low + share * (high - low)
                length = float(step.norm())
                error = (high - low) / length if length > NO_STEP else math.inf
        low, high = (self.value(place + side * quantile() * error) for side in (-1, 1))
        return Estimate(self.value(place), low, high, len(samples), LEVEL, "minimum distance")


class Look(NamedTuple):
    specimens: list[Specimen]  # the faultless one first
    grades: list[Grade]


def first_look(sampler: Sampler, rounds: int, named: bool) -> Look:
    """What is always tried: the sampler itself, every kind of fault, and graded ones by a little.

    named: whether the schedule has a name, and so exists for other numbers of rounds.
    """
    grades = []
    decides = deciding(sampler)
    heat = float(getattr(decides, "temperature", 1.0))
    if heat > 0:
        near, far = (tuple(heat * t for t in part) for part in ((0.9, 1.1), (COLD, 0.5, 0.8, 1.25, 2.0)))
        grades.append(Grade("temperature", heat, lambda t: tempered(sampler, t), near, far))
    if named and keeps_schedule(sampler):
        close = {max(1, 3 * rounds // 4), math.ceil(4 * rounds / 3)} - {rounds}
        further = {1, rounds // 4, rounds // 2, rounds - 1, rounds + 1, 2 * rounds, 4 * rounds} - {0, rounds} - close
        grades.append(Grade("miscounted steps", rounds, lambda n: stepped(sampler, n), tuple(close), tuple(further)))
    kinds = [] if decides.implements("run") else specimens(sampler, rounds)
    graded = [grade.make(value) for grade in grades for value in grade.near]
    return Look([Specimen("none", sampler), *kinds, *graded], grades)


class Directions:
    """Which way each fault would move the statistics, and how far the samples have moved that way.

    One degree of freedom sees what a test of all statistics at once overlooks. The direction is that from faultless
    rows to rows of the specimen, both independent of those that the samples are compared with: the test is exact.
    """

    def __init__(self, samples: Rows, reference: Rows, faultless: Rows) -> None:
        self.noise = Noise(samples, reference, dense=True)
        self.moved = self.noise.white(samples.mean - reference.mean)
        self.faultless = faultless

    def p_value(self, made: Rows) -> float:
        way = self._way(made, slice(None))
        length = float(way.norm())
        return math.erfc(abs(float(way @ self.moved)) / length / math.sqrt(2)) if length > 0 else 1.0

    def strength(self, made: Rows) -> float:
        """The squared distance that this fault is expected to have; unbiased, since from two halves of the rows."""
        return float(self._way(made, slice(0, None, 2)) @ self._way(made, slice(1, None, 2)))

    def _way(self, made: Rows, part: slice) -> Tensor:
        rows = len(made)
        return self.noise.white(made.columns[part].mean(0) - self.faultless.columns[:rows][part].mean(0))


def needed(alarm: float) -> float:
    """The squared distance that a test of one direction sees with the power that we ask for."""
    normal = NormalDist()
    return (normal.inv_cdf(1 - alarm / 2) + normal.inv_cdf(POWER)) ** 2


def visible(grade: Grade, suspects: Sequence[Suspect], directions: Directions, alarm: float) -> tuple[float, float]:
    """The values of a graded fault between which nothing would be seen."""
    ends = [0.0, math.inf]
    start = grade.place(grade.nominal)
    for place, other in grade.points(suspects):
        if place != start and other.specimen.value in grade.near:
            strength = directions.strength(other.made)
            if strength > 0:
                ends[place > start] = grade.value(start + (place - start) * math.sqrt(needed(alarm) / strength))
    return ends[0], ends[1]
