"""Commit all remaining positions once they are certain: Prophet (arXiv 2508.19982) and SchED (arXiv 2512.02892 v1).

A step reveals the schedule's number of positions, by a score (entropy for Dream in the papers). Once the hidden
positions reach the threshold tau at progress p, the step reveals all of them:

    mean over the hidden of log p_(1) / p_(2)  >=  tau(p)              the gap of the two highest logits
    phases  tau = gap, the middle, last   in the three thirds of k / N          Prophet: 7.5, 5, 2.5
    linear, cosine, exponential  from gap to last, over p = (k - 1) / (N - 1)   SchED: last + (gap - last) e^(-rate p)

`last` is a fraction of gap. An impossible symbol counts as e^-20.7: otherwise one certain position would decide for
all. SchED's text has p = k / N, its code the p above. The code also commits only if no most likely symbol has changed
since the last step (agreed=True); the text does not mention this. Both take the most likely tokens, temperature 0;
here tokens are drawn after the choice, at any temperature. In `blocks` the block is committed.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from unmask.core import arguments
from unmask.samplers import SCORES, Choice, ChoosesFirst, View, chosen

SHAPES = ("cosine", "linear", "exponential", "phases")
LEAST = 1e-9  # probability of a second symbol that is impossible


@dataclass(frozen=True)
class EarlyCommit(ChoosesFirst):
    """SchED, and Prophet by shape=phases: reveals all at once when certain enough for the progress made."""

    pace = "steps"
    gap: float = 7.5
    last: float = 1 / 3
    shape: str = "cosine"
    rate: float = 4.0
    score: str = "entropy"
    agreed: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        arguments.number("gap", self.gap, what=" of nats")
        arguments.number("last", self.last, most=1.0)
        arguments.word("shape", self.shape, SHAPES)
        arguments.number("rate", self.rate)
        arguments.word("score", self.score, SCORES)

    def choose(self, view: View) -> Choice:
        second = (view.confidence - view.margin).clamp(min=LEAST)
        gaps = torch.where(view.hidden, (view.confidence.clamp(min=LEAST) / second).log(), 0.0)
        sure = gaps.sum(1) / view.hidden.sum(1).clamp(min=1)
        commit = sure >= self.threshold(view) - view.resolution
        if self.agreed:
            same = view.hidden & (view.memory.get("best", torch.zeros_like(view.tokens)) == view.best + 1)
            view.memory["best"] = torch.where(view.hidden, view.best + 1, 0)  # 0: no marginal
            commit &= same.sum(1) == view.hidden.sum(1)
        surest = self.surest(view, view.hidden, SCORES[self.score](view), view.count.unsqueeze(1))
        return chosen(view, torch.where(commit.unsqueeze(1), view.hidden, surest), self.temperature)

    def threshold(self, view: View) -> Tensor:
        """(B) nats."""
        low = self.gap * self.last
        if self.shape == "phases":
            return self.gap - (self.gap - low) / 2 * ((3 * view.step) // view.steps).clamp(max=2)
        progress = (view.step - 1) / (view.steps - 1).clamp(min=1)
        progress = torch.where(view.steps > 1, progress, 1.0)
        match self.shape:
            case "linear":
                left = 1 - progress
            case "cosine":
                left = (1 + (math.pi * progress).cos()) / 2
            case _:
                left = (-self.rate * progress).exp()
        return low + (self.gap - low) * left
