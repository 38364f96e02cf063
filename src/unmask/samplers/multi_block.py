"""d3LLM (arXiv 2601.07568; after D2F): several blocks in flight.

Blocks of fixed length join from the left: the next one as soon as the newest has at least the share `join` of its
positions revealed, or is full, one a round. In all that have joined every hidden position with an entropy of at most
`threshold` nats is revealed, and in the first that is not full the surest, where that has none. Its code also marks a
block as active once most of the one before is revealed; what must go on is the first unfinished block all the same, so
that without its cache the mark changes nothing.

    published  The surest position of all blocks that have joined is revealed in any case, as in the code, whose loop
               over the threshold skips the first index. Without it a round reveals the surest of the first unfinished
               block, and only where that block has none below the threshold; then more calls may be needed.

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


@SAMPLERS.register("multi-block")
@dataclass(frozen=True)
class MultiBlock(ChoosesFirst):
    """d3LLM, D2F: several blocks in flight, a threshold on the entropies of all of them."""

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
        flying = view.memory.get("flying", torch.zeros((len(here), 1), dtype=torch.int64)).clamp(min=1)
        newest = block == flying - 1  # of the blocks that have joined
        share = (newest & view.revealed).sum(1, keepdim=True) / newest.sum(1, keepdim=True).clamp(min=1)
        full = ~(newest & view.hidden).any(1, keepdim=True)
        view.memory["flying"] = flying = flying + ((share >= self.join) | full)
        first = torch.where(view.hidden, block, len(block[0])).amin(1, keepdim=True)
        joined = view.hidden & (block < flying)
        sure = joined & (view.entropy <= self.threshold + view.resolution)
        if self.published:
            sure |= self.surest(view, joined, -view.entropy)
        among = view.hidden & (block == first)
        none = ~(sure & among).any(1, keepdim=True)
        return chosen(view, sure | (self.surest(view, among, -view.entropy) & none), self.temperature)
