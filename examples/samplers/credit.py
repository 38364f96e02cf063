"""CreditDecoding (arXiv 2510.06133 v1-v3): symbols that were likely in earlier steps gain confidence.

Each symbol of a hidden position has credit, which decays, and grows when the symbol is the most likely one. Credit is
added to the logits; then positions above a threshold are revealed, or else the most confident one:

    C_t(v) = decay C_t-1(v) + p_t(v)^power [v = argmax p_t]
    p~(v) ~ p_t(v) (1 + C_t(v))^strength                                log p + strength log(1 + C), normalised
    reveal every position with max_v p~(v) >= threshold

The credit of a step counts in its own p~, as in the implementations in use, which also have these defaults (sglang's
also takes the larger of p~ and p). At temperature 0, the paper's, the token is the most likely one of p~; at others the
credit decides only the positions, and tokens are drawn from the denoiser's marginals. Only symbols that have been the
most likely one have credit, so probabilities (.., V) are not needed. Steps and schedule are not used.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from unmask.core import arguments
from unmask.samplers import Choice, ChoosesFirst, View, chosen

SPENT = 1e-12  # credit that counts as zero


@dataclass(frozen=True)
class Credit(ChoosesFirst):
    """CreditDecoding: a threshold on confidences that grow with repeated predictions; steps are not used."""

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

    @property
    def chooses_before_drawing(self) -> bool:
        return self.temperature != 0  # else the tokens are those with the most credit

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
        """(K, M): symbols with credit, -1 for unused entries, and their credit; includes the most likely symbol."""
        shape = (*view.hidden.shape, 1)
        symbols = view.memory.get("symbols", torch.zeros(shape, dtype=torch.int64))  # from 1; 0: none
        credit = view.memory.get("credit", torch.zeros(shape, dtype=torch.float64)) * self.decay
        stored, best = symbols[view.places], view.marginals.best.unsqueeze(1) + 1
        known = stored == best
        free = credit[view.places] <= SPENT
        if bool((~(known | free)).all(1).any()):  # some position has no free entry
            symbols, credit = (torch.nn.functional.pad(x, (0, 1)) for x in (symbols, credit))
            known, free = (torch.nn.functional.pad(x, (0, 1), value=y) for x, y in ((known, False), (free, True)))
        place = torch.where(known, 2, free.long()).argmax(1)
        at = (*view.places, place)
        earned = view.marginals.confidence**self.power
        credit[at] = torch.where(symbols[at] == best.squeeze(1), credit[at], 0.0) + earned
        symbols[at] = best.squeeze(1)
        view.memory.update(symbols=symbols, credit=credit)
        return symbols[view.places] - 1, credit[view.places]
