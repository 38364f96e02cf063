"""Left to right by the masked model itself: round k reveals the s_k leftmost hidden positions.

With as many rounds as positions this is autoregression by the masked model, which for the ideal denoiser is exact.
"""

from dataclasses import dataclass

from torch import Tensor

from unmask.core.chance import Luck
from unmask.samplers.contract import SAMPLERS, Sampler
from unmask.schedules import orders


@SAMPLERS.register("left-to-right")
@dataclass(frozen=True)
class LeftToRight(Sampler):
    """A fixed number of the leftmost hidden positions each round."""

    def order(self, delta: Tensor, hidden: Tensor, luck: Luck) -> Tensor:
        return orders.left_to_right(delta, hidden)
