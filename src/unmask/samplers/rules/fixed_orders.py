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
from unmask.samplers.schedules import sizes


@SAMPLERS.register("ancestral")
@dataclass(frozen=True)
class Ancestral(Sampler):
    """Each position draws its step from the schedule (the paper's sampler)."""

    draws_steps = True

    def order(self, delta: Tensor, hidden: Tensor, rng: Randomness) -> Tensor:
        """POI(alpha, N): the step of each position, independently from delta."""
        u, last = rng.grid(Stream.ORDER, hidden.shape[1]), int(delta.nonzero()[-1])
        return torch.where(hidden, torch.searchsorted(delta.cumsum(0), u, right=True).clamp(max=last) + 1, 0)


@SAMPLERS.register("first-hitting")
@dataclass(frozen=True)
class FirstHitting(Sampler):
    """One position at a time in a random order: ancestral sampling with N -> infinity; steps are not used."""

    pace = "free"

    def order(self, delta: Tensor, hidden: Tensor, rng: Randomness) -> Tensor:
        priority = rng.grid(Stream.ORDER, hidden.shape[1])
        return orders.by_rank(hidden, priority, lambda count: torch.ones(count, dtype=torch.int64))

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
        priority = rng.grid(Stream.ORDER, hidden.shape[1])
        return orders.by_rank(hidden, priority, lambda count: sizes(delta, count))


@SAMPLERS.register("left-to-right")
@dataclass(frozen=True)
class LeftToRight(Sampler):
    """A fixed number of the leftmost hidden positions in each step."""

    def order(self, delta: Tensor, hidden: Tensor, rng: Randomness) -> Tensor:
        positions = torch.arange(hidden.shape[1], dtype=torch.float64, device=hidden.device)
        return orders.by_rank(hidden, positions.expand(hidden.shape), lambda count: sizes(delta, count))


@SAMPLERS.register("strided")
@dataclass(frozen=True)
class Strided(Sampler):
    """Every N-th position in each step, N being the number of steps."""

    def order(self, delta: Tensor, hidden: Tensor, rng: Randomness) -> Tensor:
        """Position j at step j mod N + 1."""
        positions = torch.arange(hidden.shape[1], device=hidden.device)
        return torch.where(hidden, positions % len(delta) + 1, 0)


@SAMPLERS.register("dyadic")
@dataclass(frozen=True)
class Dyadic(Sampler):
    """Every 2^(N-1)-th position first, then midpoints, N being the number of steps."""

    def order(self, delta: Tensor, hidden: Tensor, rng: Randomness) -> Tensor:
        """Multiples of K = 2^(N-1) at step 1, then the midpoints between revealed positions (theory.md 7.6)."""
        positions = torch.arange(hidden.shape[1], device=hidden.device)
        halvings = torch.log2((positions & -positions).double()).long().clamp(min=0)  # the exponent of 2 in a position
        order = (len(delta) - halvings).clamp(min=1)
        order[0] = 1
        return torch.where(hidden, order, 0)
