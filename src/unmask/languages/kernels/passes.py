"""Passes over rows of a machine: eight rows at a time, or one by one."""

from __future__ import annotations

import numpy as np

from unmask.languages.kernels import messages, paths
from unmask.languages.kernels.lanes import LANES
from unmask.languages.kernels.lockstep import evidence_rows, lockstep, posterior_rows
from unmask.languages.kernels.machine import Floats, Indices, Ints, Machine, aligned


class Passes:
    """Passes over rows of a machine, each in the faster form."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.eight = lockstep(machine) if len(machine.columns) else None
        self.eight_filter = self.eight if _eight_faster(machine) else None

    def evidence(self, tokens: Ints) -> Floats:
        """(B): log of the mass of all paths that agree with the revealed tokens (B, L); -inf without such a path."""
        if self.eight_filter is None:
            return paths.log_evidence(self.machine, tokens)
        (rows, length), states = tokens.shape, len(self.eight_filter.initial)
        scratch = _offsets(length), _lanes(length + 1), _lanes(states), _lanes(states)
        out = np.empty(rows)
        evidence_rows(self.eight_filter, tokens, scratch, out)
        if (lost := np.isnan(out)).any():
            out[lost] = paths.log_evidence(self.machine, tokens[lost])
        return out

    def posterior(self, tokens: Ints, positions: Ints, out: Floats) -> None:
        """out (B, K, V): marginals at positions (B, K) from scratch, one-hot if revealed."""
        if self.eight is None:
            messages.posterior_rows(self.machine, tokens, positions, out)
            return
        length, states, symbols = tokens.shape[1], len(self.eight.initial), self.machine.vocabulary
        sizes = length * states, length * symbols, states, states, states, symbols + 1, symbols + 1
        posterior_rows(self.eight, tokens, positions, (_offsets(length), *map(_lanes, sizes)), out)


def _eight_faster(machine: Machine) -> bool:
    """Whether likelihoods of eight rows together are faster than one by one.

    Compares nanoseconds per row and position, from measurements of n-grams of 8 to 547 states, HMMs and grammars. One
    by one, only the edges of possible states are visited: a revealed token leaves one state if a sequence determines
    its path, else all that can emit it.
    """
    edges, states = len(machine.edge_weight), machine.states
    possible = 1 if machine.unambiguous else len(machine.column_state) / machine.vocabulary
    return (edges + 6 * states) / 13 < 50 + 3 * possible * edges / states


def _lanes(count: int) -> Floats:
    return aligned((count, LANES)).reshape(-1)


def _offsets(length: int) -> Indices:
    return np.empty(length * LANES, np.uint64)
