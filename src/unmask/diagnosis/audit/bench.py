"""What samples are compared with: rows of our own sampler, with and without faults, and the exact law if tiny."""

from __future__ import annotations

import math
from functools import cached_property

import torch
from torch import Tensor

from unmask.core import pvalues
from unmask.diagnosis.audit.seen import Seen, said, surprise_of
from unmask.diagnosis.audit.specimens import Changed, Specimen, looks_everywhere
from unmask.diagnosis.audit.statistics import EXPECTED, Rows, Statistics
from unmask.diagnosis.audit.suspects import Directions
from unmask.generation import Generation, generate
from unmask.ideal import Ideal
from unmask.languages import Language
from unmask.metrics import output_law, sequences
from unmask.metrics.enumeration import MAX_LENGTH, MAX_SEQUENCES
from unmask.samplers import Sampler
from unmask.schedules import ScheduleLike

MIN_ROWS = 200
SEEDS = (2**62 + 2, 2**62 + 3)  # of the rows that samples are compared with, and of the specimens: nobody else's
DRAWS = 30_000_000  # symbols that a specimen may look at, where its cost grows with the number of rounds
BINS = 10


class Bench:
    """Rows of our own sampler, with and without faults, for samples of a certain shape (B, L).

    ordered: whether rounds are compared, too, and not the tokens alone.
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
        self.looks = length * language.vocabulary  # of a round, at symbols, where a specimen looks everywhere
        count = max(2 * rows, min(20 * rows, 60_000))
        if looks_everywhere(sampler):
            count = min(count, max(rows, 6 * DRAWS // (self.looks * len(delta))))
        made = self._generate(Specimen("none", sampler), count, SEEDS[0])
        self.needed = float(made.evaluations.double().mean())
        self.generated = made
        self.statistics = Statistics(language, made.tokens, rows, max(len(delta), int(made.order.max())))

    @cached_property
    def reference(self) -> Rows:
        return self._counted(self.generated, False)

    def count(self, tokens: Tensor, seen: Seen | None) -> Rows:
        """The statistics of samples, with their rounds if those are compared."""
        if seen is None or not self.ordered:
            return self.statistics(tokens)
        return self.statistics(tokens, seen.order, seen.said.surprise)

    @property
    def windows(self) -> int:
        """How many windows of a row have a surprise."""
        return self.length - self.statistics.size + 1

    def make(self, specimen: Specimen) -> Rows:
        count = max(self.rows, min(2 * self.rows, 8000))
        if looks_everywhere(specimen.sampler):
            count = min(count, max(MIN_ROWS, DRAWS // (self.looks * int(specimen.rounds or len(self.delta)))))
        return self._counted(self._generate(specimen, count, SEEDS[1]), isinstance(specimen.sampler, Changed))

    def _counted(self, made: Generation, bent: bool) -> Rows:
        """bent: whether what the rows were told is not what the language says."""
        if not self.ordered:
            return self.statistics(made.tokens)
        if bent:
            return self.statistics(made.tokens, made.order, said(self.language, made.tokens, made.order).surprise)
        return self.statistics(made.tokens, made.order, surprise_of(made.probability))

    def _generate(self, specimen: Specimen, rows: int, seed: int) -> Generation:
        return generate(
            self.language,
            sampler=specimen.sampler,
            schedule=self.schedule,
            steps=specimen.rounds or len(self.delta),
            length=self.length,
            rows=rows,
            seed=seed,
        )

    def tests(self, seen: Rows, directions: Directions) -> dict[str, float]:
        """p-values of the samples against our rows, whatever the fault."""
        reference = self.reference
        edges = torch.quantile(reference.bits, torch.arange(1, BINS).double() / BINS).unique()
        bins = [
            torch.bincount(torch.bucketize(part.bits, edges), minlength=len(edges) + 1) for part in (seen, reference)
        ]
        moved = math.inf if directions.noise.apart else float(directions.moved @ directions.moved)
        p_values = {
            "all statistics": pvalues.chi_square(moved, directions.noise.degrees),
            "validity": pvalues.shares(
                int(seen.invalid.sum()), self.rows, int(reference.invalid.sum()), len(reference)
            ),
            "surprise of a row": pvalues.table(*bins),
            "repeated rows": repetition(seen, reference),
            "repeats of the left neighbour": neighbours(seen.tokens, reference.tokens),
        }
        law = self._law()
        if law is not None:
            digits = self.language.vocabulary ** torch.arange(self.length - 1, -1, -1)
            p_values["exact law"] = pvalues.against_law(torch.bincount(seen.tokens @ digits, minlength=len(law)), law)
        return p_values

    def _law(self) -> Tensor | None:
        """The law of every sequence, where it is known and they can be enumerated."""
        length, vocabulary = self.length, self.language.vocabulary
        if length > MAX_LENGTH or vocabulary**length > MAX_SEQUENCES:
            return None
        if self.sampler.draws_rounds:
            return output_law(Ideal(self.language), length, self.delta)
        if self.sampler.law in ("causal", "language"):
            return self.language.log_prob(sequences(vocabulary, length)).exp()
        return None


def neighbours(seen: Tensor, other: Tensor) -> float:
    """p-value of how often a token of rows (B, L) is that of its left neighbour, beside other rows; 1 where too few are
    expected for a normal mean. One degree of freedom sees a penalty that a test of all statistics overlooks."""
    mine, theirs = ((rows[:, 1:] == rows[:, :-1]).sum(1).double() for rows in (seen, other))
    if float(theirs.mean()) * len(mine) < EXPECTED:
        return 1.0
    error = math.sqrt(float(theirs.var()) * (1 / len(mine) + 1 / len(theirs)))
    return math.erfc(abs(float(mine.mean() - theirs.mean())) / error / math.sqrt(2)) if error else 1.0


def repetition(seen: Rows, other: Rows) -> float:
    """p-value of so many rows repeating an earlier one, beside parts of equal size of other rows: at most binomial."""
    size = min(len(seen), len(other))
    parts = [part for part in (seen.tokens[:size], *other.tokens.split(size)) if len(part) == size]
    repeats = [size - len({row.tobytes() for row in part.numpy()}) for part in parts]
    return pvalues.at_least(repeats[0], sum(repeats), 1 / len(repeats))
