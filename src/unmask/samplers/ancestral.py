"""Ancestral sampling, the sampler that the paper analyses ("ddpm"; MDLM; theory.md 1).

Each hidden position is revealed at round k with probability rho_k = delta_k / (1 - p_k), independently, and drawn from
p_theta(. | x). Equivalently every position draws its round from delta beforehand, which is what stands here.
"""

from dataclasses import dataclass

from torch import Tensor

from unmask.core.chance import Luck
from unmask.samplers.contract import SAMPLERS, Sampler
from unmask.schedules import orders


@SAMPLERS.register("ancestral")
@dataclass(frozen=True)
class Ancestral(Sampler):
    """Each position draws its round from the schedule (the paper's sampler)."""

    draws_rounds = True

    def order(self, delta: Tensor, hidden: Tensor, luck: Luck) -> Tensor:
        return orders.independent(delta, hidden, luck)
