"""CreditDecoding (arXiv 2510.06133 v1-v3): what was said before makes a symbol surer.

Each symbol of a hidden position has credit, which fades and grows where the symbol is the most likely one; it is added
to the logits, and what is sure by that is revealed, or the surest one:

    C_t(v) = decay C_t-1(v) + p_t(v)^power [v = argmax p_t]
    p~(v) ~ p_t(v) (1 + C_t(v))^strength                                log p + strength log(1 + C), normalised
    reveal every position with max_v p~(v) >= threshold

The credit of a round is in its own p~, as in the implementations that are in use, which also have these defaults (the
one in sglang takes the larger of p~ and p besides). At temperature 0, the paper's, the token is the most likely one of
p~; at any other the credit decides only where, and tokens are drawn from what the denoiser says. None but symbols that
have been the most likely one have credit, so that no probabilities (.., V) are needed. Steps and schedule are not used.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from unmask.core import arguments
from unmask.samplers.contract import SAMPLERS, Choice
from unmask.samplers.ranking import ChoosesFirst, chosen
from unmask.samplers.view import View

SPENT = 1e-12  # credit that is as good as none


@SAMPLERS.register("credit")
@dataclass(frozen=True)
class Credit(ChoosesFirst):
    """CreditDecoding: a threshold on confidences that grow with what earlier rounds said; steps are not used."""

    pace = "free"
    threshold: float = 0.9
    decay: float = 0.65
    power: float = 0.5
    strength: float = 0.7

    def __post_init__(self) -> None:
        super().__post_init__()
        arguments.number("threshold", self.threshold, most=1.0)
        arguments.share("decay", self.decay)
        arguments.number("power", self.power)
        arguments.number("strength", self.strength)

    def choose(self, view: View) -> Choice:
        symbols, credit = self._credits(view)
        chances = view.marginals.of(symbols.clamp(min=0)) * (symbols >= 0)
        boosted = chances * (1 + credit) ** self.strength
        best, which = (boosted / (1 + (boosted - chances).sum(1, keepdim=True))).max(1)
        scores = torch.zeros_like(view.confidence)
        scores[view.places] = best
        reveal = self.enough(view, view.hidden, scores, self.threshold)
        if self.temperature:
            return chosen(view, reveal, self.temperature)
        tokens = torch.full_like(view.tokens, view.canvas.vocabulary)
        tokens[view.places] = symbols.gather(1, which.unsqueeze(1)).squeeze(1)
        return Choice(reveal, tokens)

    def _credits(self, view: View) -> tuple[Tensor, Tensor]:
        """(K, M): symbols that have credit, -1 where there is none, and how much; the most likely one among them."""
        shape = (*view.hidden.shape, 1)
        symbols = view.memory.get("symbols", torch.zeros(shape, dtype=torch.int64))  # from 1; 0: none
        credit = view.memory.get("credit", torch.zeros(shape, dtype=torch.float64)) * self.decay
        held, best = symbols[view.places], view.marginals.best.unsqueeze(1) + 1
        known = held == best
        free = credit[view.places] <= SPENT
        if bool((~(known | free)).all(1).any()):  # somewhere there is no place for another
            symbols, credit = (torch.nn.functional.pad(x, (0, 1)) for x in (symbols, credit))
            known, free = (torch.nn.functional.pad(x, (0, 1), value=y) for x, y in ((known, False), (free, True)))
        place = torch.where(known, 2, free.long()).argmax(1)
        at = (*view.places, place)
        earned = view.marginals.confidence**self.power
        credit[at] = torch.where(symbols[at] == best.squeeze(1), credit[at], 0.0) + earned
        symbols[at] = best.squeeze(1)
        view.memory.update(symbols=symbols, credit=credit)
        return symbols[view.places] - 1, credit[view.places]
