"""Saber: reveal more as confidence grows, re-mask the worst (arXiv 2510.18165v1, and the authors' code).

In each step draw a token for every hidden position, and

    reveal     all tokens that are more probable than the mean confidence of the revealed tokens, at least `least`
    re-mask    max(least / 2, an eighth of these), rounded up, of all revealed tokens: those whose confidence has
               fallen most since the last step, and fewer than are revealed. None if all positions are revealed now.

The confidence of a hidden position is the probability of its drawn token. For a revealed token, the mean uses its
probability when it was revealed; the fall uses its present probability given all other tokens (the paper's network
also reads the token itself). A token revealed and re-masked in one step has no effect. Its distribution is unknown.

    published  as in the code, not the text: the present confidence is that of the most likely token, also if it is
               not the revealed one; the mean covers all tokens ever revealed, also re-masked ones. Inside blocks the
               code continues with the confidences of earlier blocks; here each block starts from none. With fewer
               hidden positions than its topk needs, the code replaces revealed tokens; this code does not.

The paper's temperature is 0; steps and schedule are not used.
"""

from dataclasses import dataclass

import torch

from unmask.core import arguments
from unmask.samplers import Choice, Sampler, View, check_ranking, in_order, lowest

EIGHTH = 8


@dataclass(frozen=True)
class Saber(Sampler):
    """Saber: reveal tokens above the mean confidence, re-mask those that have fallen most; steps are not used."""

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

        earlier = torch.where(view.revealed, view.certainty, 0.0)
        if self.published:
            earlier = view.memory.get("ever", torch.zeros_like(now))
        mean = torch.where((earlier > 0).any(1), earlier.sum(1) / (earlier > 0).sum(1).clamp(min=1), 1.0)
        surer = sure > mean.unsqueeze(1) + view.resolution  # equal confidences are not above their mean
        reveal = view.hidden & (surer | (in_order(view, sure, self.ties) < self.least))
        if self.published:
            view.memory["ever"] = torch.where(reveal, sure, earlier)

        number = reveal.sum(1)
        most = ((number + EIGHTH - 1) // EIGHTH).clamp(min=self.least // 2)
        most = torch.where(number == view.hidden.sum(1), 0, torch.minimum(most, number - 1))
        worst = lowest(view, fallen, view.revealed | reveal, most, self.ties)
        return Choice(reveal & ~worst, tokens, hide=view.revealed & worst)
