"""Low-confidence remasking (LLaDA, arXiv 2502.09992; theory.md 10): sample, then choose.

In each step draw a token for every hidden position, score it by its probability, and reveal the s_k best; the others
are drawn again in the next step. Even with one token per step this does not sample the model's distribution, because
the revealed position depends on the drawn tokens. Scores are compared to 1e-9. Equal scores are ordered at random, by
position (ties="position"; on languages with many equal scores this is left-to-right), or by torch.topk (ties="topk").
In bfloat16 (dtype), as in the published code of such checkpoints, many scores are equal.

Tokens in `last` come after all others, and the score of a token is its probability among the others: p / (1 - p_last).
This is LLaDA's confidence_eos_eot_inf, which removes them from the softmax of the scores.

`temperature` is LLaDA's: tokens are drawn at T (0 is argmax) but scored at T = 1. The temperature of `generate` changes
the marginals, and so the scores too: then this is Dream's maskgit_plus, whose `alg_temp` is `noise` here.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from unmask.core import arguments
from unmask.samplers.contract import SAMPLERS, Choice, Sampler
from unmask.samplers.ranking import ROUND_TIES, check_ranking, rounded, surest
from unmask.samplers.view import View


@SAMPLERS.register("low-confidence")
@dataclass(frozen=True)
class LowConfidence(Sampler):
    """LLaDA's rule: draw everywhere, keep the tokens with the highest probability."""

    temperature: float = 1.0
    noise: float = 0.0
    ties: str = "chance"
    last: tuple[int, ...] = ()
    dtype: str = "float32"

    def __post_init__(self) -> None:
        check_ranking(self.temperature, self.ties, self.noise, ROUND_TIES, self.dtype)
        for token in self.last:
            arguments.whole("a token of last", token, 0)

    @property
    def chooses_before_drawing(self) -> bool:
        return self.temperature == 0  # the drawn tokens are then known

    def choose(self, view: View) -> Choice:
        tokens = view.draw(self.temperature)
        scores = self.score(view, tokens)
        if self.last:
            scores = scores.masked_fill(torch.isin(tokens, torch.tensor(self.last)), -1.0)
        return Choice(surest(view, scores, self.ties, self.noise), tokens)

    def score(self, view: View, tokens: Tensor) -> Tensor:
        scores = view.of(tokens)
        if self.last:
            late = torch.stack([view.of(torch.full_like(tokens, token)) for token in set(self.last)]).sum(0)
            scores = scores / (1 - late).clamp(min=1e-300)
        return rounded(scores, self.dtype)
