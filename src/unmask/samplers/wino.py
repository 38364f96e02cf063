"""WINO: wide in, narrow out (arXiv 2507.18578v2, by the code that its authors have published).

In each round draw a token for every hidden position, reveal all that came out surer than a low threshold, and the
surest in any case; and take back what stands there and is now, given all the others, less probable than a high one:

    wide    p(y_j | x_R) > threshold          narrow    p(x_j | x_(R - j)) < back

Both are of one look. The published code asks about j without its own token by a second copy of the block, hidden, that
sees all but its own place: one forward of L + block positions a round, which it counts as one. So does `evaluations`
where an engine is hollow, as exact ones are; for any other each place that stands is one more.

    capped    as the code has it and its abstract has not: no more than 70% of what is hidden is revealed, from 5 to 20;
              nothing is taken back in a round that reveals one; and fewer than the round before has revealed, 30 before
              the first. capped=False: of this, only that fewer are taken back than are revealed, so that it ends.

Within blocks, as published: blocks(block_length=128, inner=wino). The paper's temperature is 0; steps are not used.
"""

from dataclasses import dataclass

import torch

from unmask.core import arguments
from unmask.samplers.contract import SAMPLERS, Choice, Sampler
from unmask.samplers.ranking import check_ranking, in_order, lowest
from unmask.samplers.view import View

SHARE, FEWEST, MOST, FIRST = 0.7, 5, 20, 30


@SAMPLERS.register("wino")
@dataclass(frozen=True)
class Wino(Sampler):
    """WINO: reveal what is a little sure, take back what proves not to be sure at all; steps are not used."""

    pace = "free"
    revises = True
    threshold: float = 0.6
    back: float = 0.9
    capped: bool = True
    temperature: float = 1.0
    ties: str = "chance"

    def __post_init__(self) -> None:
        arguments.number("threshold", self.threshold, most=1.0)
        arguments.number("back", self.back, most=1.0)
        arguments.flag("capped", self.capped)
        check_ranking(self.temperature, self.ties)

    def choose(self, view: View) -> Choice:
        tokens = view.draw(self.temperature)
        sure = view.of(tokens)
        place = in_order(view, sure, self.ties)
        wide = view.hidden & ((sure > self.threshold) | (place == 0))
        earlier = view.memory.get("earlier", torch.zeros_like(view.count))
        if self.capped:
            most = (view.hidden.sum(1).float() * SHARE).long().clamp(FEWEST, MOST)
            wide &= place < most.unsqueeze(1)
        number = wide.sum(1)
        fewer = torch.where(earlier > 0, earlier, FIRST) - 1 if self.capped else number - 1
        fewer = torch.where(number > 1, fewer, 0)
        view.memory["earlier"] = torch.where(number > 0, number, earlier)
        hindsight = view.looking_back((fewer > 0).unsqueeze(1))
        standing = hindsight.of(view.tokens)
        doubted = hindsight.hidden & (standing < self.back)
        return Choice(wide, tokens, hide=lowest(view, standing, doubted, fewer, self.ties))
