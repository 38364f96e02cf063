"""KLASS (arXiv 2511.05664 v1): reveal confident positions with stable marginals.

In each step reveal every hidden position for which

    max_v p_t(v) > threshold   and   KL(p_t || p_t-1) < kl in each of the last `history` steps;

or else the `least` most confident. `history` KLs need `history` + 1 model calls. With history=0 and least=1 it is
`threshold`. Tokens are drawn after the choice, at a temperature that the rule does not use: the paper's is 0. Steps and
schedule are not used. The published code differs in three ways. If no position is ready, it reveals the schedule's
number of positions, and a block may end with masks (here `least` is a number, and the block continues). Its history
carries over to the next block; here each block begins with none. It compares the first model call with zeros, which
also counts as unstable.

By Pinsker's inequality |max p_t - max p_t-1| <= sqrt(KL / 2). So a position below threshold - (history - 1)
sqrt(kl / 2) cannot be in a stable run that ends above the threshold, and no KL is computed there.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch

from unmask.core import arguments
from unmask.samplers.contract import SAMPLERS, Choice
from unmask.samplers.memory import divergence
from unmask.samplers.ranking import ChoosesFirst, chosen
from unmask.samplers.view import View


@SAMPLERS.register("klass")
@dataclass(frozen=True)
class Klass(ChoosesFirst):
    """KLASS: reveal confident positions whose marginals were stable in the last steps; steps are not used."""

    pace = "free"
    threshold: float = 0.9
    kl: float = 0.01
    history: int = 2
    least: int = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        arguments.number("threshold", self.threshold, most=1.0)
        arguments.number("kl", self.kl, above=True, what=" of nats")
        arguments.whole("history", self.history, 0, arguments.MOST_STEPS)
        arguments.whole("least", self.least, 1, arguments.MOST_LENGTH)

    def choose(self, view: View) -> Choice:
        ready = view.hidden & (view.confidence > self.threshold + view.resolution)
        if self.history:
            lowest = self.threshold - (self.history - 1) * math.sqrt(self.kl / 2)
            calm = divergence(view, view.hidden & (view.confidence >= lowest)) < self.kl
            settled = view.memory.get("settled", torch.zeros_like(view.tokens))
            view.memory["settled"] = settled = torch.where(calm, settled + 1, 0)
            ready &= settled >= self.history
        none = ~ready.any(1, keepdim=True)
        surest = self.surest(view, view.hidden, view.confidence, self.least)
        return chosen(view, ready | (surest & none), self.temperature)
