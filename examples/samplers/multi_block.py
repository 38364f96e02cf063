"""Several active blocks, with one entropy threshold for all of them (d3LLM, arXiv 2601.07568; D2F).

Blocks of fixed length become active from the left: the next one when at least a fraction `join` of the newest is
revealed, or when it is full; one per step. Positions of active blocks with an entropy up to the threshold are revealed,
and in the first unfinished block at least the one with the least. The published code reveals the most certain position
of all active blocks in any case, because its loop over the threshold skips the first index (published=True). It also
marks a block when most of the one before is revealed, but always continues with the first unfinished block; so without
its cache the mark changes nothing. Tokens are drawn after the choice; the paper's temperature is 0. Steps and schedule
are not used.
"""

from dataclasses import dataclass

import torch

from unmask.core import arguments
from unmask.samplers import Choice, ChoosesFirst, View, above, chosen


@dataclass(frozen=True)
class MultiBlock(ChoosesFirst):
    """Several blocks in parallel, all positions whose entropy is below a threshold in nats."""

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

    def choose(self, view: View) -> Choice:
        here = view.hidden | view.revealed
        block = torch.where(here, (here.cumsum(1) - 1) // self.block_length, -1)
        active = view.memory.get("active", torch.zeros((len(here), 1), dtype=torch.int64)).clamp(min=1)
        newest = block == active - 1  # of the active blocks
        fraction = (newest & view.revealed).sum(1, keepdim=True) / newest.sum(1, keepdim=True).clamp(min=1)
        full = ~(newest & view.hidden).any(1, keepdim=True)
        view.memory["active"] = active = active + ((fraction >= self.join) | full)
        inside = view.hidden & (block < active)
        first = view.hidden & (block == torch.where(view.hidden, block, len(block[0])).amin(1, keepdim=True))
        ready = inside & ~above(view, view.entropy, self.threshold)
        if self.published:
            ready |= self.surest(view, inside, -view.entropy)
        surest = self.surest(view, first, -view.entropy)
        return chosen(view, ready | (surest & ~(ready & first).any(1, keepdim=True)), self.temperature)
