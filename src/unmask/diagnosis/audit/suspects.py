"""Compare samples with generated rows, with and without faults: the detectable faults, the size of a graded fault.

`verdict.judge` chooses the one that is named.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import pairwise
from operator import itemgetter, methodcaller
from statistics import NormalDist

import torch

from unmask.core.estimates import LEVEL, Estimate, quantile
from unmask.diagnosis.audit.changes import Altered
from unmask.diagnosis.audit.observed import packed, predictions, surprise_of
from unmask.diagnosis.audit.specimens import (
    Changed,
    Meant,
    Specimen,
    deciding,
    evaluates_everywhere,
    keeps_schedule,
    specimens,
    stepped,
    tempered,
)
from unmask.diagnosis.audit.statistics import (
    Noise,
    Rows,
    Statistics,
    against_distribution,
    at_least,
    chi_square,
    halves,
    shares,
    table,
)
from unmask.languages.base import codes
from unmask.metrics.exact import MAX_LENGTH, MAX_SEQUENCES, output_distribution, sequences
from unmask.samplers import Generation, generate
from unmask.samplers.rules.uniform import ENUMERABLE

COLD = 0.02  # a temperature at which sampling is nearly greedy
POWER = 0.9  # probability of detecting a detectable fault
NO_STEP = 1e-9  # standard deviations; below it two specimens are equal
MIN_ROWS = 200
REFERENCE, SPECIMENS = 2**61, 2**62 + 3  # random seeds of generated rows, not used elsewhere
DRAWS = 30_000_000  # symbols evaluated for a specimen whose cost grows with the number of steps
BINS = 10


@dataclass(frozen=True)
class Suspect:
    """Rows of a specimen, and the squared distance of the samples from them: about `degrees` if they agree."""

    specimen: Specimen
    generated: Rows
    misfit: float
    degrees: int
    p_value: float


def suspect(specimen: Specimen, generated: Rows, samples: Rows) -> Suspect:
    noise = Noise(samples, generated)
    misfit = noise.misfit(samples.mean - generated.mean)
    return Suspect(specimen, generated, misfit, noise.degrees, chi_square(misfit, noise.degrees))


@dataclass(frozen=True)
class Grade:
    """A fault with a size, on a scale on which the means of the statistics are nearly linear."""

    fault: str
    nominal: float
    make: Callable[[float], Specimen]
    near: tuple[float, ...]  # values that are always tested
    far: tuple[float, ...]  # values that are tested if the samples differ

    def coordinate(self, value: float) -> float:
        return math.log(value) if self.fault == "temperature" else -1 / value

    def value(self, coordinate: float) -> float:
        if self.fault == "temperature":
            return math.exp(coordinate)
        return -1 / coordinate if coordinate < 0 else math.inf

    def points(self, suspects: Sequence[Suspect]) -> list[tuple[float, Suspect]]:
        """(coordinate, suspect) of the faultless suspect, which is the first, and of those with this fault."""
        mine = [s for s in suspects if s.specimen.fault == self.fault]
        placed = {self.coordinate(s.specimen.value): s for s in mine if s.specimen.value is not None}
        placed[self.coordinate(self.nominal)] = suspects[0]
        return sorted(placed.items(), key=itemgetter(0))

    def fit(self, suspects: Sequence[Suspect], samples: Rows) -> Estimate:
        """The value whose statistics, interpolated between specimens, are nearest to the samples."""
        best, coordinate, error = math.inf, 0.0, math.inf
        noise = Noise(samples, suspects[0].generated)  # one for all, so that distances can be compared
        fractions = torch.linspace(0, 1, 41, dtype=torch.float64).unsqueeze(1)

        for (low, left), (high, right) in pairwise(self.points(suspects)):
            # rows of one seed are alike, so that a sum of squares would favor one end; products of two halves do not
            begin, end = halves(left.generated.columns), halves(right.generated.columns)
            start, other = map(noise.white, samples.mean - begin)
            step, way = map(noise.white, end - begin)
            misfits = ((start - fractions * step) * (other - fractions * way)).sum(1)

            if float(misfits.min()) < best:
                best, fraction = float(misfits.min()), float(fractions[misfits.argmin()])
                coordinate = low + fraction * (high - low)
                squared, length = float(step @ way), float((step + way).norm()) / 2
                error = (high - low) * length / squared if squared > NO_STEP else math.inf

        low, high = (self.value(coordinate + side * quantile() * error) for side in (-1, 1))
        return Estimate(self.value(coordinate), low, high, len(samples), LEVEL, "minimum distance")


def plan_of(meant: Meant) -> tuple[list[Specimen], list[Grade]]:
    """Specimens that are always tested: the sampler, every kind of fault, and small graded faults; and all grades."""
    grades = []
    sampler, steps = meant.sampler, len(meant.delta)

    heat = float(getattr(deciding(sampler), "temperature", 1.0))
    if "temperature" in meant.filters:
        heat = meant.filters["temperature"] * (heat > 0)
    if heat > 0:
        near = (0.9 * heat, 1.1 * heat)
        far = (COLD * heat, 0.5 * heat, 0.8 * heat, 1.25 * heat, 2.0 * heat)
        grades.append(Grade("temperature", heat, partial(tempered, meant), near, far))

    if isinstance(meant.schedule, str) and keeps_schedule(sampler):  # it exists for other numbers of steps
        close = {max(1, 3 * steps // 4), math.ceil(4 * steps / 3)} - {steps}
        further = {1, steps // 4, steps // 2, steps - 1, steps + 1, 2 * steps, 4 * steps} - {0, steps} - close
        grades.append(Grade("miscounted steps", steps, partial(stepped, sampler), tuple(close), tuple(further)))

    graded = [grade.make(value) for grade in grades for value in grade.near]
    return [Specimen("none", sampler), *specimens(meant), *graded], grades


class Directions:
    """Tests of the samples in the direction in which each fault moves the statistics.

    A test with one degree of freedom detects smaller faults than a test of all statistics. The direction points from
    faultless rows to rows of the specimen. Both are independent of the reference rows, so the test is exact.
    """

    def __init__(self, samples: Rows, reference: Rows, faultless: Rows) -> None:
        self.noise = Noise(samples, reference, dense=True)
        self.moved = self.noise.white(samples.mean - reference.mean)
        self.faultless = faultless

    def p_value(self, generated: Rows) -> float:
        way = self.noise.white(generated.mean - self.faultless.columns[: len(generated)].mean(0))
        length = max(float(way.norm()), 1e-300)  # without a direction the p-value is 1
        return math.erfc(abs(float(way @ self.moved)) / length / math.sqrt(2))

    def strength(self, generated: Rows) -> float:
        """Unbiased estimate of the squared distance of this fault, from two halves of the rows."""
        faultless = self.faultless.columns[: len(generated)]
        even, odd = map(self.noise.white, halves(generated.columns) - halves(faultless))
        return float(even @ odd)


def needed(alarm: float) -> float:
    """Squared distance that a test of one direction detects with probability POWER."""
    normal = NormalDist()
    return (normal.inv_cdf(1 - alarm / 2) + normal.inv_cdf(POWER)) ** 2


def visible(grade: Grade, suspects: Sequence[Suspect], directions: Directions, alarm: float) -> tuple[float, float]:
    """Range of values of a graded fault that would not be detected."""
    ends = [0.0, math.inf]
    start = grade.coordinate(grade.nominal)
    for coordinate, other in grade.points(suspects):
        if other.specimen.value in grade.near:
            strength = directions.strength(other.generated)
            if strength > 0:
                ends[coordinate > start] = grade.value(
                    start + (coordinate - start) * math.sqrt(needed(alarm) / strength)
                )
    return ends[0], ends[1]


class Bench:
    """Generated rows, with and without faults, for samples of shape (B, L).

    ordered: whether steps are compared, not only tokens. packed: without the steps of a row that reveal nothing.
    seed: of the reference rows.
    """

    packed = False

    def __init__(self, meant: Meant, rows: int, length: int, ordered: bool = False, seed: int = REFERENCE) -> None:
        self.meant, self.rows, self.length, self.ordered = meant, rows, length, ordered
        self.denoiser, self.sampler, self.delta = meant.denoiser, meant.sampler, meant.delta
        assert self.denoiser.language is not None
        self.language = self.denoiser.language
        self.lookups = length * self.language.vocabulary  # symbols per step, if a specimen evaluates all positions
        count = max(2 * rows, min(20 * rows, 60_000))
        if evaluates_everywhere(self.sampler):
            count = min(count, max(rows, 6 * DRAWS // (self.lookups * len(meant.delta))))
        self.generated = self._generate(Specimen("none", self.sampler), count, seed)
        steps = max(len(meant.delta), int(self.generated.order.max()))
        self.statistics = Statistics(self.language, self.generated.tokens, rows, steps)

    @cached_property
    def reference(self) -> Rows:
        return self._counted(self.generated, False)

    def make(self, specimen: Specimen, times: int = 2) -> Rows:
        """Statistics of generated rows; times: their number, relative to the samples."""
        count = max(self.rows, min(times * self.rows, 8000))
        if evaluates_everywhere(specimen.sampler):
            count = min(count, max(MIN_ROWS, DRAWS // (self.lookups * int(specimen.steps or len(self.delta)))))
        return self._counted(self._generate(specimen, count, SPECIMENS), isinstance(specimen.sampler, Changed))

    def _counted(self, generation: Generation, changed: bool) -> Rows:
        """changed: whether the predictions differ from the language."""
        if not self.ordered:
            return self.statistics(generation.tokens)
        order = packed(generation.order) if self.packed else generation.order
        surprise = surprise_of(generation.probability)
        if changed:
            surprise = predictions(self.denoiser, generation.tokens, order).surprise
        return self.statistics(generation.tokens, order, surprise)

    def _generate(self, specimen: Specimen, rows: int, seed: int) -> Generation:
        steps = specimen.steps or len(self.delta)
        return generate(
            self.meant.denoiser,
            sampler=specimen.sampler,
            schedule=self.meant.schedule,
            steps=steps,
            length=self.length,
            rows=rows,
            seed=seed,
        )

    def tests(self, samples: Rows, directions: Directions) -> dict[str, float]:
        """p-values of the samples against reference rows, for any fault."""
        p_values = compared(samples, self.reference, directions.noise)

        length, vocabulary, distribution = self.length, self.language.vocabulary, None
        if length <= MAX_LENGTH and vocabulary**length <= MAX_SEQUENCES:  # the probability of every sequence, if known
            if self.sampler.draws_steps:
                distribution = output_distribution(self.denoiser, length, self.delta)
            elif self.sampler.distribution in ("causal", "language") and not isinstance(self.denoiser, Altered):
                distribution = self.language.log_prob(sequences(vocabulary, length)).exp()
            elif callable(self.sampler.distribution) and vocabulary**length <= ENUMERABLE:
                distribution = self.sampler.distribution(self.denoiser, length, self.delta)

        if distribution is not None:
            counts = codes(samples.tokens, vocabulary, length).squeeze(1).bincount(minlength=len(distribution))
            p_values["exact distribution"] = against_distribution(counts, distribution)
        return p_values


def compared(samples: Rows, reference: Rows, noise: Noise) -> dict[str, float]:
    """p-values of two sets of rows under one distribution, for any difference."""
    edges = torch.quantile(reference.bits, torch.arange(1, BINS).double() / BINS).unique()
    binned = torch.bucketize(samples.bits, edges), torch.bucketize(reference.bits, edges)
    bins = [torch.bincount(part, minlength=len(edges) + 1) for part in binned]
    invalid = int(samples.invalid.sum()), len(samples), int(reference.invalid.sum()), len(reference)
    return {
        "all statistics": chi_square(noise.misfit(samples.mean - reference.mean), noise.degrees),
        "validity": shares(*invalid),
        "surprise of a row": table(*bins),
        "repeated rows": repetition(samples, reference),
    }


def repetition(samples: Rows, reference: Rows) -> float:
    """p-value of the number of repeated rows, against parts of equal size of other rows (binomial bound)."""
    size = min(len(samples), len(reference))
    parts = [part for part in (samples.tokens[:size], *reference.tokens.split(size)) if len(part) == size]
    repeats = [size - len(set(map(methodcaller("tobytes"), part.numpy()))) for part in parts]
    return at_least(repeats[0], sum(repeats), 1 / len(repeats))
