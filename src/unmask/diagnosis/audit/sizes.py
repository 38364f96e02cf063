"""The size of a difference in words: the first step that differs, and how often a token is written there.

    a token that the model gives 0.2 is written with 0.008, not 0.2

Pairs of a revealed position and a token are classed by the probability that the model gives the token. The fractions of
written pairs are those of the loop and of the reference, whose choice of positions has the same effect.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from unmask.denoisers import Denoiser
from unmask.diagnosis.audit.observed import posteriors
from unmask.diagnosis.audit.statistics import histogram

EDGES = torch.tensor([1e-9, 0.001, 0.01, 0.03, 0.1, 0.2, 0.4, 0.6, 0.8, 0.95], dtype=torch.float64)
CLASSES = len(EDGES) + 1  # the first has the excluded tokens
FEW = 5  # expected number of written tokens; below it a difference is not normal
Z = 5.0  # standard deviations of a difference: one of all 11 classes of 160 steps exceeds it with probability 1e-3


@dataclass(frozen=True)
class Written:
    """Counts of the positions that a step reveals, and of each step and each class of probabilities, (N, C)."""

    revealed: Tensor  # (B, N) positions of each row
    pairs: Tensor  # pairs of a revealed position and a token
    given: Tensor  # the sum of their probabilities
    written: Tensor  # number of written ones

    @classmethod
    def of(cls, denoiser: Denoiser, tokens: Tensor, order: Tensor, steps: int) -> Written:
        """Those of tokens (B, L) that were revealed in steps (B, L), from 1."""
        counts = torch.zeros((3, steps * CLASSES), dtype=torch.float64)
        for rows, positions, p in posteriors(denoiser, tokens, order):
            cells = (order[rows, positions] - 1).unsqueeze(1) * CLASSES + torch.bucketize(p, EDGES)
            mine = torch.zeros_like(p).scatter_(1, tokens[rows, positions].unsqueeze(1), 1.0)
            for count, values in zip(counts, (torch.ones_like(p), p, mine), strict=True):
                count.scatter_add_(0, cells.flatten(), values.flatten())
        return cls(histogram(order - 1, steps).double(), *counts.view(3, steps, CLASSES))

    def together(self) -> Written:
        """All steps as one."""
        parts = torch.stack([self.pairs, self.given, self.written])
        return Written(self.revealed, *parts.sum(1, keepdim=True))


def size(mine: Written, theirs: Written, model: str = "the model") -> str:
    """The first step in which rows differ from those of the reference and the size there, or "" if it is too small."""
    steps = len(mine.pairs)
    apart, counts = apart_in(mine, theirs), revealed_apart(mine.revealed, theirs.revealed)
    differ = (apart.abs().amax(1) > Z) | (counts.abs() > Z)
    if not bool(differ.any()):
        mine, theirs = mine.together(), theirs.together()
        whole = apart_in(mine, theirs)
        return in_words(mine, theirs, whole, 0, model) if float(whole.abs().max()) > Z else ""

    step = int(differ.int().argmax())
    where = f"in step {step + 1} of {steps}, the first that differs, " if steps > 1 else ""

    if abs(float(counts[step])) > Z:
        many = [float(part.revealed[:, step].mean()) for part in (mine, theirs)]
        return f"{where}{many[0]:.3g} positions of a row are revealed, not {many[1]:.3g}"
    return where + in_words(mine, theirs, apart, step, model)


def in_words(mine: Written, theirs: Written, apart: Tensor, step: int, model: str) -> str:
    """The class of tokens whose fraction differs most in a step."""
    which = step, int(apart[step].abs().argmax())
    rates = [float(part.written[which] / part.pairs[which]) for part in (mine, theirs)]
    p = float(mine.given[which] / mine.pairs[which])
    tokens = f"a token that {model} gives {p:.2g}" if which[1] else f"a token that {model} excludes"
    return f"{tokens} is written with {rates[0]:.2g}, not {rates[1]:.2g}"


def apart_in(mine: Written, theirs: Written) -> Tensor:
    """(N, C): differences of the written fractions in standard deviations, 0 where too few are expected."""
    rate = (mine.written + theirs.written) / (mine.pairs + theirs.pairs)
    error = (rate * (1 - rate) * (1 / mine.pairs + 1 / theirs.pairs)).sqrt()
    apart = (mine.written / mine.pairs - theirs.written / theirs.pairs) / error
    enough = torch.minimum(rate, 1 - rate) * torch.minimum(mine.pairs, theirs.pairs) >= FEW
    enough[:, 0] |= mine.written[:, 0] > FEW  # excluded tokens
    return torch.where(enough, apart, 0.0).nan_to_num(0.0)


def revealed_apart(mine: Tensor, theirs: Tensor) -> Tensor:
    """(N): differences of the mean numbers of positions (B, N) in standard deviations."""
    error = (mine.var(0) / len(mine) + theirs.var(0) / len(theirs)).sqrt()
    return ((mine.mean(0) - theirs.mean(0)) / error).nan_to_num(0.0)  # infinite if both are fixed
