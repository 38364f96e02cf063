"""Semi-autoregressive blocks around any sampler that orders or chooses (LLaDA): one block of positions after another.

A block holds the next `block_length` hidden positions of a row, and each row goes through blocks of its own: rows with
prompts of different lengths share every batched call. Of a denoiser that itself sees blocks, from position 0 on, blocks
are its own, or whole parts of them, so that the first one is what a prompt leaves of one.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from unmask.core import arguments
from unmask.samplers import checks
from unmask.samplers.contract import SAMPLERS, Law, Reads, Sampler
from unmask.samplers.loops import fill_blocks
from unmask.samplers.session import Session


@SAMPLERS.register("blocks")
@dataclass(frozen=True)
class Blocks(Sampler):
    """Blocks from left to right, each filled by the inner sampler."""

    block_length: int = 32
    inner: str | Sampler = "fixed-size"

    def __post_init__(self) -> None:
        arguments.whole("block_length", self.block_length, 1, arguments.MOST_LENGTH)
        checks.inner(self)

    @property
    def law(self) -> Law | None:
        return "order" if checks.made(self.inner).law == "order" else None

    @property
    def reads(self) -> frozenset[Reads]:
        return checks.made(self.inner).reads

    @property
    def revises(self) -> bool:
        return checks.made(self.inner).revises

    def run(self, session: Session) -> None:
        hidden, grid = session.hidden, session.denoiser.grid
        if grid is None or (self.block_length % grid and grid % self.block_length):
            index = (hidden.cumsum(1) - 1) // self.block_length
        else:
            index = _numbered(hidden, self.block_length)
        fill_blocks(checks.made(self.inner), session, torch.where(hidden, index, -1))


def _numbered(hidden: Tensor, size: int) -> Tensor:
    """(B, L): which block of the row it is, of those of a grid from position 0 that have a hidden position (B, L)."""
    block = torch.arange(hidden.shape[1]) // size
    seen = torch.where(hidden, block, -1).cummax(1).values
    before = torch.cat([seen.new_full((len(seen), 1), -1), seen[:, :-1]], 1)
    return (seen > before).cumsum(1) - 1
