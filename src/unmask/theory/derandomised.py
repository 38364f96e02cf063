"""A fixed order is as good as a random one, and a mixture better than its parts: which of the two depends on what is
asked (theory.md 2, 7.1).

Let orders tau be drawn by any luck that does not look at the tokens, and p = E_tau p_tau. SER(p) = E_tau SER(p_tau),
since SER is linear in p; a mean is no less than the least, and so

    min over tau of SER(p_tau) <= SER(p)           min over tau of KL(q || p_tau) <= E_tau KL(q || p_tau)

for each of the two some order of the same N rounds. But KL(q || .) is convex (Jensen on -log):

    KL(q || E_tau p_tau) <= E_tau KL(q || p_tau)

so that the mixture itself may well be closer to q than every one of its orders: for SER chance is of no use, for TER it
may be. `tiny` has all of it by enumeration; `best_orders` and the sampler best-order find the order where it is
tractable.
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
    """Every order of N rounds, its chance under a schedule, and what it comes to."""

    orders: Floats  # (N^L, L) rounds 0..N-1
    chance: Floats  # (N^L)
    ser: Floats  # (N^L)
    divergence: Floats  # (N^L) KL(q || p_order) in nats
    mixture: float  # KL(q || p)

    @property
    def ser_ratio(self) -> float:
        """SER of the best order over that of a random one; 1 where nothing can go wrong."""
        mean = float(self.chance @ self.ser)
        return float(self.ser.min()) / mean if mean > 1e-12 else 1.0

    @property
    def mixture_ratio(self) -> float:
        """KL of the mixture over that of its best order: below 1 where chance helps."""
        least = float(self.divergence[self.chance > 0].min())
        return self.mixture / least if least > 1e-12 else 1.0


def every_order(language: Language, length: int, delta: Tensor) -> Orders:
    """All orders of a tiny language, one by one."""
    rounds = len(delta)
    if rounds**length > MOST_ORDERS:
        what = f"{rounds} rounds of {length} positions have {rounds**length:,} orders, more than {MOST_ORDERS:,}"
        raise UnmaskError(f"{what}; theory.best_orders has the best of first-order chains and intervals")
    every = partitions(language, length)
    orders = np.array(list(product(range(rounds), repeat=length)))
    laws = np.array([law_of(every, order) for order in orders])
    divergence = np.log(every.q / laws) @ every.q
    ser = np.maximum(1 - laws.sum(1), 0.0)
    chance = delta.numpy()[orders].prod(1)
    return Orders(orders, chance, ser, divergence, float(every.q @ np.log(every.q / (chance @ laws))))


def law_of(every: Partitions, order: Floats) -> Floats:
    """(K) p_order(x) = prod_j q(x_j | x of earlier rounds) of the possible sequences."""
    law = np.ones(len(every.q))
    for j, mine in enumerate(order):
        earlier = sum(1 << i for i, other in enumerate(order) if other < mine)
        law = law * every.shown[earlier | 1 << j] / every.shown[earlier]
    return law
