"""PUNT (arXiv 2510.21961 v1): tokens that do not influence each other, tested with the denoiser itself.

Draw a candidate y_i at every hidden position, and number the positions by score, the most confident 0. For each binary
digit of that number, from the highest, let S0 be the positions in the set R whose digit is 0 and S1 the others. R loses
all positions of S1 that the candidates of S0 change by more than epsilon nats:

    KL(p_i(. | x) || p_i(. | x, y_S0)) > epsilon

Then reveal R with its candidates: at least the most confident one. Each test is one more model call for the row; m
hidden positions take ceil(log2 m). Whether a token stays depends on its neighbours, so the sampler claims no
distribution. At epsilon = 0 the distribution is the language's if a set has at least the influence of each part (the
paper's assumption), as in first-order chains. The paper leaves the score open ("confidence"); temperature applies to
the candidates. Steps and schedule are not used.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from unmask.core import arguments
from unmask.samplers import SCORES, Choice, Sampler, View, check_ranking, in_order


@dataclass(frozen=True)
class Punt(Sampler):
    """PUNT: the most confident tokens that do not influence each other, by extra model calls; steps are not used."""

    pace = "free"
    epsilon: float = 0.01
    score: str = "confidence"
    temperature: float = 1.0
    ties: str = "chance"

    def __post_init__(self) -> None:
        arguments.number("epsilon", self.epsilon, what=" of nats")
        arguments.word("score", self.score, SCORES)
        check_ranking(self.temperature, self.ties)

    def choose(self, view: View) -> Choice:
        tokens = view.draw(self.temperature)
        number = in_order(view, SCORES[self.score](view), self.ties)
        left, last = view.hidden.clone(), (view.hidden.sum(1, keepdim=True) - 1).clamp(min=0)  # the highest number
        longest = int(last.max()).bit_length()
        digits = (last >> torch.arange(longest) > 0).sum(1, keepdim=True)  # (B, 1): ceil(log2 m)
        for step in range(longest):
            digit = digits - 1 - step
            low = ((number >> digit.clamp(min=0)) & 1) == 0
            test = left & ~low & (digit >= 0)
            left &= ~(test & self._disturbed(view, tokens, left & low, test))
        return Choice(left, tokens)

    def _disturbed(self, view: View, tokens: Tensor, anchors: Tensor, test: Tensor) -> Tensor:
        """Bool (B, L): positions of test, Bool (B, L), that the tokens at anchors, Bool (B, L), change by > epsilon."""
        out = torch.zeros_like(test)
        rows, positions = test.nonzero(as_tuple=True)
        if not len(rows):
            return out
        needed, contexts = rows.unique_consecutive(return_inverse=True)
        read = torch.where(anchors, tokens, view.tokens)[needed]
        time = None
        if not view.canvas.time_free:
            hidden = (view.hidden & ~anchors).sum(1).double() / (view.hidden | view.revealed).sum(1).clamp(min=1)
            time = hidden[needed]
        after = view.canvas.ask(read, needed, positions, time, contexts)
        number = torch.zeros_like(view.tokens)  # (B, L): index of each hidden position in the marginals
        number[view.places] = torch.arange(len(view.places[0]))
        nats = view.marginals[number[rows, positions]].divergence(after)
        out[rows, positions] = nats > self.epsilon + view.resolution
        return out
