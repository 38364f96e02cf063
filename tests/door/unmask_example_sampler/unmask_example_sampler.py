"""From both ends to the middle: what an installed package adds to unmask."""

from dataclasses import dataclass

import torch

from unmask import schedules
from unmask.samplers import Sampler
from unmask.schedules import orders


@dataclass(frozen=True)
class EndsFirst(Sampler):
    """The outermost hidden positions first, `ends` or both at once."""

    ends: str = "both"

    def order(self, delta, hidden, luck):
        places = torch.arange(hidden.shape[1], dtype=torch.float64)
        distance = {"left": places, "right": places.flip(0), "both": torch.minimum(places, places.flip(0))}[self.ends]
        return orders.by_rank(hidden, distance.expand(hidden.shape), lambda count: schedules.sizes(delta, count))
