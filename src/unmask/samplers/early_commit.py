"""Commit all that is left once it is sure: Prophet (arXiv 2508.19982) and SchED (arXiv 2512.02892 v1).

A round reveals as many positions as the schedule gives, by a score (the papers' Dream takes the entropy), until all
that is hidden is as sure as the progress p asks for; then it reveals everything:

    mean over the hidden of log p_(1) / p_(2)  >=  tau(p)              the gap of the two highest logits
    phases  tau = gap, the middle, last   in the three thirds of k / N          Prophet: 7.5, 5, 2.5
    linear, cosine, exponential  from gap to last, over p = (k - 1) / (N - 1)   SchED: last + (gap - last) e^(-rate p)

`last` is a share of gap. A symbol that cannot be counts as e^-20.7: a single place that is certain would otherwise
speak for all. The text of SchED says p = k / N, its code what stands here; and the code commits only if, besides, no
most likely symbol has changed since the round before (agreed=True), of which the text says nothing. Both take the most
likely tokens, temperature 0; here they are drawn after the choice, at any. In `blocks` it is a block that is committed.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from unmask.core import arguments
from unmask.samplers.contract import SAMPLERS, Choice
from unmask.samplers.memory import agreement
from unmask.samplers.ranking import SCORES, ChoosesFirst, chosen
from unmask.samplers.view import View

SHAPES = ("cosine", "linear", "exponential", "phases")
LEAST = 1e-9  # what a second symbol counts as where there is none


@SAMPLERS.register("sched")
@dataclass(frozen=True)
class EarlyCommit(ChoosesFirst):
    """SchED, and Prophet by shape=phases: all that is left at once, when it is sure enough for the progress made."""

    pace = "rounds"
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
            commit &= (agreement(view) > 1).sum(1) == view.hidden.sum(1)
        surest = self.surest(view, view.hidden, SCORES[self.score](view), view.count.unsqueeze(1))
        return chosen(view, torch.where(commit.unsqueeze(1), view.hidden, surest), self.temperature)

    def threshold(self, view: View) -> Tensor:
        """(B) nats."""
        low = self.gap * self.last
        if self.shape == "phases":
            return self.gap - (self.gap - low) / 2 * ((3 * view.round) // view.rounds).clamp(max=2)
        progress = (view.round - 1) / (view.rounds - 1).clamp(min=1)
        progress = torch.where(view.rounds > 1, progress, 1.0)
        match self.shape:
            case "linear":
                left = 1 - progress
            case "cosine":
                left = (1 + (math.pi * progress).cos()) / 2
            case _:
                left = (-self.rate * progress).exp()
        return low + (self.gap - low) * left
