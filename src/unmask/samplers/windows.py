"""Where there is no fixed block: windows that slide, borders where confidence falls, several blocks at a time.

Within its window each rule reveals all that is sure enough, and the surest where nothing is (`threshold`):

    deferred         Deferred commitment (arXiv 2601.02076 v1), DSB (2602.05992) alike: the window begins at the first
                     hidden position and is as long as it can be with `window` hidden ones and `longest` positions; it
                     slides on as soon as its first position is revealed, so that what is unsure at its end waits
    adaptive-blocks  Swordsman (arXiv 2602.04399 v1): a block ends where the entropy rises most from one hidden position
                     to the next, after `least` to `most` of them; border=confidence: where the confidence falls most.
                     Its abstract says that borders are shifts of entropy between neighbours; that a rise is meant, and
                     that the largest is taken, is our reading
    multi-block      d3LLM (arXiv 2601.07568), D2F: blocks of fixed length, several in flight: the next one joins when
                     the last one's share of revealed positions is at least `join`, one a round. Entropies up to
                     `threshold` are revealed in all of them, and in the first that is not full at least one

All are for a canvas without borders of its own; in `blocks` they go on within the block. Tokens are drawn after the
choice; the papers' temperature is 0. What the published codes cache is a matter of cost and not built in. Steps and
schedule are not used.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from unmask.core import arguments
from unmask.samplers.contract import SAMPLERS, Choice
from unmask.samplers.ranking import ChoosesFirst, arranged, chosen
from unmask.samplers.view import View

BORDERS = ("entropy", "confidence")


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


@SAMPLERS.register("adaptive-blocks")
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
        """(B, 1): how many hidden positions the next block has."""
        doubt = view.entropy if self.border == "entropy" else -view.confidence
        left, size = view.hidden.sum(1, keepdim=True), view.hidden.shape[1]
        index = torch.where(view.hidden, view.hidden.cumsum(1) - 1, torch.arange(size) + left - view.hidden.cumsum(1))
        rise = torch.nn.functional.pad(arranged(view, doubt, index).diff(dim=1), (1, 0))  # (B, n): from n - 1 to n
        number = torch.arange(size)
        possible = (number >= self.least) & (number <= self.most) & (number < left)
        highest = torch.where(possible, torch.round(rise / view.resolution), -torch.inf).argmax(1, keepdim=True)
        return torch.where(possible.any(1, keepdim=True), highest, left.clamp(max=self.most))


@SAMPLERS.register("multi-block")
@dataclass(frozen=True)
class MultiBlock(ChoosesFirst):
    """d3LLM, D2F: several blocks in flight, a threshold on the entropies of all of them."""

    pace = "free"
    threshold: float = 0.5
    block_length: int = 32
    join: float = 0.1

    def __post_init__(self) -> None:
        super().__post_init__()
        arguments.number("threshold", self.threshold, what=" of nats")
        arguments.whole("block_length", self.block_length, 1, arguments.MOST_LENGTH)
        arguments.number("join", self.join, most=1.0)

    def choose(self, view: View) -> Choice:
        here = view.hidden | view.revealed
        block = torch.where(here, (here.cumsum(1) - 1) // self.block_length, -1)
        flying = view.memory.get("flying", torch.zeros((len(here), 1), dtype=torch.int64)).clamp(min=1)
        newest = block == flying - 1  # of the blocks that have joined
        share = (newest & view.revealed).sum(1, keepdim=True) / newest.sum(1, keepdim=True).clamp(min=1)
        full = ~(newest & view.hidden).any(1, keepdim=True)
        view.memory["flying"] = flying = flying + ((share >= self.join) | full)
        first = torch.where(view.hidden, block, len(block[0])).amin(1, keepdim=True)
        sure = view.hidden & (block < flying) & (view.entropy <= self.threshold + view.resolution)
        among = view.hidden & (block == first)
        none = ~(sure & among).any(1, keepdim=True)
        return chosen(view, sure | (self.surest(view, among, -view.entropy) & none), self.temperature)
