"""WINO: wide in, narrow out (arXiv 2507.18578v2, by the authors' published code).

In each step draw a token for every hidden position, and reveal all above a low threshold, at least the most probable
one. Re-mask revealed tokens that are now less probable, given all others, than a high threshold:

    wide    p(y_j | x_R) > threshold          narrow    p(x_j | x_(R - j)) < back

Both come from one model call. The published code gets p without j's own token from a second, hidden copy of the block,
which reads all but its own position: one forward of L + block positions per step, counted as one. `model_calls` counts
the same for hollow models, such as exact ones; for others each revealed position is one more.

    capped    as in the code, not in its abstract: at most 70% of the hidden positions are revealed, from 5 to 20; a
              step that reveals one re-masks none; and fewer are re-masked than the step before has revealed, 30 before
              the first. capped=False: only the condition that fewer are re-masked than revealed, so that it ends.

Within blocks, as published: blocks(block_length=128, inner=wino). The paper's temperature is 0; steps are not used.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from unmask.samplers.contract import SAMPLERS, Choice, Flag, Fraction, Sampler
from unmask.samplers.ranking import Temperature, Ties, above, at_least, in_order, lowest
from unmask.samplers.view import View

FRACTION, FEWEST, MOST, FIRST = 0.7, 5, 20, 30


@SAMPLERS.register("wino")
@dataclass(frozen=True)
class Wino(Sampler):
    """WINO: reveal by a low threshold, re-mask by a high one; steps are not used."""

    pace = "free"
    revises = True
    threshold: Fraction = 0.6
    back: Fraction = 0.9
    capped: Flag = True
    temperature: Temperature = 1.0
    ties: Ties = "chance"

    def choose(self, view: View) -> Choice:
        tokens = view.draw(self.temperature)
        sure = view.of(tokens)
        place = in_order(view, sure, self.ties)
        wide = view.hidden & (above(view, sure, self.threshold) | (place == 0))

        earlier = view.memory.get("earlier", torch.zeros_like(view.count))
        if self.capped:
            most = (view.hidden.sum(1).float() * FRACTION).long().clamp(FEWEST, MOST)
            wide &= place < most.unsqueeze(1)

        # how many may be hidden: fewer than the step has revealed, or than the one before it
        number = wide.sum(1)
        revealed = number
        if self.capped:
            revealed = torch.where(earlier > 0, earlier, FIRST)
        fewer = torch.where(number > 1, revealed - 1, 0)
        view.memory["earlier"] = torch.where(number > 0, number, earlier)

        hindsight = view.looking_back((fewer > 0).unsqueeze(1))
        own = hindsight.of(view.tokens)
        doubted = hindsight.hidden & ~at_least(view, own, self.back)
        return Choice(wide, tokens, hide=lowest(view, own, doubted, fewer, self.ties))
