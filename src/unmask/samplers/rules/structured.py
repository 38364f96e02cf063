"""Orders that keep neighbours apart (theory.md 6, 7.6); the linear lower bound for random orders does not apply.

strided: step k reveals every N-th position, starting at k. With N = l steps it is exact on the interval language.
dyadic: step 1 reveals every 2^(N-1)-th position, each later step the midpoints between revealed positions.
block-strided: the same with blocks of m neighbours in place of positions, one position of each block per step.
    Between blocks of m = n - 1 an n-gram is independent; m (1 + log2(K/m)) steps for blocks K apart.
dilated: DUS (arXiv 2506.19037): of B positions every B/a-th, then every B/a^2-th, .. in ceil(log_a B) steps. The paper
    runs it within blocks: blocks(block_length=32, inner=dilated).
"""

from dataclasses import dataclass

from torch import Tensor

from unmask.core import arguments
from unmask.core.chance import Randomness
from unmask.samplers import orders
from unmask.samplers.contract import SAMPLERS, Sampler


@SAMPLERS.register("strided")
@dataclass(frozen=True)
class Strided(Sampler):
    """Every N-th position in each step, N being the number of steps."""

    def order(self, delta: Tensor, hidden: Tensor, rng: Randomness) -> Tensor:
        return orders.strided(len(delta), hidden)


@SAMPLERS.register("dyadic")
@dataclass(frozen=True)
class Dyadic(Sampler):
    """Every 2^(N-1)-th position first, then midpoints, N being the number of steps."""

    def order(self, delta: Tensor, hidden: Tensor, rng: Randomness) -> Tensor:
        return orders.dyadic(len(delta), hidden)


@SAMPLERS.register("block-strided")
@dataclass(frozen=True)
class BlockStrided(Sampler):
    """Dyadic over blocks of neighbours, one position of each block per step: for n-grams, blocks of n - 1."""

    block_length: int = 2

    def __post_init__(self) -> None:
        arguments.whole("block_length", self.block_length, 1, arguments.MOST_LENGTH)

    def order(self, delta: Tensor, hidden: Tensor, rng: Randomness) -> Tensor:
        return orders.block_strided(len(delta), self.block_length, hidden)


@SAMPLERS.register("dilated")
@dataclass(frozen=True)
class Dilated(Sampler):
    """DUS: from far apart to neighbours in log(L) steps; steps and schedule are not used."""

    pace = "free"
    base: int = 2

    def __post_init__(self) -> None:
        arguments.whole("base", self.base, 2, arguments.MOST_LENGTH)

    def order(self, delta: Tensor, hidden: Tensor, rng: Randomness) -> Tensor:
        return orders.dilated(self.base, hidden)
