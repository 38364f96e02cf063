"""Orders that keep neighbors apart (theory.md 7.6): dilated unmasking, and dyadic orders of blocks.

dilated: DUS (arXiv 2506.19037): of B positions every B/a-th, then every B/a^2-th, .. in ceil(log_a B) steps. The paper
    runs it within blocks, blocks(block_length=32, inner=..). Steps and schedule are not used.
blocks: blocks of m neighbors are revealed in the order of `dyadic`, one position of each block per step. Multiples of
    K = m 2^(N/m - 1) begin the first blocks. Between blocks of m = n - 1 an n-gram is independent. If N is less than m,
    blocks have N positions.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from unmask.core import arguments
from unmask.core.chance import Randomness
from unmask.samplers import Sampler
from unmask.samplers.rules.fixed_orders import Dyadic


@dataclass(frozen=True)
class Dilated(Sampler):
    """DUS: from far apart to neighbors in log(L) steps; steps and schedule are not used."""

    pace = "free"
    base: int = 2

    def __post_init__(self) -> None:
        arguments.whole("base", self.base, 2, arguments.MOST_LENGTH)

    def order(self, delta: Tensor, hidden: Tensor, rng: Randomness) -> Tensor:
        """The k-th hidden position in step R - v, at least 1; R steps are needed, and the base divides k v times."""
        index = (hidden.cumsum(1) - 1).clamp(min=0)
        count = hidden.sum(1, keepdim=True)
        needed, divided, stride = torch.zeros_like(count), torch.zeros_like(index), 1
        while stride < hidden.shape[1]:
            needed += stride < count
            stride *= self.base
            divided += index % stride == 0
        return torch.where(hidden, (needed - divided).clamp(min=1), 0)


@dataclass(frozen=True)
class BlockStrided(Sampler):
    """Dyadic over blocks of neighbors, one position of each block per step: for n-grams, blocks of n - 1."""

    block_length: int = 2

    def __post_init__(self) -> None:
        arguments.whole("block_length", self.block_length, 1, arguments.MOST_LENGTH)

    def order(self, delta: Tensor, hidden: Tensor, rng: Randomness) -> Tensor:
        size, place = min(self.block_length, len(delta)), torch.arange(hidden.shape[1])
        blocks = Dyadic().order(delta[: len(delta) // size], torch.ones_like(hidden), rng)[:, place // size]
        return torch.where(hidden, size * (blocks - 1) + place % size + 1, 0)
