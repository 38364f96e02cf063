"""Semi-autoregressive blocks around any sampler that orders or chooses (LLaDA): one block of positions after another.

A block holds the next `block_length` hidden positions of a row. The rounds are shared out over a row's blocks, N //
blocks each and one more in the first N % blocks, and the schedule's shape applies within each.
"""

from dataclasses import dataclass

import torch

from unmask import orders
from unmask.errors import UnmaskError
from unmask.samplers import checks
from unmask.samplers.contract import SAMPLERS, Sampler, Session
from unmask.samplers.loops import fill_part
from unmask.schedules import sizes


@SAMPLERS.register("blocks")
@dataclass(frozen=True)
class Blocks(Sampler):
    """Blocks from left to right, each filled by the inner sampler."""

    block_length: int = 32
    inner: str | Sampler = "fixed-size"

    def __post_init__(self) -> None:
        checks.at_least("block_length", self.block_length, 1)
        checks.inner(self)

    def run(self, session: Session) -> None:
        assert isinstance(self.inner, Sampler)
        hidden = session.given == session.denoiser.vocabulary
        block = (hidden.cumsum(1) - 1) // self.block_length
        counts = hidden.sum(1)
        for count in counts.unique().tolist():  # what a row meets depends on that row alone
            number, steps = max(1, -(-count // self.block_length)), len(session.delta)
            if steps < number and self.inner.pace != "free":
                what = f"{number} blocks of {self.block_length} positions need at least {number} steps, not {steps}"
                raise UnmaskError(what)
            shares = sizes(torch.full((number,), 1 / number, dtype=torch.float64), steps).clamp(min=1).tolist()
            mine, earlier = hidden & (counts == count).unsqueeze(1), 0
            for index, share in enumerate(shares):
                delta = orders.coarsen(session.delta, share)
                fill_part(self.inner, session, mine & (block == index), delta, earlier)
                earlier += self.block_length if self.inner.pace == "free" else share
