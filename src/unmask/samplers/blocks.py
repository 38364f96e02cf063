"""Semi-autoregressive blocks around any sampler that orders or chooses (LLaDA): one block of positions after another.

A block holds the next `block_length` hidden positions of a row, and each row goes through blocks of its own: rows with
prompts of different lengths share every batched call.
"""

from dataclasses import dataclass

import torch

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

    def run(self, session: Session) -> None:
        index = (session.hidden.cumsum(1) - 1) // self.block_length
        fill_blocks(checks.made(self.inner), session, torch.where(session.hidden, index, -1))
