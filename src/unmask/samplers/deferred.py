"""Deferred commitment (arXiv 2601.02076 v1; DSB, 2602.05992, is alike): a window that slides, and no border to force.

The window begins at the first hidden position, and is as long as it can be with at most `window` hidden ones and
`longest` positions in all. Within it each hidden position with max_v p(v) >= threshold is revealed, or the surest where
there is none. As soon as its first position is revealed it slides on, so that what is unsure at its end waits for
context, where a block would have to be filled. The paper's extension of blocks at low confidence is for models that see
blocks, and left out.

Tokens are drawn after the choice; the paper's temperature is 0. What its code caches is not built in. In `blocks` it
goes on within the block. Steps and schedule are not used.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from unmask.core import arguments
from unmask.samplers.contract import SAMPLERS, Choice
from unmask.samplers.ranking import ChoosesFirst, chosen
from unmask.samplers.view import View


@SAMPLERS.register("deferred")
@dataclass(frozen=True)
class Deferred(ChoosesFirst):
    """Deferred commitment: a threshold within a window that slides from the first hidden position."""

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
