"""Deferred commitment (arXiv 2601.02076 v1; DSB, 2602.05992): a threshold in a window of hidden positions.

The window begins at the first hidden position, and is as long as possible with at most `window` hidden positions and at
most `longest` positions. When its first position is revealed it slides on, so uncertain positions at its end wait for
context; a block would have to fill them. The paper also extends blocks at low confidence, for models that use blocks;
this is left out. Tokens are drawn after the choice; the paper's temperature is 0. Steps and schedule are not used.
"""

from dataclasses import dataclass

import torch

from unmask.core import arguments
from unmask.samplers import Choice, ChoosesFirst, View, chosen


@dataclass(frozen=True)
class Deferred(ChoosesFirst):
    """Deferred commitment: a threshold in a window that slides from the first hidden position."""

    pace = "free"
    threshold: float = 0.9
    window: int = 16
    longest: int = 64

    def __post_init__(self) -> None:
        super().__post_init__()
        arguments.number("threshold", self.threshold, most=1.0)
        arguments.whole("window", self.window, 1, arguments.MOST_LENGTH)
        arguments.whole("longest", self.longest, 1, arguments.MOST_LENGTH)

    def choose(self, view: View) -> Choice:
        place = torch.arange(view.hidden.shape[1])
        first = view.hidden.int().argmax(1, keepdim=True)
        inside = view.hidden & (view.hidden.cumsum(1) <= self.window) & (place < first + self.longest)
        return chosen(view, self.enough(view, inside, view.confidence, self.threshold), self.temperature)
