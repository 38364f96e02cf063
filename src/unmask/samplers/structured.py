"""Orders that keep neighbours apart (theory.md 6, 7.6): the linear lower bound is about random orders; these escape it.

strided: round k reveals every N-th position, starting at k. With N = l rounds it is exact on the interval language.
dyadic: round 1 reveals every 2^(N-1)-th position, each later round the midpoints between what is revealed.
"""

from dataclasses import dataclass

from torch import Tensor

from unmask import orders
from unmask.chance import Luck
from unmask.samplers.contract import SAMPLERS, Sampler


@SAMPLERS.register("strided")
@dataclass(frozen=True)
class Strided(Sampler):
    """Every N-th position each round, N being the number of rounds."""

    def order(self, delta: Tensor, hidden: Tensor, luck: Luck) -> Tensor:
        return orders.strided(len(delta), hidden)


@SAMPLERS.register("dyadic")
@dataclass(frozen=True)
class Dyadic(Sampler):
    """Every 2^(N-1)-th position first, then midpoints, N being the number of rounds."""

    def order(self, delta: Tensor, hidden: Tensor, luck: Luck) -> Tensor:
        return orders.dyadic(len(delta), hidden)
