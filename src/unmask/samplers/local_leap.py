"""LocalLeap (arXiv 2510.07081 v1): near confident positions a lower threshold applies.

    anchors  the hidden positions with max_v p(v) >= threshold
    reveal   the anchors, and positions at most `radius` from an anchor with at least threshold - relief

or the most confident one without an anchor. The paper's thresholds are 0.9 and 0.75, and its radius 4; neighbours
are counted on the canvas, and revealed within their block. With relief=0 or radius=0 it is `threshold`. Tokens are
drawn after the choice; the paper's temperature is 0. Steps and schedule are not used.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from unmask.core import arguments
from unmask.samplers.contract import SAMPLERS, Choice
from unmask.samplers.ranking import ChoosesFirst, chosen
from unmask.samplers.view import View


@SAMPLERS.register("localleap")
@dataclass(frozen=True)
class LocalLeap(ChoosesFirst):
    """LocalLeap: all confident positions, and less confident neighbours of these; steps are not used."""

    pace = "free"
    threshold: float = 0.9
    relief: float = 0.15
    radius: int = 4

    def __post_init__(self) -> None:
        super().__post_init__()
        arguments.number("threshold", self.threshold, most=1.0)
        arguments.number("relief", self.relief, most=self.threshold, what=", the threshold")
        arguments.whole("radius", self.radius, 0, arguments.MOST_LENGTH)

    def choose(self, view: View) -> Choice:
        anchors = view.hidden & (view.confidence >= self.threshold - view.resolution)
        before = torch.nn.functional.pad(anchors.cumsum(1), (1, 0))  # (B, L + 1)
        place, size = torch.arange(anchors.shape[1]), anchors.shape[1]
        near = before[:, (place + self.radius + 1).clamp(max=size)] > before[:, (place - self.radius).clamp(min=0)]
        lowered = near & view.hidden & (view.confidence >= self.threshold - self.relief - view.resolution)
        return chosen(view, lowered | self.enough(view, view.hidden, view.confidence, self.threshold), self.temperature)
