"""Top-probability, margin and entropy (theory.md 10; Dream's maskgit_plus, topk_margin, entropy): choose, then sample.

In each step score every hidden position by its marginal, reveal the s_k highest, and draw their tokens:

    top-probability  max_v p(v)        margin  p_(1) - p_(2)        entropy  sum_v p(v) log p(v)

The order depends on revealed tokens alone, so the ideal denoiser with one token per step samples its language exactly.
Margin and entropy do not use the drawn token: sampling first and choosing afterwards gives the same distribution. For
the probability it differs; that is low-confidence. Equal scores (to 1e-9) are ordered by chance, by position, or by
torch.topk. `temperature` is that of the drawn tokens, the scores use T = 1; `noise` is Dream's alg_temp. In bfloat16,
as in the published code of such checkpoints, many scores are equal.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from unmask.samplers.contract import SAMPLERS, Choice
from unmask.samplers.ranking import ROUND_TIES, DrawsAfter, check_ranking, chosen, score_at, surest
from unmask.samplers.view import View


@dataclass(frozen=True)
class Surest(DrawsAfter):
    temperature: float = 1.0
    noise: float = 0.0
    ties: str = "chance"
    dtype: str = "float32"
    score: ClassVar[str]

    def __post_init__(self) -> None:
        check_ranking(self.temperature, self.ties, self.noise, ROUND_TIES, self.dtype)

    def choose(self, view: View) -> Choice:
        scores = score_at(view, self.score, self.dtype)
        return chosen(view, surest(view, scores, self.ties, self.noise), self.temperature)


@SAMPLERS.register("top-probability")
class TopProbability(Surest):
    """Reveal where the most likely token is most likely."""

    score = "confidence"


@SAMPLERS.register("margin")
class Margin(Surest):
    """Reveal where the two most likely tokens are furthest apart."""

    score = "margin"


@SAMPLERS.register("entropy")
class Entropy(Surest):
    """Reveal where the marginal has the least entropy."""

    score = "entropy"
