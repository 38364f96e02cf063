"""From both ends to the middle: what an installed package adds to unmask."""

from dataclasses import dataclass

import torch

from unmask.samplers import Sampler, orders, schedules


@dataclass(frozen=True)
class EndsFirst(Sampler):
    """The outermost hidden positions first, `ends` or both at once."""

    ends: str = "both"

    def order(self, delta, hidden, rng):
        left = hidden.double().cumsum(1)  # of its own row: others may be longer
        right = hidden.sum(1, keepdim=True) - left
        distance = {"left": left, "right": right, "both": torch.minimum(left, right)}[self.ends]
        return orders.by_rank(hidden, distance, lambda count: schedules.sizes(delta, count))
