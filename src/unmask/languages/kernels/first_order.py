"""First-order chains: the machines with visible states (theory.md 7.3)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from torch import Tensor

from unmask.core.arguments import fits
from unmask.languages.kernels.machine import Floats, Ints, Machine


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
