"""Fixed and random orders: the best fixed order has no more SER; for TER a mixture may be better (theory.md 2, 7.1).

Let orders tau be drawn independently of the tokens, and p = E_tau p_tau. SER(p) = E_tau SER(p_tau), since SER is linear
in p; the least is at most the mean, so

    min over tau of SER(p_tau) <= SER(p)           min over tau of KL(q || p_tau) <= E_tau KL(q || p_tau)

each for some order with the same N steps. But KL(q || .) is convex (Jensen on -log):

    KL(q || E_tau p_tau) <= E_tau KL(q || p_tau)

so the mixture may be closer to q than each of its orders: randomness does not help SER, but may help TER. `tiny` has
all of it by enumeration; `best_orders` and the sampler best-order compute the order where that is tractable.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

import numpy as np
from torch import Tensor

from unmask.core.errors import UnmaskError
from unmask.kernels.machine import Floats
from unmask.languages import Language
from unmask.theory.partitions import Partitions, partitions

MOST_ORDERS = 20_000


@dataclass(frozen=True, eq=False)
class Orders:
    """Every order of N steps, its probability under a schedule, and its errors."""

    orders: Floats  # (N^L, L) steps 0..N-1
    chance: Floats  # (N^L)
    ser: Floats  # (N^L)
    divergence: Floats  # (N^L) KL(q || p_order) in nats
    mixture: float  # KL(q || p)

    @property
    def ser_ratio(self) -> float:
        """SER of the best order over that of a random one; 1 if no error is possible."""
        mean = float(self.chance @ self.ser)
        return float(self.ser.min()) / mean if mean > 1e-12 else 1.0

    @property
    def mixture_ratio(self) -> float:
        """KL of the mixture over that of its best order: below 1 if randomness helps."""
        least = float(self.divergence[self.chance > 0].min())
        return self.mixture / least if least > 1e-12 else 1.0


def every_order(language: Language, length: int, delta: Tensor) -> Orders:
    """All orders of a tiny language."""
    steps = len(delta)
    if steps**length > MOST_ORDERS:
        count = f"{length} positions in {steps} steps have {steps**length:,} orders"
        raise UnmaskError(
            f"{count}; expected at most {MOST_ORDERS:,}. Use theory.best_orders for chains and intervals."
        )
    every = partitions(language, length)
    orders = np.array(list(product(range(steps), repeat=length)))
    distributions = np.array([distribution_of(every, order) for order in orders])
    divergence = np.log(every.q / distributions) @ every.q
    ser = np.maximum(1 - distributions.sum(1), 0.0)
    chance = delta.numpy()[orders].prod(1)
    return Orders(orders, chance, ser, divergence, float(every.q @ np.log(every.q / (chance @ distributions))))


def distribution_of(every: Partitions, order: Floats) -> Floats:
    """(K) p_order(x) = prod_j q(x_j | x of earlier steps) of the possible sequences."""
    distribution = np.ones(len(every.q))
    for j, step in enumerate(order):
        earlier = sum(1 << i for i, other in enumerate(order) if other < step)
        distribution = distribution * every.shown[earlier | 1 << j] / every.shown[earlier]
    return distribution
