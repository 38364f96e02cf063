"""Semi-autoregressive blocks: `block_length` positions at a time, a random order within each (LLaDA, `random`).

The rounds are shared out over the blocks, N // blocks each and one more in the first N % blocks.
"""

from dataclasses import dataclass

from torch import Tensor

from unmask import orders
from unmask.chance import Luck
from unmask.errors import UnmaskError
from unmask.samplers.contract import SAMPLERS, Sampler


@SAMPLERS.register("blocks")
@dataclass(frozen=True)
class Blocks(Sampler):
    """Blocks from left to right, a random order within each."""

    block_length: int = 32

    def __post_init__(self) -> None:
        if self.block_length < 1:
            raise UnmaskError(f"block_length is {self.block_length}; expected at least 1")

    def order(self, delta: Tensor, hidden: Tensor, luck: Luck) -> Tensor:
        return orders.blocks(delta, hidden, luck, self.block_length)
