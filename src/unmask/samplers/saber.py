"""Saber: accelerate as confidence grows, take back the worst (arXiv 2510.18165v1, and the code of its authors).

In each round draw a token for every hidden position, and

    reveal     all that came out surer than the mean confidence of the tokens that stand, at least `least` of them
    take back  max(least / 2, an eighth of these), rounded up, of all that now stand: those whose confidence has fallen
               most since the round before, and fewer than are revealed. Nothing where all is revealed now.

The confidence of a hidden position is the probability of what was drawn there; of a token that stands, in the mean,
that of when it was revealed, and in the fall, that of now, given all the others (the network of the paper sees the
token itself as well). What is revealed and at once taken back was not there. Its law is written down nowhere.

    published  as the code has it and its text has not: the confidence of now is that of the likeliest token, whichever
               stands; the mean is over all that was ever revealed, also where it was taken back since. Inside blocks
               the code goes on with the confidences of the blocks before; here each block begins anew. With fewer
               hidden positions than it asks topk for, the code writes over tokens that stand; here it does not.

The paper's temperature is 0; steps and schedule are not used.
"""

from dataclasses import dataclass

import torch

from unmask.core import arguments
from unmask.samplers.contract import SAMPLERS, Choice, Sampler
from unmask.samplers.ranking import check_ranking, in_order, lowest
from unmask.samplers.view import View

EIGHTH = 8


@SAMPLERS.register("saber")
@dataclass(frozen=True)
class Saber(Sampler):
    """Saber: reveal what is surer than what stands, take back what has fallen most; steps are not used."""

    pace = "free"
    revises = True
    least: int = 2
    published: bool = False
    temperature: float = 1.0
    ties: str = "chance"

    def __post_init__(self) -> None:
        arguments.whole("least", self.least, 1, arguments.MOST_LENGTH)
        arguments.flag("published", self.published)
        check_ranking(self.temperature, self.ties)

    def choose(self, view: View) -> Choice:
        tokens = view.draw(self.temperature)
        sure = view.of(tokens)
        hindsight = view.looking_back()
        now = torch.where(view.hidden, sure, hindsight.confidence if self.published else hindsight.of(view.tokens))
        fallen = now - view.memory.get("now", torch.zeros_like(now))
        view.memory["now"] = now

        standing = torch.where(view.revealed, view.certainty, 0.0)
        if self.published:
            standing = view.memory.get("ever", torch.zeros_like(now))
        mean = torch.where((standing > 0).any(1), standing.sum(1) / (standing > 0).sum(1).clamp(min=1), 1.0)
        surer = sure > mean.unsqueeze(1) + view.resolution  # of tokens that are all as sure none is surer than the mean
        reveal = view.hidden & (surer | (in_order(view, sure, self.ties) < self.least))
        if self.published:
            view.memory["ever"] = torch.where(reveal, sure, standing)

        number = reveal.sum(1)
        most = ((number + EIGHTH - 1) // EIGHTH).clamp(min=self.least // 2)
        most = torch.where(number == view.hidden.sum(1), 0, torch.minimum(most, number - 1))
        worst = lowest(view, fallen, view.revealed | reveal, most, self.ties)
        return Choice(reveal & ~worst, tokens, hide=view.revealed & worst)
