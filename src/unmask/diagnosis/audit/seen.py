"""What the record of an oracle says of samples: in which round each place was revealed, and how likely its token was.

Of this some is certain. Where a sampler reveals fixed numbers, one row with others is enough; where it does not look at
what is drawn, each token is a draw from what the oracle said, so that

    z = sum (log p(x) - E log p) / sqrt(sum Var log p),        beta - 1 ~ sum (log p(x) - E log p) / sum Var log p

is normal, and 1 / beta the temperature, whatever the language and the order. The rest is compared with rows of ours,
as tokens are: `statistics` counts both.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from unmask.core import pvalues
from unmask.core.chance import Luck
from unmask.core.errors import UnmaskError
from unmask.core.estimates import LEVEL, Estimate, quantile
from unmask.denoisers import Canvas
from unmask.diagnosis.audit.specimens import deciding, keeps_schedule
from unmask.ideal import Ideal
from unmask.ideal.record import Run
from unmask.languages import Language
from unmask.samplers import Sampler
from unmask.samplers.loops import walk

CERTAIN = 25  # expected of what never occurs: e^-25
CELL = 10  # expected in a cell of a table
LEAST = math.exp(-30)  # probability that is told from less


@dataclass(frozen=True)
class Finding:
    """A test of the record, and what an alarm of it means, where that is known by itself."""

    test: str
    p_value: float
    fault: str | None = None
    detail: str = ""


@dataclass(frozen=True)
class Said:
    """What the denoiser said where each token of (B, L) was revealed: of it, and of all that it could have been."""

    surprise: Tensor  # (B, L) -log p(x), at most 30
    expected: Tensor  # (B, L) its mean
    variance: Tensor  # (B, L)


def surprise_of(probability: Tensor) -> Tensor:
    """-log p, at most 30."""
    return -probability.clamp(min=LEAST).log()


def said(language: Language, tokens: Tensor, order: Tensor) -> Said:
    """What the ideal denoiser says of tokens (B, L) that are revealed in rounds (B, L), 1 and up."""
    ideal, shape = Ideal(language), tokens.shape
    surprise, expected, variance = (torch.zeros(shape, dtype=torch.float64) for _ in range(3))
    size = ideal.rows_at_once(shape[1])
    for first in range(0, len(tokens), size):
        part = slice(first, first + size)
        mine, rounds = tokens[part], order[part]
        canvas = Canvas(ideal, torch.full_like(mine, language.vocabulary), Luck(0, torch.arange(len(mine))))
        for rows, places, marginals in walk(canvas, rounds):
            p = marginals.dense()
            bits = surprise_of(p)
            mean = (p * bits).sum(1)
            surprise[part][rows, places] = bits.gather(1, mine[rows, places].unsqueeze(1)).squeeze(1)
            expected[part][rows, places] = mean
            variance[part][rows, places] = (p * bits**2).sum(1) - mean**2
            canvas.reveal((rows, places), mine[rows, places])
    return Said(surprise, expected, variance)


@dataclass(frozen=True)
class Seen:
    """The record beside the samples that it is about."""

    tokens: Tensor  # (B, L)
    order: Tensor  # (B, L) from 1
    runs: list[Run]
    said: Said
    sampler: Sampler
    delta: Tensor  # (N)
    aligned: bool = True  # whether calls are rounds; else the loop leaves out those in which nothing changes

    @classmethod
    def of(
        cls, runs: list[Run], order: Tensor, tokens: Tensor, language: Language, sampler: Sampler, delta: Tensor
    ) -> Seen:
        """An error where the rounds of the sampler are not calls."""
        if deciding(sampler).implements("run"):
            what = "does not go by rounds, so that no record says anything of it; give the language alone"
            raise UnmaskError(f"{sampler.spec} {what}")
        return cls(tokens, order, runs, said(language, tokens, order), sampler, delta)

    def as_rounds(self, ours: Tensor) -> tuple[Seen, Finding]:
        """Itself with calls read as rounds, and whether their number is that of ours, whose orders are (B', L)."""
        steps, calls = len(self.delta), [run.rounds for run in self.runs]
        usual = Counter(calls).most_common(1)[0][0]
        right = Finding("number of rounds", 1.0)
        wrong = Finding("number of rounds", 0.0, "miscounted steps", f"{usual} rounds instead of {steps}")
        if not keeps_schedule(deciding(self.sampler)) or set(calls) == {steps}:
            return self, right
        if max(calls) > steps:
            return self, wrong
        if deciding(self.sampler).pace == "rounds":  # done before its last round
            return self, right
        if any(run.idle for run in self.runs):
            return self, wrong
        if self.sampler.draws_rounds:
            empty = sum(float(((1 - self.delta) ** run.round.numel()).sum()) for run in self.runs)
            missing = sum(steps - count for count in calls)
            p_value = pvalues.at_least(missing, steps * len(calls), min(1.0, empty / (steps * len(calls))))
            return replace(self, aligned=False), replace(wrong, p_value=p_value)
        filled = ours.unique()
        if set(calls) == {len(filled)}:
            return replace(self, order=filled[self.order - 1]), right
        return self, wrong

    def findings(self, ours: Tensor) -> list[Finding]:
        """The tests of the record alone, beside the orders of our rows (B', L)."""
        found = [self._draws(), *self._batches(ours)]
        if not self.sampler.revises:
            found.append(self._remasked())
        if self.aligned:
            found.append(self._counts(ours))
            if self.sampler.draws_rounds:
                found.append(self._places())
        return found

    @property
    def before_drawing(self) -> bool:
        """Whether the sampler decides where without looking at what it draws there."""
        return self.sampler.law == "order" or self.sampler.draws_rounds or deciding(self.sampler).implements("order")

    @property
    def temperature(self) -> Estimate:
        """1 / beta, where all that is wrong is that tokens are drawn in proportion to p^beta."""
        more, variance = self._score(slice(None))
        beta, error = 1 + more / variance, quantile() / math.sqrt(variance)
        low, high = (1 / max(beta + side * error, 1e-9) for side in (1, -1))
        return Estimate(1 / max(beta, 1e-9), low, high, self.order.numel(), LEVEL, "score")

    @property
    def one_temperature(self) -> float:
        """p-value of the same excess in all rounds, given its sum."""
        groups = [self.order == number for number in self.order.unique().tolist()]
        parts = [part for part in map(self._score, groups) if part[1] >= CELL]
        if len(parts) < 2:
            return 1.0
        slope = sum(more for more, _ in parts) / sum(variance for _, variance in parts)
        moved = sum((more - slope * variance) ** 2 / variance for more, variance in parts)
        return pvalues.chi_square(moved, len(parts) - 1)

    def _score(self, which: Tensor | slice) -> tuple[float, float]:
        """(sum (log p(x) - E log p), sum Var log p) of some tokens."""
        more = float((self.said.expected - self.said.surprise)[which].sum())
        return more, max(float(self.said.variance[which].sum()), 1e-12)

    def _draws(self) -> Finding:
        if not self.before_drawing:
            return Finding("draws", 1.0)
        more, variance = self._score(slice(None))
        return Finding("draws", math.erfc(abs(more) / math.sqrt(2 * variance)))

    def _remasked(self) -> Finding:
        hidden, replaced = sum(run.again for run in self.runs), sum(run.replaced for run in self.runs)
        what = f"{hidden} of {self.order.numel()} places are hidden again" if hidden else f"{replaced} tokens replaced"
        return Finding("remasking", float(not hidden and not replaced), "remasking", what)

    def _batches(self, ours: Tensor) -> list[Finding]:
        """Whether batches repeat others, tokens and rounds, where ours have orders of their own."""
        parts = self.tokens.split([len(run.round) for run in self.runs])
        orders = self.order.split([len(run.round) for run in self.runs])
        known: dict[tuple[bytes, bytes], int] = {}
        for number, (tokens, order) in enumerate(zip(parts, orders, strict=True), 1):
            key = tokens.numpy().tobytes(), order.numpy().tobytes()
            first = known.setdefault(key, number)
            if first < number and len(tokens) * math.log(len(ours.unique(dim=0))) > CERTAIN:
                again = f"two workers with one seed: batch {number} is batch {first} again"
                return [Finding("batches", 0.0, "reused noise", again)]
        return [Finding("batches", 1.0)]

    def _counts(self, ours: Tensor) -> Finding:
        """How many places each round reveals: exactly so many, or at least some where ours have some."""
        steps = max(len(self.delta), int(ours.max()), int(self.order.max()))
        expected, seen = _counted(ours, steps), _counted(self.order, steps)
        if bool((expected == expected[0]).all()):
            return self._fixed(expected[0], seen)
        if self.sampler.draws_rounds:
            law = torch.zeros(steps, dtype=torch.float64)
            law[: len(self.delta)] = self.delta
            p_value, mean = pvalues.against_law(seen.sum(0), law), law * ours.shape[1]
        else:
            p_value, mean = 1.0, expected.double().mean(0)
        empty = (seen.sum(0) == 0) & (len(seen) * mean >= CERTAIN)
        if bool(empty.any()):
            return Finding("counts", 0.0, "uneven rounds", self._nothing(int(empty.int().argmax()) + 1))
        return Finding("counts", p_value)

    def _fixed(self, expected: Tensor, seen: Tensor) -> Finding:
        """Where the sampler reveals exactly so many (N) in each round, and the loop (B, N)."""
        if bool((seen == expected).all()):
            return Finding("counts", 1.0)
        number = int((seen != expected).any(0).int().argmax())
        least, most, should = int(seen[:, number].min()), int(seen[:, number].max()), int(expected[number])
        between = f"{least} to {most}" if least < most else str(least)
        what = f"round {number + 1} of {len(self.delta)} reveals {between} places of a row, not {should}"
        batches = torch.stack([part.sum(0) for part in seen.split([len(run.round) for run in self.runs])])
        sizes = torch.tensor([len(run.round) for run in self.runs]).unsqueeze(1)
        if bool((batches == sizes * expected).all()):
            return Finding("counts", 0.0, "batch-flattened choice", what)
        nothing = (seen.sum(0) == 0) & (expected > 0)
        if bool(nothing.any()):
            what = self._nothing(int(nothing.int().argmax()) + 1)
        return Finding("counts", 0.0, "uneven rounds", what)

    def _nothing(self, number: int) -> str:
        return f"round {number} of {len(self.delta)} reveals nothing"

    def _places(self) -> Finding:
        """Every place has the same law of rounds: a table of places and rounds, neighbouring rounds pooled."""
        groups = max(1, min(len(self.delta), len(self.order) // (2 * CELL)))
        edge = (torch.arange(len(self.delta)) * groups) // len(self.delta)
        law = torch.zeros(groups, dtype=torch.float64).scatter_add_(0, edge, self.delta)
        wanted = law * len(self.order)
        if bool((wanted < CELL / 2).any()):
            return Finding("places", 1.0)
        group = edge[(self.order - 1).clamp(max=len(self.delta) - 1)]
        seen = torch.stack([torch.bincount(column, minlength=groups) for column in group.T])
        moved = float(((seen - wanted) ** 2 / wanted).sum())
        return Finding("places", pvalues.chi_square(moved, self.order.shape[1] * (groups - 1)))


def _counted(order: Tensor, steps: int) -> Tensor:
    """(B, N): how many places of each row each round reveals."""
    return torch.zeros((len(order), steps), dtype=torch.int64).scatter_add_(1, order - 1, torch.ones_like(order))
