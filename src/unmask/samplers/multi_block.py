"""d3LLM (arXiv 2601.07568; after D2F): several active blocks.

Blocks of fixed length become active from the left: the next one when at least a fraction `join` of the newest is
revealed, or when it is full; one per step. In all active blocks every hidden position with an entropy of at most
`threshold` nats is revealed; in the first unfinished block the most confident if it has no such position. The
published code also marks a block when most of the one before is revealed, but always continues with the first
unfinished block; so without its cache the mark changes nothing.

    published  The most confident position of all active blocks is revealed in any case, as in the code, whose loop
               over the threshold skips the first index. Otherwise a step reveals the most confident of the first
               unfinished block, only if that block has none below the threshold; then more calls may be needed.

Tokens are drawn after the choice; the paper's temperature is 0. The cache of the paper's code is not implemented. In
`blocks` the rule applies within the block. Steps and schedule are not used.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from unmask.core import arguments
from unmask.samplers.contract import SAMPLERS, Choice
from unmask.samplers.ranking import ChoosesFirst, chosen
from unmask.samplers.view import View


@SAMPLERS.register("multi-block")
@dataclass(frozen=True)
class MultiBlock(ChoosesFirst):
    """d3LLM, D2F: several active blocks, with one entropy threshold for all of them."""

    pace = "free"
    threshold: float = 0.5
    block_length: int = 32
    join: float = 0.1
    published: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        arguments.number("threshold", self.threshold, what=" of nats")
        arguments.whole("block_length", self.block_length, 1, arguments.MOST_LENGTH)
        arguments.number("join", self.join, most=1.0)
        arguments.flag("published", self.published)

    def choose(self, view: View) -> Choice:
        here = view.hidden | view.revealed
        block = torch.where(here, (here.cumsum(1) - 1) // self.block_length, -1)
        active = view.memory.get("active", torch.zeros((len(here), 1), dtype=torch.int64)).clamp(min=1)
        newest = block == active - 1  # of the active blocks
        fraction = (newest & view.revealed).sum(1, keepdim=True) / newest.sum(1, keepdim=True).clamp(min=1)
        full = ~(newest & view.hidden).any(1, keepdim=True)
        view.memory["active"] = active = active + ((fraction >= self.join) | full)
        first = torch.where(view.hidden, block, len(block[0])).amin(1, keepdim=True)
        joined = view.hidden & (block < active)
        sure = joined & (view.entropy <= self.threshold + view.resolution)
        if self.published:
            sure |= self.surest(view, joined, -view.entropy)
        among = view.hidden & (block == first)
        none = ~(sure & among).any(1, keepdim=True)
        return chosen(view, sure | (self.surest(view, among, -view.entropy) & none), self.temperature)
