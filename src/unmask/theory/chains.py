"""First-order chains: the information curve in closed form, and what any planned order pays (theory.md 7.3).

With E_d(i) = H(X_{i+d} | X_i), a set R = {r_1 < .. < r_k} of positions has
    H(X_R) = H(X_{r_1}) + sum over neighbours i, i+d of R of E_d(i),
which only asks which position comes first and how far apart the neighbours are. Its mean over |R| = k, Phi_k, needs
L + L probabilities; revealing one more position adds what that position is worth, so that

    f(k) = Phi_{k+1} - Phi_k,   h(u) = Phi'(u),   Phi(u) = sum_j u (1-u)^(j-1) H(X_j) + sum_{i,d} u^2 (1-u)^(d-1) E_d(i)

and the area theorem int h = Phi(1) - Phi(0) = H(q) is plain to see. One position between its neighbours in R has
    H(X_j | X_{j-a}, X_{j+b}) = E_a(j-a) + E_b(j) - E_{a+b}(j-a).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numba import njit
from torch import Tensor

from unmask.core.errors import UnmaskError
from unmask.kernels.machine import Floats, Ints
from unmask.languages import Language
from unmask.languages.base import as_language
from unmask.theory.curves import InformationCurve, by_size

METHOD = "closed form of a first-order chain"


@dataclass(frozen=True, eq=False)
class FirstOrder:
    """A homogeneous chain whose states are seen: q(x) = initial(x_1) prod_t transition(x_t, x_{t+1})."""

    initial: Floats  # (S)
    transition: Floats  # (S, S)
    symbols: Ints  # (S): the token of each state

    def __repr__(self) -> str:
        return f"<FirstOrder of {self.size} states>"

    @property
    def size(self) -> int:
        return len(self.initial)

    def marginals(self, length: int) -> Floats:
        """(L, S): the law of each position."""
        rows = [self.initial]
        while len(rows) < length:
            rows.append(rows[-1] @ self.transition)
        return np.stack(rows)

    def kernels(self, longest: int) -> Floats:
        """(longest+1, S+1, S+1): P^u between states; from the begin (row S), u places before, mu_u; to the end, 1.

        With begin and end as two more tokens, always revealed, an open gap is a gap like any other.
        """
        size = self.size
        powers = np.ones((longest + 1, size + 1, size + 1))
        powers[0] = np.eye(size + 1)
        for u in range(1, longest + 1):
            powers[u, :size, :size] = powers[u - 1, :size, :size] @ self.transition
            powers[u, size, :size] = self.initial if u == 1 else powers[u - 1, size, :size] @ self.transition
        return powers

    def states(self, tokens: Tensor) -> Ints:
        """(B, L) the state of each token; S for a token that no state shows."""
        state = np.full(max(int(self.symbols.max()), int(tokens.max())) + 1, self.size)
        state[self.symbols] = np.arange(self.size)
        return np.asarray(state[tokens.numpy()])


def first_order(language: Language) -> FirstOrder | None:
    """The chain that a language is: any machine whose states show themselves and that may end anywhere, else None."""
    machine = as_language(language).machine
    if machine is None:
        return None
    symbols = machine.symbols
    if symbols is None or len(np.unique(symbols)) < len(symbols) or not machine.open_ended:
        return None
    transition = np.zeros((machine.states, machine.states))
    transition[machine.edge_source, machine.edge_target] = machine.edge_weight
    return FirstOrder(machine.initial, transition, symbols)


def information_curve(chain: FirstOrder, length: int) -> InformationCurve:
    """f and h, exactly: O(L S^3 + L^2) in all, and nothing more for any schedule."""
    marginals, uncertainty = chain.marginals(length), _uncertainty(chain, length)
    starts = np.cumsum(marginals, 0)
    patterns = np.zeros((3, length + 1))
    patterns[1, :length] = _entropy(marginals)  # j is the first: revealed, and the j-1 before it not
    for d in range(1, length):
        patterns[2, d - 1] = starts[length - d - 1] @ uncertainty[d]
    return InformationCurve(np.diff(by_size(patterns, length)), METHOD)


def order_divergence(chain: FirstOrder, order: Tensor) -> Floats:
    """(B): KL(q || p_order) in nats of each order (B, L), whose rounds count from 1."""
    if int(order.min()) < 1:
        raise UnmaskError("this order leaves out positions that are given; KL(q || p_order) is for a blank canvas")
    length = order.shape[1]
    marginals = chain.marginals(length)
    pairs = marginals @ _uncertainty(chain, length).T
    paid = np.empty(len(order))
    _pay(order.numpy(), _entropy(marginals), pairs, paid)
    return paid - (_entropy(chain.initial) + float(pairs[: length - 1, min(1, length - 1)].sum()))


def _uncertainty(chain: FirstOrder, length: int) -> Floats:
    """(L, S): H(X_{i+d} | X_i = a) for d = 0..L-1, so that E_d(i) = mu_i . this."""
    rows, power = np.zeros((length, chain.size)), np.eye(chain.size)
    for d in range(1, length):
        power = power @ chain.transition
        rows[d] = _entropy(power)
    return rows


def _entropy(law: Floats) -> Floats:
    """Of the last axis, in nats."""
    return -(law * np.log(np.where(law > 0, law, 1.0))).sum(-1)


@njit(cache=True, nogil=True)
def _pay(orders, alone, pairs, out):  # type: ignore[no-untyped-def]
    """out (B) = sum_j H(X_j | X_l, X_r), l and r the nearest positions of earlier rounds; pairs (L, L) is E_d(i)."""
    length = orders.shape[1]
    left, right, open_ones = np.empty(length, np.int64), np.empty(length, np.int64), np.empty(length, np.int64)
    for b in range(orders.shape[0]):
        order, count = orders[b], 0
        for j in range(length):  # of two positions, the one of the earlier round ends the reach of the other
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
