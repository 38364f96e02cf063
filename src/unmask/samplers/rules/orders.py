"""Orders that do not depend on the tokens.

Random orders: ancestral, its limit of many steps, and fixed sizes.

ancestral      the sampler of the paper ("ddpm"; MDLM; theory.md 1): in step k reveal each hidden position with
               probability rho_k = delta_k / (1 - p_k), independently, and draw it from p_theta(. | x).
               Equivalently, every position draws its step from delta in advance, as here.
first-hitting  the limit of N -> infinity (Zheng et al., arXiv 2409.02908; theory.md 10). With n hidden at t the
               next position is revealed at t', 1 - alpha(t') = (1 - alpha(t)) u^(1/n), u uniform; it is a uniformly
               random one. These are the order statistics of independent uniforms: each position is revealed when
               alpha reaches its own u. So a uniformly random order with L model calls has this distribution; a
               denoiser that uses the time gets the hitting times.
fixed-size     s_k uniformly chosen positions in step k; s is the schedule in whole numbers (theory.md 1, 7.2;
               LLaDA's `random` remasking)

Orders that keep neighbours apart (theory.md 6, 7.6); the linear lower bound for random orders does not apply.

strided: step k reveals every N-th position, starting at k. With N = l steps it is exact on the interval language.
dyadic: step 1 reveals every 2^(N-1)-th position, each later step the midpoints between revealed positions.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from unmask.core.chance import Randomness, Stream
from unmask.samplers import orders
from unmask.samplers.contract import SAMPLERS, Sampler


@SAMPLERS.register("ancestral")
@dataclass(frozen=True)
class Ancestral(Sampler):
    """Each position draws its step from the schedule (the paper's sampler)."""

    draws_steps = True

    def order(self, delta: Tensor, hidden: Tensor, rng: Randomness) -> Tensor:
        return orders.independent(delta, hidden, rng)


@SAMPLERS.register("first-hitting")
@dataclass(frozen=True)
class FirstHitting(Sampler):
    """One position at a time in a random order: ancestral sampling with N -> infinity; steps are not used."""

    pace = "free"

    def order(self, delta: Tensor, hidden: Tensor, rng: Randomness) -> Tensor:
        return orders.one_by_one(hidden, rng)

    def times(self, delta: Tensor, order: Tensor, rng: Randomness) -> Tensor:
        u = rng.grid(Stream.ORDER, order.shape[1])
        after = delta.cumsum(0)
        k = torch.searchsorted(after, u, right=True).clamp(max=int(delta.nonzero()[-1]))
        within = (u - (after - delta)[k]) / delta[k]  # alpha is linear between the steps of a schedule
        return 1 - (k + within) / len(delta)


@SAMPLERS.register("fixed-size")
@dataclass(frozen=True)
class FixedSize(Sampler):
    """A fixed number of uniformly chosen positions in each step."""

    def order(self, delta: Tensor, hidden: Tensor, rng: Randomness) -> Tensor:
        return orders.shuffled(delta, hidden, rng)


@SAMPLERS.register("left-to-right")
@dataclass(frozen=True)
class LeftToRight(Sampler):
    """A fixed number of the leftmost hidden positions in each step."""

    def order(self, delta: Tensor, hidden: Tensor, rng: Randomness) -> Tensor:
        return orders.left_to_right(delta, hidden)


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
