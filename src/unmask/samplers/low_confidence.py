"""Low-confidence remasking (LLaDA): sample, then choose.

In each round draw a token for every hidden position (temperature T; 0 is argmax), score it by the probability that the
model itself gave it, and reveal the s_k best; the others are drawn again in the next round. Even at one token a round
this does not sample the model's law: which position is written depends on what was drawn there. Scores are compared to
1e-9, and equal ones are ordered by keyed chance, or by position (ties="position"), which on languages with many equal
scores turns it into left-to-right.
"""

from dataclasses import dataclass

import torch

from unmask.chance import Stream
from unmask.errors import UnmaskError, unknown
from unmask.samplers.contract import SAMPLERS, Choice, Sampler, View
from unmask.samplers.ranking import best


@SAMPLERS.register("low-confidence")
@dataclass(frozen=True)
class LowConfidence(Sampler):
    """LLaDA's rule: draw everywhere, keep the tokens that the model was surest of."""

    temperature: float = 1.0
    ties: str = "chance"

    def __post_init__(self) -> None:
        if not 0 <= self.temperature < float("inf"):
            raise UnmaskError(f"temperature is {self.temperature}; expected 0 or a positive number")
        if self.ties not in ("chance", "position"):
            raise unknown("way to break ties", self.ties, ["chance", "position"])

    def choose(self, view: View) -> Choice:
        if self.temperature == 0:
            tokens = view.probabilities.argmax(-1)
        elif self.temperature == 1:
            tokens = view.draw()
        else:
            tokens = view.draw(torch.softmax(view.probabilities.log() / self.temperature, -1))
        seen = tokens.clamp(max=view.probabilities.shape[-1] - 1).unsqueeze(-1)
        confidence = view.probabilities.gather(-1, seen).squeeze(-1)
        ties = view.luck(Stream.TIE) if self.ties == "chance" else None
        return Choice(best(confidence, view.hidden, view.count, ties), tokens)
