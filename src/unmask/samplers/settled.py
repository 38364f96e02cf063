"""Wait until predictions are stable: stability windows and smoothed confidences, one rule with two options.

In each step reveal every hidden position whose most likely symbol has been the same for `agree` consecutive steps,
including this one, and whose smoothed confidence is at least the threshold. Or else reveal the most confident one.

    m_t = momentum m_t-1 + (1 - momentum) max_v p_t(v),   m_1 = max_v p_1(v)

agree > 1 is a stability window: a token is committed once its prediction has lasted for some steps; momentum > 0 is the
exponential mean of confidences. Papers build these in different ways (arXiv 2512.02044, 2604.17068 and others); this is
the plain form of either, not that of one paper. (The deferred commitment of 2601.02076 is a window of positions:
`deferred`.) With agree=1 and momentum=0 it is `threshold`. Steps and schedule are not used.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from unmask.core import arguments
from unmask.samplers.contract import SAMPLERS, Choice
from unmask.samplers.memory import agreement
from unmask.samplers.ranking import ChoosesFirst, chosen
from unmask.samplers.view import View


@SAMPLERS.register("settled")
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
        known = view.memory.get("best", torch.zeros_like(view.tokens)) > 0
        before = view.memory.get("mean", torch.zeros_like(view.confidence))
        mean = torch.where(known, self.momentum * before + (1 - self.momentum) * view.confidence, view.confidence)
        view.memory["mean"] = mean
        ready = view.hidden & (agreement(view) >= self.agree) & (mean >= self.threshold - view.resolution)
        none = ~ready.any(1, keepdim=True)
        return chosen(view, ready | (self.surest(view, view.hidden, mean) & none), self.temperature)
