"""First-order chains, the machines with visible states, and the orders of least divergence (theory.md 7.3, 7.6).

Add the begin and the end as two positions that are always revealed. Let E(i, j) = H(X_j | X_i), which is H(X_j) for the
begin i, and 0 for the end j. A gap between revealed positions l and r is independent of the others. A step that reveals
its positions j_1 < .. < j_k costs

    sum_i H(X_{j_i} | X_l, X_r) - H(X_{j_1} .. X_{j_k} | X_l, X_r)
        = sum_i c(j_i) + E(l, r) - sum_{i=0..k} E(j_i, j_{i+1}),     c(j) = E(l, j) + E(j, r) - E(l, r)

with j_0 = l and j_{k+1} = r, and leaves k + 1 gaps for the following steps. So the least cost of n steps is the length
of a shortest path from l to r. Its edges (i, j) weigh paid_{n-1}(i, j) - E(i, j), its positions c(j). All gaps take
O(N L^4 / 24).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from unmask.core.arguments import fits
from unmask.core.compiled import kernel
from unmask.languages.kernels.machine import Floats, Ints, Machine

BETTER = 1e-12  # nats: costs that differ by less count as equal, and the first is taken


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

    def links(self, length: int) -> Floats:
        """(L+2, L+2): E(i, j) = H(X_j | X_i) in nats for i < j; 0 is the begin and L+1 the end."""
        marginals = self.marginals(length)
        pairs = marginals @ self.uncertainty(length).T
        out = np.zeros((length + 2, length + 2))
        out[0, 1:-1] = entropy(marginals)
        for i in range(length):
            out[i + 1, i + 2 : -1] = pairs[i, 1 : length - i]
        return out


def first_order(machine: Machine | None) -> FirstOrder | None:
    """The chain that equals a machine whose states are visible and which may end anywhere; else None."""
    if machine is None:
        return None
    symbols = machine.symbols
    if symbols is None or len(np.unique(symbols)) < len(symbols) or not machine.open_ended:
        return None
    transition = np.zeros((machine.states, machine.states))
    transition[machine.edge_source, machine.edge_target] = machine.edge_weight
    return FirstOrder(machine.initial, transition, symbols)


def entropy(distribution: Floats) -> Floats:
    """Entropy along the last axis, in nats."""
    return np.asarray(-(distribution * np.log(np.where(distribution > 0, distribution, 1.0))).sum(-1))


def best_order(links: Floats, paid: Floats, given: NDArray[np.bool_]) -> Ints:
    """(L): the steps 1..N of least divergence, 0 for given positions, Bool (L); paid: costs of at most N - 1 steps."""
    order = np.zeros(len(links), np.int64)
    _assign(links, paid, np.flatnonzero(np.concatenate([[True], given, [True]])), order)
    return order[1:-1]


@kernel
def least_paid(links, steps):  # type: ignore[no-untyped-def]
    """(N+1, L+2, L+2): the least cost in nats of n steps for the gap between positions l < r; inf if n is too few."""
    size = links.shape[0]
    paid = np.full((steps + 1, size, size), np.inf)
    reach, came = np.empty(size), np.empty(size, np.int64)
    for l in range(size - 1):
        for n in range(steps + 1):
            paid[n, l, l + 1] = 0.0
    for n in range(1, steps + 1):
        for l in range(size):
            for r in range(l + 2, size):
                paid[n, l, r] = _shortest(links, paid[n - 1], l, r, reach, came)
    return paid


@kernel
def _shortest(links, paid, l, r, reach, came):  # type: ignore[no-untyped-def]
    """The least cost of a gap over this and all later steps; came (L+2): the previous position on the path to each."""
    reach[l] = 0.0
    for j in range(l + 1, r + 1):
        least = np.inf
        for i in range(l, j):
            here = reach[i] + paid[i, j] - links[i, j]
            if here < least - BETTER:
                least, came[j] = here, i
        reach[j] = least + (links[l, r] if j == r else links[l, j] + links[j, r] - links[l, r])
    return max(reach[r], 0.0)


@kernel
def _assign(links, paid, revealed, order):  # type: ignore[no-untyped-def]
    """Set order (L+2): the step of each position on the shortest path of its gap."""
    size, steps = links.shape[0], paid.shape[0]
    reach, came = np.empty(size), np.empty(size, np.int64)
    left = [(0, 0, 0)]
    left.pop()
    for k in range(len(revealed) - 1):
        left.append((steps, revealed[k], revealed[k + 1]))
    while len(left) > 0:
        n, l, r = left.pop()
        if r == l + 1:
            continue
        _shortest(links, paid[n - 1], l, r, reach, came)
        after = r
        while after > l:
            before = came[after]
            if before > l:
                order[before] = steps - n + 1
            left.append((n - 1, before, after))
            after = before
