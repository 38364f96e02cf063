"""Reference for samples: generated rows with and without faults, and the exact distribution if it is small."""

from __future__ import annotations

import math
from functools import cached_property

import torch
from torch import Tensor

from unmask.core import pvalues
from unmask.denoisers import Ideal, as_denoiser
from unmask.diagnosis.audit.observed import Observed, predictions, surprise_of
from unmask.diagnosis.audit.specimens import Changed, Specimen, evaluates_everywhere
from unmask.diagnosis.audit.statistics import EXPECTED, Rows, Statistics
from unmask.diagnosis.audit.suspects import Directions
from unmask.languages import Language
from unmask.metrics import output_distribution, sequences
from unmask.metrics.exact import MAX_LENGTH, MAX_SEQUENCES
from unmask.metrics.windows import codes
from unmask.samplers import Generation, Sampler, generate
from unmask.samplers.rules.uniform import ENUMERABLE
from unmask.samplers.schedules import ScheduleLike

MIN_ROWS = 200
SEEDS = (2**62 + 2, 2**62 + 3)  # of the reference rows and of the specimens, not used elsewhere
DRAWS = 30_000_000  # symbols evaluated for a specimen whose cost grows with the number of steps
BINS = 10


class Bench:
    """Generated rows, with and without faults, for samples of shape (B, L).

    ordered: whether steps are compared, not only tokens.
    """

    def __init__(
        self,
        language: Language,
        sampler: Sampler,
        schedule: ScheduleLike,
        delta: Tensor,
        rows: int,
        length: int,
        ordered: bool = False,
    ) -> None:
        self.ordered = ordered
        self.language, self.sampler, self.schedule, self.delta = language, sampler, schedule, delta
        self.rows, self.length = rows, length
        self.lookups = length * language.vocabulary  # symbols per step, if a specimen evaluates all positions
        count = max(2 * rows, min(20 * rows, 60_000))
        if evaluates_everywhere(sampler):
            count = min(count, max(rows, 6 * DRAWS // (self.lookups * len(delta))))
        generation = self._generate(Specimen("none", sampler), count, SEEDS[0])
        calls = generation.model_calls.double()
        self.needed, self.spread = float(calls.mean()), float(calls.std())
        self.generated = generation
        self.statistics = Statistics(language, generation.tokens, rows, max(len(delta), int(generation.order.max())))

    @cached_property
    def reference(self) -> Rows:
        return self._counted(self.generated, False)

    def count(self, tokens: Tensor, observed: Observed | None) -> Rows:
        """Statistics of samples, with their steps if these are compared."""
        if observed is None or not self.ordered:
            return self.statistics(tokens)
        return self.statistics(tokens, observed.order, observed.predictions.surprise)

    @property
    def windows(self) -> int:
        """Number of windows of a row with a surprise."""
        return self.length - self.statistics.size + 1

    def make(self, specimen: Specimen) -> Rows:
        count = max(self.rows, min(2 * self.rows, 8000))
        if evaluates_everywhere(specimen.sampler):
            count = min(count, max(MIN_ROWS, DRAWS // (self.lookups * int(specimen.steps or len(self.delta)))))
        return self._counted(self._generate(specimen, count, SEEDS[1]), isinstance(specimen.sampler, Changed))

    def _counted(self, generation: Generation, changed: bool) -> Rows:
        """changed: whether the predictions differ from the language."""
        if not self.ordered:
            return self.statistics(generation.tokens)
        if changed:
            exact = predictions(self.language, generation.tokens, generation.order)
            return self.statistics(generation.tokens, generation.order, exact.surprise)
        return self.statistics(generation.tokens, generation.order, surprise_of(generation.probability))

    def _generate(self, specimen: Specimen, rows: int, seed: int) -> Generation:
        return generate(
            self.language,
            sampler=specimen.sampler,
            schedule=self.schedule,
            steps=specimen.steps or len(self.delta),
            length=self.length,
            rows=rows,
            seed=seed,
        )

    def tests(self, samples: Rows, directions: Directions) -> dict[str, float]:
        """p-values of the samples against reference rows, for any fault."""
        reference = self.reference
        edges = torch.quantile(reference.bits, torch.arange(1, BINS).double() / BINS).unique()
        bins = [
            torch.bincount(torch.bucketize(part.bits, edges), minlength=len(edges) + 1) for part in (samples, reference)
        ]
        moved = math.inf if directions.noise.apart else float(directions.moved @ directions.moved)
        p_values = {
            "all statistics": pvalues.chi_square(moved, directions.noise.degrees),
            "validity": pvalues.shares(
                int(samples.invalid.sum()), self.rows, int(reference.invalid.sum()), len(reference)
            ),
            "surprise of a row": pvalues.table(*bins),
            "repeated rows": repetition(samples, reference),
            "repeats of the left neighbour": neighbours(samples.tokens, reference.tokens),
        }
        distribution = self._distribution()
        if distribution is not None:
            which = codes(samples.tokens, self.language.vocabulary, self.length).squeeze(1)
            counts = torch.bincount(which, minlength=len(distribution))
            p_values["exact distribution"] = pvalues.against_distribution(counts, distribution)
        return p_values

    def _distribution(self) -> Tensor | None:
        """Probability of every sequence, if it is known and the sequences can be enumerated."""
        length, vocabulary = self.length, self.language.vocabulary
        if length > MAX_LENGTH or vocabulary**length > MAX_SEQUENCES:
            return None
        if self.sampler.draws_steps:
            return output_distribution(Ideal(self.language), length, self.delta)
        if self.sampler.distribution in ("causal", "language"):
            return self.language.log_prob(sequences(vocabulary, length)).exp()
        if callable(self.sampler.distribution) and vocabulary**length <= ENUMERABLE:
            return self.sampler.distribution(as_denoiser(self.language, self.sampler.removes), length, self.delta)
        return None


def neighbours(samples: Tensor, reference: Tensor) -> float:
    """p-value of the number of tokens (B, L) equal to their left neighbour; 1 if too few are expected.

    A test with one degree of freedom detects a penalty that a test of all statistics misses.
    """
    mine, theirs = ((rows[:, 1:] == rows[:, :-1]).sum(1).double() for rows in (samples, reference))
    if float(theirs.mean()) * len(mine) < EXPECTED:
        return 1.0
    error = math.sqrt(float(theirs.var()) * (1 / len(mine) + 1 / len(theirs)))
    return math.erfc(abs(float(mine.mean() - theirs.mean())) / error / math.sqrt(2)) if error else 1.0


def repetition(samples: Rows, reference: Rows) -> float:
    """p-value of the number of repeated rows, against parts of equal size of other rows (binomial bound)."""
    size = min(len(samples), len(reference))
    parts = [part for part in (samples.tokens[:size], *reference.tokens.split(size)) if len(part) == size]
    repeats = [size - len({row.tobytes() for row in part.numpy()}) for part in parts]
    return pvalues.at_least(repeats[0], sum(repeats), 1 / len(repeats))
