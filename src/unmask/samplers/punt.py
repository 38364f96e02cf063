"""PUNT (arXiv 2510.21961 v1): tokens that do not disturb each other, tested by the denoiser itself.

A candidate y_i is drawn at every hidden position, and these are numbered by a score, the surest 0. For each binary
digit of that number, from the highest, with S0 those still in the set R whose digit is 0 and S1 the others, R loses all
of S1 that the candidates of S0 disturb by more than epsilon nats:

    KL(p_i(. | x) || p_i(. | x, y_S0)) > epsilon

Then R is revealed, with its candidates: at least the surest one. A test is one more evaluation of the row, counted;
m hidden positions take ceil(log2 m). Whether a token stays depends on the tokens beside it, so that no law of tokens
given their places holds; at epsilon = 0 it is the language's where the influence of a set is at least that of each part
(the paper's assumption), as on first-order chains. It may know more than the marginals show, as `clairvoyant` does by
asking the language how pairs depend, whatever their tokens. The paper leaves the score open ("confidence"); its
temperature is that of the candidates. Steps and schedule are not used.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from unmask.core import arguments
from unmask.samplers.contract import SAMPLERS, Choice, Sampler
from unmask.samplers.memory import numbered
from unmask.samplers.ranking import SCORES, check_ranking, in_order
from unmask.samplers.view import View


@SAMPLERS.register("punt")
@dataclass(frozen=True)
class Punt(Sampler):
    """PUNT: the surest tokens that do not disturb each other, by extra evaluations; steps are not used."""

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
        """Bool (B, L): what of test, Bool (B, L), the tokens at anchors, Bool (B, L), change by more than epsilon."""
        out = torch.zeros_like(test)
        rows, positions = test.nonzero(as_tuple=True)
        if not len(rows):
            return out
        asked, contexts = rows.unique_consecutive(return_inverse=True)
        read = torch.where(anchors, tokens, view.tokens)[asked]
        time = None
        if not view.canvas.time_free:
            hidden = (view.hidden & ~anchors).sum(1).double() / (view.hidden | view.revealed).sum(1).clamp(min=1)
            time = hidden[asked]
        said = view.canvas.ask(read, asked, positions, time, contexts)
        nats = view.marginals[numbered(view)[rows, positions] - 1].divergence(said)
        out[rows, positions] = nats > self.epsilon + view.resolution
        return out
