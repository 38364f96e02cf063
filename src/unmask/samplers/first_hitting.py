"""First-hitting sampling (Zheng et al., arXiv 2409.02908; theory.md 10): the law of infinitely many rounds.

With n hidden at time t the next one is revealed at t', 1 - alpha(t') = (1 - alpha(t)) u^(1/n), u uniform, and which one
it is, is uniform. These are the order statistics of independent uniforms: each position is revealed when alpha reaches
its own u. So the order is uniformly random, one position a round, and L evaluations follow the law of N -> infinity;
a denoiser that is not time-free is told the hitting times. The number of steps is not used.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from unmask.core.chance import Luck, Stream
from unmask.samplers.contract import SAMPLERS, Sampler
from unmask.schedules import orders


@SAMPLERS.register("first-hitting")
@dataclass(frozen=True)
class FirstHitting(Sampler):
    """One position at a time in a uniformly random order: ancestral sampling with N -> infinity."""

    pace = "free"

    def order(self, delta: Tensor, hidden: Tensor, luck: Luck) -> Tensor:
        return orders.one_by_one(hidden, luck)

    def times(self, delta: Tensor, order: Tensor, luck: Luck) -> Tensor:
        u = luck.grid(Stream.ORDER, order.shape[1])
        after = delta.cumsum(0)
        k = torch.searchsorted(after, u, right=True).clamp(max=int(delta.nonzero()[-1]))
        within = (u - (after - delta)[k]) / delta[k]  # alpha is a straight line between the rounds of a schedule
        return 1 - (k + within) / len(delta)
