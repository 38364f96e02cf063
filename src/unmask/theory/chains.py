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

from dataclasses import dataclass

import numpy as np
from torch import Tensor

from unmask.core.compiled import kernel
from unmask.core.errors import UnmaskError
from unmask.core.memory import fits
from unmask.languages import LanguageLike, load
from unmask.languages.kernels.machine import Floats, Ints
from unmask.theory.curves import InformationCurve, by_size

METHOD = "closed form of a first-order chain"


@dataclass(frozen=True, eq=False)
class FirstOrder:
    """A homogeneous chain with visible states: q(x) = initial(x_1) prod_t transition(x_t, x_{t+1})."""

    initial: Floats  # (S)
    transition: Floats  # (S, S)
    symbols: Ints  # (S): the token of each state

    def __repr__(self) -> str:
        return f"<FirstOrder of {self.size} states>"

    @property
    def size(self) -> int:
        return len(self.initial)

    def marginals(self, length: int) -> Floats:
        """(L, S): the distribution of each position."""
        rows = [self.initial]
        while len(rows) < length:
            rows.append(rows[-1] @ self.transition)
        return np.stack(rows)

    def kernels(self, longest: int) -> Floats:
        """(longest+1, S+1, S+1): P^u between states; mu_u from the begin (row S), u positions before; 1 to the end.

        With begin and end as two more revealed tokens, an open gap is treated like the others.
        """
        size = self.size
        fits(longest + 1, f"transitions of {size} states", 8 * (size + 1) ** 2, "the length")
        powers = np.ones((longest + 1, size + 1, size + 1))
        powers[0] = np.eye(size + 1)
        for u in range(1, longest + 1):
            powers[u, :size, :size] = powers[u - 1, :size, :size] @ self.transition
            powers[u, size, :size] = self.initial if u == 1 else powers[u - 1, size, :size] @ self.transition
        return powers

    def states(self, tokens: Tensor) -> Ints:
        """(B, L) the state of each token; S for a token without a state."""
        state = np.full(max(int(np.max(self.symbols)), int(tokens.max())) + 1, self.size)
        state[self.symbols] = np.arange(self.size)
        return np.asarray(state[tokens.numpy()])

    def uncertainty(self, length: int) -> Floats:
        """(L, S): h(d, a) = H(X_{i+d} | X_i = a) for d = 0..L-1, so that E(i, i+d) = mu_i . h(d)."""
        rows, power = np.zeros((length, self.size)), np.eye(self.size)
        for d in range(1, length):
            power = power @ self.transition
            rows[d] = entropy(power)
        return rows


def first_order(language: LanguageLike) -> FirstOrder | None:
    """The language as a chain, if its machine has visible states and may end anywhere; else None."""
    machine = load(language).machine
    symbols = None if machine is None else machine.symbols
    if machine is None or symbols is None or len(np.unique(symbols)) < len(symbols) or not machine.open_ended:
        return None
    transition = np.zeros((machine.states, machine.states))
    transition[machine.edge_source, machine.edge_target] = machine.edge_weight
    return FirstOrder(machine.initial, transition, symbols)


def entropy(distribution: Floats) -> Floats:
    """Entropy along the last axis, in nats."""
    return np.asarray(-(distribution * np.log(np.where(distribution > 0, distribution, 1.0))).sum(-1))


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
