"""First-order chains: the output distribution, by recursion on gaps (theory.md 7.4, 7.5).

Between two revealed tokens (a, c) with g hidden positions between them, the future of those positions depends only on a
and c. Let phi be any weight of the L+1 edges of a sequence, begin and end included. Its mean over the output of
ancestral sampling in a gap follows from that of smaller gaps one step later:

    S_{N+1}(a,c;0) = phi(a,c),  S_{N+1}(a,c;g) = 0,      A_u(s) = P^u(a,s) P^{g+1-u}(s,c) / P^{g+1}(a,c)
    T(a,c;g)   = (1-rho)^g S_{i+1}(a,c;g)                                    (this step reveals none of the gap)
    F_v(t)     = rho A_v(t) [ T(a,t;v-1) + sum_{u<v} sum_s F_u(s) T(s,t;v-u-1) ]
    S_i(a,c;g) = T(a,c;g) + sum_v sum_s F_v(s) T(s,c;g-v)

F_v(t): v is the last so far of the gap's positions that this step reveals, as t. phi = 1 where q > 0 gives 1 - SER; its
derivative towards phi = P^s, carried along as a dual number, gives E_p[log q(x); valid], and that towards A^(1+s) gives
E_p[log p(x | order); valid]. One pass covers every length up to L: S_1(begin, end; L).
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from unmask.core import progress
from unmask.core.chance import Randomness, check_seed
from unmask.core.compiled import kernel
from unmask.core.errors import UnmaskError
from unmask.core.estimates import Estimate, bounded_mean
from unmask.core.threads import tracked
from unmask.languages.kernels.machine import Floats
from unmask.samplers.rules.fixed_orders import Ancestral
from unmask.samplers.schedules import Schedule
from unmask.theory.chains import FirstOrder

BLOCK = 8  # orders per thread


def valid_mass(chain: FirstOrder, longest: int, delta: Tensor) -> tuple[Floats, Floats]:
    """(1 - SER, E_p[log q(x); valid]) of ancestral sampling, each (longest+1): for every length at once."""
    return _masses(chain, longest, delta, orders=False)


def order_loss(chain: FirstOrder, longest: int, delta: Tensor) -> tuple[Floats, Floats]:
    """(1 - SER, E_p[log p(x | order) - log q(x) | valid]) of ancestral sampling, each (longest+1).

    Without impossible sequences the second is E KL(p_order || q), which the gap of an ideal denoiser estimates."""
    mass, nats = _masses(chain, longest, delta, orders=True)
    return mass, nats / mass


def _masses(chain: FirstOrder, longest: int, delta: Tensor, orders: bool) -> tuple[Floats, Floats]:
    """orders: log p(x | order) - log q(x) in place of log q(x)."""
    kernels = chain.kernels(longest + 1)
    mass = np.zeros_like(kernels[:-1])
    log_mass = np.zeros_like(mass)
    possible = kernels[1] > 0
    mass[0] = possible
    log_mass[0] = np.log(np.where(possible, kernels[1], 1.0)) * (-1 if orders else 1)
    with progress.track("gaps", len(delta)) as advance:
        for rate in reversed(Schedule(delta).rho.tolist()):
            if rate > 0:
                _step(kernels, rate, mass, log_mass, orders)
            advance(1)
    return mass[:, -1, -1], log_mass[:, -1, -1]


def valid_given_order(chain: FirstOrder, order: Tensor) -> Tensor:
    """P(valid | order), float64 (B), of any fixed orders (B, L) with steps from 1."""
    if int(order.min()) < 1:
        raise UnmaskError("this order has given positions; expected a step from 1 for every position")
    kernels = chain.kernels(order.shape[1] + 1)
    out = torch.empty(len(order), dtype=torch.float64)
    by_step = torch.argsort(order, dim=1, descending=True, stable=True)

    def some(part: slice) -> None:
        _orders(kernels, order[part].numpy(), by_step[part].numpy(), out[part].numpy())

    tracked("orders", some, len(order), BLOCK)
    return out.clamp(max=1.0)


def ser_by_orders(chain: FirstOrder, length: int, delta: Tensor, *, rows: int = 200, seed: int = 0) -> Estimate:
    """SER of ancestral sampling with only the orders drawn: the mean of 1 - P(valid | order), at any length."""
    rng = Randomness(check_seed(seed), torch.arange(rows))
    order = Ancestral().order(delta, torch.ones((rows, length), dtype=torch.bool), rng)
    return bounded_mean(1 - valid_given_order(chain, order), method="rao-blackwell")


@kernel
def _step(kernels, rate, mass, log_mass, orders):  # type: ignore[no-untyped-def]
    """One step earlier, in place: mass and log_mass (L+1, S+1, S+1) hold S and its derivative by gap and ends.

    The sum over u and s is a product of matrices, for all ends (a, c) at once.
    """
    longest, size = mass.shape[0] - 1, mass.shape[1] - 1
    ends = size + 1
    stay, slope = np.empty_like(mass), np.empty_like(mass)
    back = np.empty((longest + 1, size, 2 * size))  # (gap, s, t) of both from the longest gap down
    alone = np.empty((longest + 1, size, size))

    for g in range(longest + 1):
        stay[g] = (1 - rate) ** g * mass[g]
        slope[g] = (1 - rate) ** g * log_mass[g]
        alone[longest - g] = stay[g, :size, :size]
        back[longest - g, :, :size] = stay[g, :size, :size]
        back[longest - g, :, size:] = slope[g, :size, :size]

    reached = np.zeros((longest + 1, size, ends, ends))  # F_v(t), and its derivative
    lift = np.zeros((longest + 1, size, ends, ends))
    for g in range(1, longest + 1):
        total, tilt = stay[g].copy(), slope[g].copy()

        for v in range(1, g + 1):
            terms, first = (v - 1) * size, longest - v + 2
            before = reached[1:v].reshape(terms, ends * ends)
            both = np.dot(back[first:].reshape(terms, 2 * size).T, before)
            more = np.dot(alone[first:].reshape(terms, size).T, lift[1:v].reshape(terms, ends * ends))
            for t in range(size):
                for a in range(ends):
                    for c in range(ends):
                        whole = kernels[g + 1, a, c]
                        if whole == 0.0:
                            continue
                        at = rate * kernels[v, a, t] * kernels[g + 1 - v, t, c] / whole
                        here = at * (stay[v - 1, a, t] + both[t, a * ends + c])
                        there = at * (slope[v - 1, a, t] + both[size + t, a * ends + c] + more[t, a * ends + c])
                        if orders and at > 0.0:
                            there += here * np.log(at / rate)
                        reached[v, t, a, c], lift[v, t, a, c] = here, there
                        total[a, c] += here * stay[g - v, t, c]
                        tilt[a, c] += here * slope[g - v, t, c] + there * stay[g - v, t, c]

        possible = kernels[g + 1] > 0.0
        mass[g], log_mass[g] = np.where(possible, total, mass[g]), np.where(possible, tilt, log_mass[g])


@kernel
def _orders(kernels, orders, by_step, out):  # type: ignore[no-untyped-def]
    """out (B): the gaps of each order are closed from the last step to the first; by_step (B, L) sorts positions so.

    edge(r) (S+1, S+1) is the mean over the positions between r and the nearest one before it that is still in the list.
    """
    length, size = orders.shape[1], kernels.shape[1] - 1
    edge = np.empty((length + 2, size + 1, size + 1))
    before, after = np.empty(length + 2, np.int64), np.empty(length + 2, np.int64)
    here, there = np.empty(size), np.empty(size)

    possible = (kernels[1] > 0.0).astype(np.float64)
    for b in range(orders.shape[0]):
        edge[:] = possible
        before[:], after[:] = np.arange(-1, length + 1), np.arange(1, length + 3)

        i = 0
        while i < length:
            first = by_step[b, i] + 1
            last = first
            i += 1
            while i < length and by_step[b, i] + 1 == after[last] and orders[b, by_step[b, i]] == orders[b, first - 1]:
                last = by_step[b, i] + 1
                i += 1

            l, r = before[first], after[last]
            closed = np.zeros((size + 1, size + 1))
            for a in range(size if l == 0 else 0, size + 1 if l == 0 else size):
                for c in range(size if r == length + 1 else 0, size + 1 if r == length + 1 else size):
                    closed[a, c] = _close(kernels, edge, after, first, l, r, a, c, here, there)

            edge[r] = closed
            before[r], after[l] = l, r

        out[b] = edge[length + 1, size, size]


@kernel
def _close(kernels, edge, after, first, l, r, a, c, here, there):  # type: ignore[no-untyped-def]
    """The mean over the tokens that one step writes at first..r, between tokens a at l and c at r."""
    size, whole = here.shape[0], kernels[r - l, a, c]
    if whole == 0.0:
        return 0.0

    v = first
    for t in range(size):
        here[t] = edge[v, a, t]

    while True:
        for t in range(size):
            here[t] *= kernels[v - l, a, t] * kernels[r - v, t, c] / whole
        v = after[v]
        if v == r:
            break

        there[:] = 0.0
        for s in range(size):
            if here[s] > 0.0:
                for t in range(size):
                    there[t] += here[s] * edge[v, s, t]
        here, there = there, here

    total = 0.0
    for s in range(size):
        total += here[s] * edge[r, s, c]
    return total
