"""Random order with a fixed number of positions a round (theory.md 1, 7.2; LLaDA's `random` remasking).

Round k reveals s_k positions chosen uniformly among the hidden ones; s is the schedule rounded to whole numbers.
"""

from dataclasses import dataclass

from torch import Tensor

from unmask.core.chance import Luck
from unmask.samplers.contract import SAMPLERS, Sampler
from unmask.schedules import orders


@SAMPLERS.register("fixed-size")
@dataclass(frozen=True)
class FixedSize(Sampler):
    """A fixed number of uniformly chosen positions each round."""

    def order(self, delta: Tensor, hidden: Tensor, luck: Luck) -> Tensor:
        return orders.shuffled(delta, hidden, luck)
