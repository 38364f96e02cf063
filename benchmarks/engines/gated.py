"""Samplers for the audit that are rules of engines, and not of this package: draws behind a gate."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from unmask.samplers.contract import Choice, Sampler
from unmask.samplers.view import View


@dataclass(frozen=True)
class Gated(Sampler):
    """Draw everywhere; reveal the draws above a threshold, or the best `least` of them if they are fewer.

    relative: the score of a draw is min(max p, p / max p), SGLang's; otherwise its probability p.
    slack: draws that are less probable than the best by at most this are revealed with it, as dInfer does.
    """

    pace = "free"
    threshold: float = 0.95
    least: int = 1
    relative: bool = False
    slack: float = 0.0

    def choose(self, view: View) -> Choice:
        tokens = view.draw(1.0)
        scores = view.of(tokens)
        if self.relative:
            top = view.confidence.clamp(min=1e-300)
            scores = torch.minimum(top, scores / top)
        if self.slack:
            scores = scores.masked_fill(~view.hidden, -torch.inf).float()
            enough = (scores.amax(1, keepdim=True) - self.slack).clamp(max=self.threshold)
            return Choice(view.hidden & (scores >= enough), tokens)

        return Choice(_at_least(view.hidden, scores, self.threshold, self.least), tokens)


def _at_least(hidden: Tensor, scores: Tensor, threshold: float, least: int) -> Tensor:
    """Bool (B, L): the hidden positions above the threshold, or the best `least`."""
    scores = scores.masked_fill(~hidden, -torch.inf).float()
    sure = scores > threshold
    place = scores.argsort(dim=1, descending=True, stable=True).argsort(dim=1)
    return torch.where((sure.sum(1) >= least).unsqueeze(1), sure, hidden & (place < least))
