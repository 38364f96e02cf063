"""Stability windows and smoothed confidences (arXiv 2512.02044, 2604.17068).

    m_t = momentum m_t-1 + (1 - momentum) max_v p_t(v),   m_1 = max_v p_1(v)

Reveal where m_t >= threshold and the most likely symbol is the same for `agree` steps, including this one, or else the
highest m_t. agree > 1 is a stability window, momentum > 0 the exponential mean of confidences. Papers build these in
different ways; this is the plain form of either, not that of one paper. Steps and schedule are not used.
"""

from dataclasses import dataclass

import torch

from unmask.core import arguments
from unmask.samplers import Choice, ChoosesFirst, View, at_least, chosen


@dataclass(frozen=True)
class Settled(ChoosesFirst):
    """Reveal positions that are confident on average and stable for several steps; steps are not used."""

    pace = "free"
    threshold: float = 0.9
    agree: int = 2
    momentum: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        arguments.number("threshold", self.threshold, most=1.0)
        arguments.whole("agree", self.agree, 1, arguments.MOST_STEPS)
        arguments.share("momentum", self.momentum)

    def choose(self, view: View) -> Choice:
        nothing = torch.zeros_like(view.tokens)
        symbol, held = view.memory.get("symbol", nothing), view.memory.get("held", nothing)  # symbols from 1; 0: none
        before = view.memory.get("mean", torch.zeros_like(view.confidence))
        mean = torch.where(symbol > 0, self.momentum * before + (1 - self.momentum) * view.confidence, view.confidence)
        held = torch.where(symbol == view.best + 1, held + 1, view.hidden.long())
        view.memory.update(symbol=torch.where(view.hidden, view.best + 1, 0), held=held, mean=mean)
        ready = view.hidden & (held >= self.agree) & at_least(view, mean, self.threshold)
        surest = self.surest(view, view.hidden, mean)
        return chosen(view, ready | (surest & ~ready.any(1, keepdim=True)), self.temperature)
