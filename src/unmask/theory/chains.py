"""First-order chains: the information curve in closed form, and the cost of any fixed order (theory.md 7.3).

With E_d(i) = H(X_{i+d} | X_i), a set R = {r_1 < .. < r_k} of positions has
    H(X_R) = H(X_{r_1}) + sum over neighbours i, i+d of R of E_d(i),
which depends only on the first position and on the distances of neighbours. Its mean over |R| = k, Phi_k, needs
L + L probabilities. Revealing one more position adds the entropy of that position, so

    f(k) = Phi_{k+1} - Phi_k,   h(u) = Phi'(u),   Phi(u) = sum_j u (1-u)^(j-1) H(X_j) + sum_{i,d} u^2 (1-u)^(d-1) E_d(i)

and the area theorem int h = Phi(1) - Phi(0) = H(q) follows. For one position between its neighbours in R,
    H(X_j | X_{j-a}, X_{j+b}) = E_a(j-a) + E_b(j) - E_{a+b}(j-a).
"""

from __future__ import annotations

import numpy as np
from torch import Tensor

from unmask.core.compiled import kernel
from unmask.core.errors import UnmaskError
from unmask.languages import LanguageLike, load
from unmask.languages.kernels import first_order as kernels
from unmask.languages.kernels.first_order import FirstOrder, entropy
from unmask.languages.kernels.machine import Floats
from unmask.theory.curves import InformationCurve, by_size

METHOD = "closed form of a first-order chain"


def first_order(language: LanguageLike) -> FirstOrder | None:
    """The language as a chain, if its machine has visible states and may end anywhere; else None."""
    language = load(language)
    return kernels.first_order(language.machine)


def information_curve(chain: FirstOrder, length: int) -> InformationCurve:
    """f and h, exactly: O(L S^3 + L^2) in all, for every schedule."""
    marginals, uncertainty = chain.marginals(length), chain.uncertainty(length)
    starts = np.cumsum(marginals, 0)
    patterns = np.zeros((3, length + 1))
    patterns[1, :length] = entropy(marginals)  # j is the first revealed: the j-1 before it are hidden
    for d in range(1, length):
        patterns[2, d - 1] = starts[length - d - 1] @ uncertainty[d]
    return InformationCurve(np.diff(by_size(patterns, length)), METHOD)


def order_divergence(chain: FirstOrder, order: Tensor) -> Floats:
    """(B): KL(q || p_order) in nats of each order (B, L), with steps from 1."""
    if int(order.min()) < 1:
        raise UnmaskError("this order has given positions; expected a step from 1 for every position")
    length = order.shape[1]
    marginals = chain.marginals(length)
    pairs = marginals @ chain.uncertainty(length).T
    paid = np.empty(len(order))
    _pay(order.numpy(), entropy(marginals), pairs, paid)
    return paid - (entropy(chain.initial) + float(pairs[: length - 1, min(1, length - 1)].sum()))


@kernel
def _pay(orders, alone, pairs, out):  # type: ignore[no-untyped-def]
    """out (B) = sum_j H(X_j | X_l, X_r), l and r the nearest positions of earlier steps; pairs (L, L) is E_d(i)."""
    length = orders.shape[1]
    left, right, open_ones = np.empty(length, np.int64), np.empty(length, np.int64), np.empty(length, np.int64)
    for b in range(orders.shape[0]):
        order, count = orders[b], 0
        for j in range(length):  # of two positions, the one of the earlier step ends the reach of the other
            while count > 0 and order[open_ones[count - 1]] > order[j]:
                count -= 1
                right[open_ones[count]] = j
            nearest = open_ones[count - 1] if count > 0 else -1
            left[j] = left[nearest] if count > 0 and order[nearest] == order[j] else nearest
            open_ones[count] = j
            count += 1
        for i in range(count):
            right[open_ones[i]] = length
        out[b] = 0.0
        for j in range(length):
            i, k = left[j], right[j]
            out[b] += alone[j] if i < 0 else pairs[i, j - i]
            if k < length:
                out[b] += pairs[j, k - j] - (alone[k] if i < 0 else pairs[i, k - i])
