"""The best order, and the best choice: the least divergence of N steps (theory.md 7.3, 7.6).

A sampler that chooses positions first and then draws their tokens, each from q(. | x_R), has in each step the cost of
the total correlation of the revealed positions. If its choices are not random, KL(q || p) is the mean of the total cost
over x ~ q.

    fixed order   positions are chosen in advance                    `of_orders`, any chain, O(N L^4)
    choice        positions are chosen given the revealed tokens     `of_choices`, O(N S^3 L^3)

In a first-order chain a gap between revealed tokens a and c is independent of the rest, so the least cost is a sum over
gaps, and each is a shortest path. A step that reveals v_1 < .. < v_k of the g hidden positions between a and c costs

    TC(X_{v_1}, .., X_{v_k} | a, c) = sum_{i>1} I(X_{v_{i-1}}; X_{v_i} | a, c)

and leaves the gaps in between to the n - 1 steps after it, so that with W_n(a, c; 0) = 0, W_0(a, c; g) = inf

    W_n(a, c; g) = min over 0 = v_0 < v_1 < .. < v_{k+1} = g+1 of  sum_{i=1..k+1} E[W_{n-1}(X_{v_{i-1}}, X_{v_i}; ..)]
                                                                 + sum_{i=2..k} I(X_{v_{i-1}}; X_{v_i} | a, c)

Random choices do not reduce this: for every choose-then-sample sampler with at most N model calls per sequence, the
mean over random numbers r of KL(q || p_r) is at least W_N(begin, end; L).
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import torch

from unmask.core.compiled import kernel
from unmask.core.errors import UnmaskError
from unmask.languages import Language
from unmask.languages.kernels.first_order import FirstOrder, least_paid
from unmask.languages.kernels.machine import Floats
from unmask.languages.machine import LONGEST_ORDER
from unmask.theory.chains import first_order

MOST_WORK = 5e9  # products of the best choice: some seconds


def of_orders(language: Language, length: int, steps: int) -> Floats:
    """The least KL(q || p_order) of a fixed order of 1..N steps, (N) in nats per sequence."""
    if (pairs := _pairs(language, length, steps)) is not None:
        return pairs
    chain = first_order(language)
    if chain is None or length > LONGEST_ORDER:
        raise UnmaskError(_unknown(language, length))
    return np.asarray(least_paid(chain.links(length), steps)[1:, 0, -1])


def of_choices(language: Language, length: int, steps: int) -> Floats:
    """(N) the least KL(q || p) of a choose-then-sample sampler, with at most 1..N model calls per sequence."""
    if (pairs := _pairs(language, length, steps)) is not None:
        return pairs
    chain = first_order(language)
    if chain is None or not feasible(chain, length, steps):
        raise UnmaskError(_unknown(language, length))
    return np.asarray(_choices(chain.kernels(length + 1), steps))


@lru_cache(maxsize=64)
def headroom(language: Language, length: int, steps: int) -> Floats | None:
    """`of_choices` if it is known and fast to compute, else None."""
    try:
        return of_choices(language, length, steps)
    except UnmaskError:
        return None


def feasible(chain: FirstOrder, length: int, steps: int) -> bool:
    return steps * length**3 / 6 * chain.size * (chain.size + 1.0) ** 2 <= MOST_WORK


def _pairs(language: Language, length: int, steps: int) -> Floats | None:
    """For intervals: ln 2 for each two positions with the same step, for any other revealed tokens."""
    if language.width is None:
        return None
    hidden = torch.ones((1, length), dtype=torch.bool)
    paid = []
    for n in range(1, steps + 1):
        order = torch.nn.functional.pad(language.best_order(hidden, n)[0], (0, -length % language.width))
        groups = order.view(-1, language.width)
        together = (groups.unsqueeze(1) == groups.unsqueeze(2)) & (groups > 0).unsqueeze(1)
        paid.append(np.log(2) * float((together.sum() - (groups > 0).sum()) / 2))
    return np.array(paid)


def _unknown(language: Language, length: int) -> str:
    problem = f"the least divergence of {language.kind} at length {length} is not known, or takes too long"
    return f"{problem}; expected a first-order chain or intervals. For random orders use theory.optimal."


@kernel
def _choices(kernels, steps):  # type: ignore[no-untyped-def]
    """(N) W_n(begin, end; L) for n = 1..N; kernels (L+2, S+1, S+1) with begin and end as the last symbol.

    The cost of an edge (u, v) is a mean over X_u of the cost of the edge (0, v-u) in the gap to the right of u.
    """
    longest, size = kernels.shape[0] - 2, kernels.shape[1] - 1
    paid = np.full((longest + 1, size + 1, size + 1, steps + 1), np.inf)
    paid[0] = 0.0
    first = np.zeros((size + 1, longest + 1, longest + 2, size + 1, steps + 1))  # c, g, v, a: E[W_n(a, X_v) | a, c]
    spread = np.zeros((size + 1, longest + 1, longest + 2, size + 1))  # c, g, v, a: H(X_v | a, c)
    chance = np.zeros((longest + 2, size))  # q(X_v | a, c)
    reach, edge = np.empty((longest + 2, steps + 1)), np.empty(steps + 1)
    for g in range(1, longest + 1):
        for c in range(size + 1):
            for a in range(size + 1):
                whole = kernels[g + 1, a, c]
                if whole == 0.0:
                    continue
                for v in range(1, g + 1):
                    for s in range(size):
                        p = kernels[v, a, s] * kernels[g + 1 - v, s, c] / whole
                        chance[v, s] = p
                        if p > 0.0:
                            spread[c, g, v, a] -= p * np.log(p)
                            for n in range(steps):
                                first[c, g, v, a, n] += p * paid[v - 1, a, s, n]
                reach[:] = np.inf
                reach[0] = 0.0
                for v in range(1, g + 2):
                    for u in range(v):
                        if u == 0:
                            if v == g + 1:
                                continue  # a step that reveals nothing
                            edge[:] = first[c, g, v, a]
                        else:
                            edge[:] = spread[c, g, v, a] if v <= g else 0.0
                            for s in range(size):
                                p = chance[u, s]
                                if p > 0.0:
                                    if v <= g:
                                        lost = spread[c, g - u, v - u, s]
                                        for n in range(steps):
                                            edge[n] += p * (first[c, g - u, v - u, s, n] - lost)
                                    else:
                                        for n in range(steps):
                                            edge[n] += p * paid[g - u, s, c, n]
                        for n in range(steps):
                            reach[v, n + 1] = min(reach[v, n + 1], reach[u, n + 1] + edge[n])
                for n in range(1, steps + 1):
                    paid[g, a, c, n] = max(min(reach[g + 1, n], paid[g, a, c, n - 1]), 0.0)
    return paid[longest, size, size, 1:]
