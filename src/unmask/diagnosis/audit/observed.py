"""The record of an oracle: the step in which each position was revealed, and the probability of its token.

Some tests need no reference. If a sampler reveals fixed numbers of positions, one row with other numbers is an error.
If its positions do not depend on the drawn tokens, each token is a draw from the prediction of the oracle. Then

    z = sum (log p(x) - E log p) / sqrt(sum Var log p)

is normal, for any language and order. Everything else is compared with generated rows,
as are the tokens; `statistics` counts both.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from unmask.core.chance import Randomness
from unmask.core.entries import column
from unmask.core.errors import UnmaskError
from unmask.core.estimates import LEVEL, Estimate, quantile
from unmask.denoisers import Canvas, Denoiser
from unmask.denoisers.record import Run
from unmask.diagnosis.audit.specimens import Meant, deciding, keeps_schedule
from unmask.diagnosis.audit.statistics import against_distribution, at_least, chi_square, histogram, shares
from unmask.samplers.loops import walk

CERTAIN = 25  # expected number of an event that never occurs: probability e^-25
CROWDED = 0.5  # of the positions of a usual row, in one step: with more, the rows share something
CELL = 10  # variance of log p in a step, or of the tokens of a class; below it they are not compared
CHANCE = 1e-4  # p-value
MOST_DRAWS, NEWTON = 100_000, 8  # draws and iterations of the estimate of a temperature
EDGES = torch.tensor([0.001, 0.01, 0.03, 0.1, 0.2, 0.4, 0.6, 0.8, 0.95], dtype=torch.float64)  # classes of tokens
MANY = 20  # rows that reveal a position in step 1
LEAST = math.exp(-30)  # smallest distinguishable probability


@dataclass(frozen=True)
class Finding:
    """A test of the record; `fault` is set if an alarm identifies the fault by itself."""

    test: str
    p_value: float
    fault: str | None = None
    detail: str = ""


@dataclass(frozen=True)
class Predictions:
    """Surprise of each token (B, L) when it was revealed, with mean and variance over the prediction."""

    surprise: Tensor  # (B, L) -log p(x), at most 30
    expected: Tensor  # (B, L) its mean
    variance: Tensor  # (B, L)


def surprise_of(probability: Tensor) -> Tensor:
    """-log p, at most 30."""
    return -probability.clamp(min=LEAST).log()


def posteriors(denoiser: Denoiser, tokens: Tensor, order: Tensor) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
    """(rows (K), positions (K), p (K, V)) before each reveal of tokens (B, L) in steps (B, L), from 1."""
    size = denoiser.rows_at_once(tokens.shape[1]) or len(tokens)
    for first in range(0, len(tokens), size):
        mine, steps = tokens[first : first + size], order[first : first + size]
        canvas = Canvas(denoiser, torch.full_like(mine, denoiser.vocabulary), Randomness(0, torch.arange(len(mine))))
        for rows, positions, marginals in walk(canvas, steps):
            yield first + rows, positions, marginals.dense().double()
            canvas.reveal((rows, positions), mine[rows, positions])


def predictions(denoiser: Denoiser, tokens: Tensor, order: Tensor) -> Predictions:
    """Predictions of an exact denoiser for tokens (B, L) revealed in steps (B, L), from 1."""
    surprise, expected, variance = (torch.zeros(tokens.shape, dtype=torch.float64) for _ in range(3))
    for rows, positions, p in posteriors(denoiser, tokens, order):
        bits = surprise_of(p)
        mean = (p * bits).sum(1)
        surprise[rows, positions] = bits.gather(1, tokens[rows, positions].unsqueeze(1)).squeeze(1)
        expected[rows, positions] = mean
        variance[rows, positions] = (p * bits**2).sum(1) - mean**2
    return Predictions(surprise, expected, variance)


@dataclass(frozen=True)
class Observed:
    """Samples with their record."""

    tokens: Tensor  # (B, L)
    order: Tensor  # (B, L) from 1
    runs: list[Run]
    predictions: Predictions
    meant: Meant
    aligned: bool = True  # whether calls are steps; else the loop omits calls without a change
    packed: bool = False  # whether each row omits them, so that its steps count those with a change

    @classmethod
    def of(cls, runs: list[Run], order: Tensor, tokens: Tensor, meant: Meant) -> Observed:
        """Raise an error if the steps of the sampler are not calls."""
        if deciding(meant.sampler).implements("run"):
            raise UnmaskError(f"{meant.sampler.spec} has no steps to compare with the record. Pass the language only")
        return cls(tokens, order, runs, predictions(meant.denoiser, tokens, order), meant)

    @property
    def sizes(self) -> list[int]:
        """Number of rows of each run."""
        return list(map(len, column(self.runs, "step")))

    def as_steps(self, ours: Tensor) -> tuple[Observed, Finding]:
        """The record with calls as steps, and a test of their number; ours: orders (B', L) of generated rows."""
        steps, calls = len(self.meant.delta), column(self.runs, "steps")
        usual = max(calls) if max(calls) > steps else Counter(calls).most_common(1)[0][0]

        right = Finding("number of steps", 1.0)
        wrong = Finding("number of steps", 0.0, "miscounted steps", f"{usual} steps instead of {steps}")
        if usual == steps:
            others = len(calls) - calls.count(steps)
            wrong = replace(wrong, detail=f"not {steps} steps in {others} of {len(calls)} batches")

        if self.meant.sampler.draws_steps and bool((self.order == packed(self.order)).all()):
            pauses = float((ours != packed(ours)).any(1).double().mean()) * len(self.order)
            if set(calls) != {steps} or pauses >= 1:  # rows in which some step should reveal nothing
                return replace(self, aligned=False, packed=True), self._changes(ours, wrong)

        if not keeps_schedule(deciding(self.meant.sampler)) or set(calls) == {steps}:
            return self, right
        idle = any(column(self.runs, "idle"))
        if idle:  # calls without a change are no steps
            values, numbers = zip(
                *(part.unique(return_inverse=True) for part in self.order.split(self.sizes)), strict=True
            )
            if set(map(len, values)) == {steps}:
                return replace(self, order=torch.cat(numbers) + 1), right
            if self.meant.sampler.draws_steps:
                return self._idle(wrong)

        if max(calls) > steps:
            return self, wrong
        if deciding(self.meant.sampler).pace == "steps":  # done before its last step
            return self, right
        if idle:
            return self, wrong
        if self.meant.sampler.draws_steps:
            empty = sum(float(((1 - self.meant.delta) ** run.step.numel()).sum()) for run in self.runs)
            missing = steps * len(calls) - sum(calls)
            p_value = at_least(missing, steps * len(calls), min(1.0, empty / (steps * len(calls))))
            return replace(self, aligned=False), replace(wrong, p_value=p_value)

        filled = ours.unique()
        if set(calls) == {len(filled)}:
            return replace(self, order=filled[self.order - 1]), right
        return self, wrong

    def _idle(self, wrong: Finding) -> tuple[Observed, Finding]:
        """The same for a loop that draws steps and calls the model in those that reveal nothing, too.

        In a batch of few rows they are common, and a batch is done early if its last step is one of them.
        """
        steps, calls = len(self.meant.delta), column(self.runs, "steps")
        if max(calls) > steps:  # unless the calls in excess are idle in all batches
            used, order = self.order.unique(return_inverse=True)
            return replace(self, order=order + 1), replace(wrong, p_value=float(len(used) == steps))

        early = (1 - self.meant.delta[-1]) ** torch.tensor([run.step.numel() for run in self.runs])
        short = len(calls) - calls.count(steps)
        return self, replace(wrong, p_value=at_least(short, len(calls), float(early.mean())))

    def _changes(self, ours: Tensor, wrong: Finding) -> Finding:
        """Test the number of steps in which a row changes, for a loop whose rows omit all others."""
        mine, theirs = (packed(order).amax(1) for order in (self.order, ours))
        mean = float(theirs.double().mean())
        p_value = shares(int((mine >= mean).sum()), len(mine), int((theirs >= mean).sum()), len(theirs))
        if int(mine.max()) == len(self.meant.delta):
            what = f"{float(mine.double().mean()):.3g} steps change a sequence, not {mean:.3g}"
            wrong = replace(wrong, fault="uneven steps", detail=what)
        return replace(wrong, p_value=p_value)

    @property
    def counts_steps(self) -> bool:
        """Whether calls are steps, so that the record determines the number of steps."""
        return (
            self.aligned
            and keeps_schedule(deciding(self.meant.sampler))
            and deciding(self.meant.sampler).pace != "steps"
        )

    def findings(self, ours: Tensor) -> list[Finding]:
        """Tests of the record; ours: orders (B', L) of generated rows."""
        findings = [self._draws()]
        if not self.meant.sampler.revises:
            findings.append(self._remasked())
        if self.aligned:
            findings.append(self._counts(ours))
        return findings

    @property
    def before_drawing(self) -> bool:
        """Whether positions are chosen before tokens are drawn."""
        drawn = self.meant.sampler.distribution == "order" or self.meant.sampler.draws_steps
        return drawn or deciding(self.meant.sampler).implements("order")

    @property
    def excluded(self) -> int:
        """Number of tokens that the model gives probability 0."""
        return int((self.predictions.surprise > -math.log(2 * LEAST)).sum())

    @property
    def one_draw(self) -> bool:
        """Whether all rows that reveal a position in step 1 write one token there, which is not always the likeliest.

        Their canvases are equal. Independent rows write one token with probability p_max^(rows - 1) at most."""
        length, vocabulary = self.tokens.shape[1], self.meant.denoiser.vocabulary
        rows, positions = (self.order == 1).nonzero(as_tuple=True)
        cells = positions * vocabulary + self.tokens[rows, positions]
        counts = cells.bincount(minlength=length * vocabulary).view(length, vocabulary)
        known = counts.sum(1) >= MANY
        most, which = counts[known].max(1)
        alone = next(posteriors(self.meant.denoiser, self.tokens[:1], torch.ones_like(self.tokens[:1])))[2]
        return bool((most == counts[known].sum(1)).all()) and bool((which != alone[known].argmax(1)).any())

    @property
    def temperature(self) -> Estimate | None:
        """1 / beta, if tokens are drawn in proportion to p^beta and one beta explains all steps, by likelihood."""
        some = slice(0, max(1, MOST_DRAWS // self.tokens.shape[1]))
        tokens, order = self.tokens[some], self.order[some]
        rows, positions, p = map(torch.cat, zip(*posteriors(self.meant.denoiser, tokens, order), strict=True))
        log = -surprise_of(p)
        own = tokens[rows, positions].unsqueeze(1)
        step = order[rows, positions]

        beta = 1.0
        for _ in range(NEWTON):
            p = (beta * log).softmax(1)
            mean = (p * log).sum(1)
            variance = (p * log**2).sum(1) - mean**2
            excess = log.gather(1, own).squeeze(1) - mean
            beta = min(max(beta + float(excess.sum() / variance.sum().clamp(min=1e-12)), 0.05), 20.0)
        more, spread = (step.bincount(values)[1:] for values in (excess, variance))

        if min(explained(more, spread), self._classes(log, p, own)) < CHANCE:
            return None
        error = quantile() / math.sqrt(max(float(variance.sum()), 1e-12))
        low, high = (1 / max(beta + side * error, 1e-9) for side in (1, -1))
        return Estimate(1 / beta, low, high, len(own), LEVEL, "likelihood")

    @staticmethod
    def _classes(log: Tensor, p: Tensor, own: Tensor) -> float:
        """p-value of the draws (K, 1) by the probability that the model gives them: a filter writes no rare ones."""
        classes = torch.bucketize(log, EDGES.log())
        expected = torch.zeros((len(p), len(EDGES) + 1), dtype=p.dtype).scatter_add_(1, classes, p)
        written = torch.zeros_like(expected).scatter_(1, classes.gather(1, own), 1.0)
        return explained((written - expected).sum(0), (expected * (1 - expected)).sum(0))

    def _draws(self) -> Finding:
        if not self.before_drawing:
            return Finding("draws", 1.0)
        more = float((self.predictions.expected - self.predictions.surprise).sum())
        variance = max(float(self.predictions.variance.sum()), 1e-12)
        return Finding("draws", math.erfc(abs(more) / math.sqrt(2 * variance)))

    def _remasked(self) -> Finding:
        hidden, replaced = sum(column(self.runs, "rehidden")), sum(column(self.runs, "replaced"))
        what = f"{replaced} tokens replaced"
        if hidden:
            what = f"{hidden} of {self.order.numel()} positions are hidden again"
        return Finding("remasking", float(not hidden and not replaced), "remasking", what)

    def _counts(self, ours: Tensor) -> Finding:
        """Test of the number of positions revealed in each step."""
        steps = max(len(self.meant.delta), int(ours.max()), int(self.order.max()))
        expected, counts = (histogram(order - 1, steps).long() for order in (ours, self.order))  # (B, N)
        if bool((expected == expected[0]).all()):
            return self._fixed(expected[0], counts)
        if self.meant.sampler.draws_steps:
            distribution = torch.nn.functional.pad(self.meant.delta, (0, steps - len(self.meant.delta)))
            p_value, mean = against_distribution(counts.sum(0), distribution), distribution * ours.shape[1]
        else:
            p_value, mean = 1.0, expected.double().mean(0)
        if self.meant.sampler.draws_steps and steps == len(self.meant.delta):
            many = Finding("counts", self._crowded(counts), "uneven steps", self._most(counts))
            # where most rows are crowded, their positions share noise, which has another name
            rare = float(counts.amax(1).median()) < CROWDED * self.tokens.shape[1]
            if rare and many.p_value < min(p_value, CHANCE):
                return many
        empty = (counts.sum(0) == 0) & (len(counts) * mean >= CERTAIN)
        if bool(empty.any()):
            number = int(empty.int().argmax()) + 1
            return Finding("counts", 0.0, "uneven steps", f"step {number} of {len(self.meant.delta)} reveals nothing")
        return Finding("counts", p_value)

    def _crowded(self, counts: Tensor) -> float:
        """p-value of the most positions that a step reveals in one row: a bound, over the steps and rows."""
        length, most = self.tokens.shape[1], counts.amax(0).tolist()
        least = min(at_least(k, length, float(p)) for k, p in zip(most, self.meant.delta, strict=True))
        return min(1.0, counts.numel() * least)

    @staticmethod
    def _most(counts: Tensor) -> str:
        where = int(counts.argmax())
        return f"step {where % counts.shape[1] + 1} of {counts.shape[1]} reveals {int(counts.max())} positions of a row"

    def _fixed(self, expected: Tensor, counts: Tensor) -> Finding:
        """The same for a sampler with fixed numbers (N), and a loop with (B, N)."""
        if bool((counts == expected).all()):
            return Finding("counts", 1.0)

        number = int((counts != expected).any(0).int().argmax())
        least, most, should = int(counts[:, number].min()), int(counts[:, number].max()), int(expected[number])
        between = f"{least} to {most}" if least < most else str(least)
        what = f"step {number + 1} of {len(self.meant.delta)} reveals {between} positions of a row, not {should}"

        # right numbers in the whole batch: positions were chosen over all of its rows
        batches = torch.stack([part.sum(0) for part in counts.split(self.sizes)])
        if bool((batches == torch.tensor(self.sizes).unsqueeze(1) * expected).all()):
            return Finding("counts", 0.0, "batch-flattened choice", what)

        nothing = (counts.sum(0) == 0) & (expected > 0)
        if bool(nothing.any()):
            what = f"step {int(nothing.int().argmax()) + 1} of {len(self.meant.delta)} reveals nothing"
        return Finding("counts", 0.0, "uneven steps", what)


def explained(more: Tensor, variance: Tensor) -> float:
    """p-value of differences whose sum is fitted, where their variance is large enough."""
    known = variance >= CELL
    return chi_square(float((more[known] ** 2 / variance[known]).sum()), max(int(known.sum()) - 1, 0))


def packed(order: Tensor) -> Tensor:
    """Steps (B, L) of an order (B, L), from 1, without the steps of each row that reveal nothing."""
    used = torch.zeros((len(order), int(order.max()) + 1), dtype=torch.int64).scatter_(1, order, 1)
    return used.cumsum(1).gather(1, order)
