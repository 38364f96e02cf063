"""The best order, and the best choice: the least that N rounds can pay (theory.md 7.3, 7.6).

A sampler that chooses places first and draws their tokens after, each from q(. | x_R), pays in each round the total
correlation of what it reveals; KL(q || p) of such a sampler without luck in its choices is the mean of that over x ~ q.

    fixed order   places are chosen beforehand                       `of_orders`, any chain, O(N L^4)
    choice        places are chosen in the light of what stands      `of_choices`, O(N S^3 L^3)

In a first-order chain a gap between revealed tokens a and c is on its own, so that the least is a sum over gaps, and
each a shortest path. A round that reveals v_1 < .. < v_k of the g hidden places between a and c pays

    TC(X_{v_1}, .., X_{v_k} | a, c) = sum_{i>1} I(X_{v_{i-1}}; X_{v_i} | a, c)

and leaves the gaps in between to the n - 1 rounds after it, so that with W_n(a, c; 0) = 0, W_0(a, c; g) = inf

    W_n(a, c; g) = min over 0 = v_0 < v_1 < .. < v_{k+1} = g+1 of  sum_{i=1..k+1} E[W_{n-1}(X_{v_{i-1}}, X_{v_i}; ..)]
                                                                 + sum_{i=2..k} I(X_{v_{i-1}}; X_{v_i} | a, c)

Whoever chooses by luck as well has, given the luck, no less, and so no less on average: the mean over luck of
KL(q || p_luck) of every choose-then-sample sampler of at most N evaluations a row is at least W_N(begin, end; L).
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import torch

from unmask.core.compiled import kernel
from unmask.core.errors import UnmaskError
from unmask.kernels.first_order import FirstOrder, least_paid
from unmask.kernels.machine import Floats
from unmask.languages import Language
from unmask.languages.machine import LONGEST_ORDER
from unmask.theory.chains import first_order

MOST_WORK = 5e9  # products of the best choice: some seconds


def of_orders(language: Language, length: int, rounds: int) -> Floats:
    """(N) the least KL(q || p_order) of a fixed order of 1..N rounds, in nats a sequence."""
    if (pairs := _pairs(language, length, rounds)) is not None:
        return pairs
    chain = first_order(language)
    if chain is None or length > LONGEST_ORDER:
        raise UnmaskError(_unknown(language, length))
    return np.asarray(least_paid(chain.links(length), rounds)[1:, 0, -1])


def of_choices(language: Language, length: int, rounds: int) -> Floats:
    """(N) the least KL(q || p) of a sampler that chooses and then draws, in at most 1..N evaluations of a row."""
    if (pairs := _pairs(language, length, rounds)) is not None:
        return pairs
    chain = first_order(language)
    if chain is None or not feasible(chain, length, rounds):
        raise UnmaskError(_unknown(language, length))
    return np.asarray(_choices(chain.kernels(length + 1), rounds))


@lru_cache(maxsize=64)
def headroom(language: Language, length: int, rounds: int) -> Floats | None:
    """`of_choices` where it is known and quickly found, else None."""
    try:
        return of_choices(language, length, rounds)
    except UnmaskError:
        return None


def feasible(chain: FirstOrder, length: int, rounds: int) -> bool:
    return rounds * length**3 / 6 * chain.size * (chain.size + 1.0) ** 2 <= MOST_WORK


def _pairs(language: Language, length: int, rounds: int) -> Floats | None:
    """Of intervals: ln 2 for each two places that share a round, whatever else is revealed."""
    if language.width is None:
        return None
    hidden = torch.ones((1, length), dtype=torch.bool)
    paid = []
    for n in range(1, rounds + 1):
        order = torch.nn.functional.pad(language.best_order(hidden, n)[0], (0, -length % language.width))
        groups = order.view(-1, language.width)
        together = (groups.unsqueeze(1) == groups.unsqueeze(2)) & (groups > 0).unsqueeze(1)
        paid.append(np.log(2) * float((together.sum() - (groups > 0).sum()) / 2))
    return np.array(paid)


def _unknown(language: Language, length: int) -> str:
    what = f"the least divergence of {language.kind} at length {length} is not known, or takes too long"
    return f"{what}; it is found for first-order chains and for intervals. `optimal` has the least of random orders"


@kernel
def _choices(kernels, rounds):  # type: ignore[no-untyped-def]
    """(N) W_n(begin, end; L) for n = 1..N; kernels (L+2, S+1, S+1) with begin and end as the last symbol.

    What an edge (u, v) pays is a mean over X_u of what the edge (0, v-u) pays in the gap that is left of u.
    """
    longest, size = kernels.shape[0] - 2, kernels.shape[1] - 1
    paid = np.full((longest + 1, size + 1, size + 1, rounds + 1), np.inf)
    paid[0] = 0.0
    first = np.zeros((size + 1, longest + 1, longest + 2, size + 1, rounds + 1))  # c, g, v, a: E[W_n(a, X_v) | a, c]
    spread = np.zeros((size + 1, longest + 1, longest + 2, size + 1))  # c, g, v, a: H(X_v | a, c)
    share = np.zeros((longest + 2, size))  # q(X_v | a, c)
    reach, edge = np.empty((longest + 2, rounds + 1)), np.empty(rounds + 1)
    for g in range(1, longest + 1):
        for c in range(size + 1):
            for a in range(size + 1):
                whole = kernels[g + 1, a, c]
                if whole == 0.0:
                    continue
                for v in range(1, g + 1):
                    for s in range(size):
                        p = kernels[v, a, s] * kernels[g + 1 - v, s, c] / whole
                        share[v, s] = p
                        if p > 0.0:
                            spread[c, g, v, a] -= p * np.log(p)
                            for n in range(rounds):
                                first[c, g, v, a, n] += p * paid[v - 1, a, s, n]
                reach[:] = np.inf
                reach[0] = 0.0
                for v in range(1, g + 2):
                    for u in range(v):
                        if u == 0:
                            if v == g + 1:
                                continue  # a round that reveals nothing
                            edge[:] = first[c, g, v, a]
                        else:
                            edge[:] = spread[c, g, v, a] if v <= g else 0.0
                            for s in range(size):
                                p = share[u, s]
                                if p > 0.0:
                                    if v <= g:
                                        told = spread[c, g - u, v - u, s]
                                        for n in range(rounds):
                                            edge[n] += p * (first[c, g - u, v - u, s, n] - told)
                                    else:
                                        for n in range(rounds):
                                            edge[n] += p * paid[g - u, s, c, n]
                        for n in range(rounds):
                            reach[v, n + 1] = min(reach[v, n + 1], reach[u, n + 1] + edge[n])
                for n in range(1, rounds + 1):
                    paid[g, a, c, n] = max(min(reach[g + 1, n], paid[g, a, c, n - 1]), 0.0)
    return paid[longest, size, size, 1:]
