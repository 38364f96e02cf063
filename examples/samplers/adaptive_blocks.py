"""Swordsman (arXiv 2602.04399 v1): blocks end where the denoiser becomes uncertain.

When a block is full, the next one has the first n hidden positions, n from `least` to `most`, such that the entropy
rises most from the n-th to the next one. Borders lie between parts of a sentence, where uncertainty starts again.
border=confidence uses the largest fall of max_v p(v) instead. Within a block every position with
max_v p(v) >= threshold is revealed, or else the most confident one. In the paper's abstract, borders are where entropy
shifts between neighbours; the largest rise is our interpretation.

Tokens are drawn after the choice; the paper's temperature is 0. The cache of the paper's code is not implemented. In
`blocks` the rule applies within the block. Steps and schedule are not used.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from unmask.core import arguments
from unmask.samplers import Choice, ChoosesFirst, View, arranged, chosen

BORDERS = ("entropy", "confidence")


@dataclass(frozen=True)
class AdaptiveBlocks(ChoosesFirst):
    """Blocks that end where the entropy rises, or the confidence falls, each filled by a threshold."""

    pace = "free"
    threshold: float = 0.9
    border: str = "entropy"
    least: int = 4
    most: int = 32

    def __post_init__(self) -> None:
        super().__post_init__()
        arguments.number("threshold", self.threshold, most=1.0)
        arguments.word("border", self.border, BORDERS)
        arguments.whole("most", self.most, 1, arguments.MOST_LENGTH)
        arguments.whole("least", self.least, 1, self.most)

    def choose(self, view: View) -> Choice:
        place = torch.arange(view.hidden.shape[1])
        end = view.memory.get("end", torch.zeros((len(view.hidden), 1), dtype=torch.int64))
        full = ~(view.hidden & (place < end)).any(1, keepdim=True)
        inside = view.hidden & (view.hidden.cumsum(1) <= self._size(view))
        end = torch.where(full, torch.where(inside, place + 1, 0).amax(1, keepdim=True), end)
        view.memory["end"] = end
        among = view.hidden & (place < end)
        return chosen(view, self.enough(view, among, view.confidence, self.threshold), self.temperature)

    def _size(self, view: View) -> Tensor:
        """(B, 1): number of hidden positions of the next block."""
        doubt = view.entropy if self.border == "entropy" else -view.confidence
        left, size = view.hidden.sum(1, keepdim=True), view.hidden.shape[1]
        index = torch.where(view.hidden, view.hidden.cumsum(1) - 1, torch.arange(size) + left - view.hidden.cumsum(1))
        rise = torch.nn.functional.pad(arranged(view, doubt, index).diff(dim=1), (1, 0))  # (B, n): from n - 1 to n
        number = torch.arange(size)
        possible = (number >= self.least) & (number <= self.most) & (number < left)
        highest = torch.where(possible, torch.round(rise / view.resolution), -torch.inf).argmax(1, keepdim=True)
        return torch.where(possible.any(1, keepdim=True), highest, left.clamp(max=self.most))
