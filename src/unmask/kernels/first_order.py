"""First-order chains, the machines whose states are seen, and the orders that lose least on them (theory.md 7.3, 7.6).

With begin and end as two more places, always revealed, and E(i, j) = H(X_j | X_i), H(X_j) at the begin, 0 at the end,
a gap between revealed places l and r is on its own. A round that reveals j_1 < .. < j_k of it pays

    sum_i H(X_{j_i} | X_l, X_r) - H(X_{j_1} .. X_{j_k} | X_l, X_r)
        = sum_i c(j_i) + E(l, r) - sum_{i=0..k} E(j_i, j_{i+1}),     c(j) = E(l, j) + E(j, r) - E(l, r)

with j_0 = l and j_{k+1} = r, and leaves k + 1 gaps for the rounds that follow. So the least that n rounds can pay is
the length of a shortest path from l to r whose edges (i, j) weigh paid_{n-1}(i, j) - E(i, j) and whose places weigh
c(j): O(N L^4 / 24) for all gaps.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from unmask.core.compiled import kernel
from unmask.kernels.machine import Floats, Ints, Machine

BETTER = 1e-12  # nats: what is paid less than this is the same, and the first is taken


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

    def uncertainty(self, length: int) -> Floats:
        """(L, S): H(X_{i+d} | X_i = a) for d = 0..L-1, so that E_d(i) = mu_i . this."""
        rows, power = np.zeros((length, self.size)), np.eye(self.size)
        for d in range(1, length):
            power = power @ self.transition
            rows[d] = entropy(power)
        return rows

    def links(self, length: int) -> Floats:
        """(L+2, L+2): E(i, j) = H(X_j | X_i) in nats for i < j, 0 being the begin and L+1 the end."""
        marginals = self.marginals(length)
        pairs = marginals @ self.uncertainty(length).T
        out = np.zeros((length + 2, length + 2))
        out[0, 1:-1] = entropy(marginals)
        for i in range(length):
            out[i + 1, i + 2 : -1] = pairs[i, 1 : length - i]
        return out


def first_order(machine: Machine | None) -> FirstOrder | None:
    """The chain that a machine is, if its states show themselves and it may end anywhere; else None."""
    if machine is None:
        return None
    symbols = machine.symbols
    if symbols is None or len(np.unique(symbols)) < len(symbols) or not machine.open_ended:
        return None
    transition = np.zeros((machine.states, machine.states))
    transition[machine.edge_source, machine.edge_target] = machine.edge_weight
    return FirstOrder(machine.initial, transition, symbols)


def entropy(law: Floats) -> Floats:
    """Of the last axis, in nats."""
    return np.asarray(-(law * np.log(np.where(law > 0, law, 1.0))).sum(-1))


def best_order(links: Floats, paid: Floats, given: NDArray[np.bool_]) -> Ints:
    """(L): the rounds 1..N of the least divergence, 0 where a place is given, Bool (L); paid: of N - 1 rounds."""
    order = np.zeros(len(links), np.int64)
    _assign(links, paid, np.flatnonzero(np.concatenate([[True], given, [True]])), order)
    return order[1:-1]


@kernel
def least_paid(links, rounds):  # type: ignore[no-untyped-def]
    """(N+1, L+2, L+2): the least nats that n rounds pay for the gap between places l < r; inf where they do not do."""
    places = links.shape[0]
    paid = np.full((rounds + 1, places, places), np.inf)
    reach, came = np.empty(places), np.empty(places, np.int64)
    for l in range(places - 1):
        for n in range(rounds + 1):
            paid[n, l, l + 1] = 0.0
    for n in range(1, rounds + 1):
        for l in range(places):
            for r in range(l + 2, places):
                paid[n, l, r] = _shortest(links, paid[n - 1], l, r, reach, came)
    return paid


@kernel
def _shortest(links, paid, l, r, reach, came):  # type: ignore[no-untyped-def]
    """The least that a round pays for a gap, and then the others; came (L+2): the place before each on the way."""
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
    """order (L+2): from each gap (l, r) that is left before a round, the way of its round."""
    places, rounds = links.shape[0], paid.shape[0]
    reach, came = np.empty(places), np.empty(places, np.int64)
    left = [(0, 0, 0)]
    left.pop()
    for k in range(len(revealed) - 1):
        left.append((rounds, revealed[k], revealed[k + 1]))
    while len(left) > 0:
        n, l, r = left.pop()
        if r == l + 1:
            continue
        _shortest(links, paid[n - 1], l, r, reach, came)
        after = r
        while after > l:
            before = came[after]
            if before > l:
                order[before] = rounds - n + 1
            left.append((n - 1, before, after))
            after = before
