"""Left to right by the masked model itself: step k reveals the s_k leftmost hidden positions.

With one step per position this is autoregression by the masked model, which is exact for the ideal denoiser.
"""

from dataclasses import dataclass

from torch import Tensor

from unmask.core.chance import Randomness
from unmask.samplers import orders
from unmask.samplers.contract import SAMPLERS, Sampler


@SAMPLERS.register("left-to-right")
@dataclass(frozen=True)
class LeftToRight(Sampler):
    """A fixed number of the leftmost hidden positions in each step."""

    def order(self, delta: Tensor, hidden: Tensor, rng: Randomness) -> Tensor:
        return orders.left_to_right(delta, hidden)
