"""Passes over rows of a machine: eight rows at a time, or one by one."""

from __future__ import annotations

import numpy as np

from unmask.core.chance import Randomness, Stream
from unmask.languages.kernels import messages, paths
from unmask.languages.kernels.lanes import LANES
from unmask.languages.kernels.lockstep import draw_rows, evidence_rows, lockstep, posterior_rows
from unmask.languages.kernels.machine import Floats, Indices, Ints, Machine, aligned
from unmask.languages.kernels.paths import Prefixes


class Passes:
    """Passes over rows of a machine, each in the faster form."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.eight = lockstep(machine) if len(machine.columns) else None
        self.eight_filter, self.eight_draw = (self.eight if faster else None for faster in _eight_faster(machine))

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

    def draw(self, ahead: Floats, rng: Randomness, prefixes: Prefixes, tokens: Ints, probability: Floats) -> None:
        """`paths.draw_rows`."""
        keys = np.uint64(rng.seed), int(Stream.TOKEN), rng.row_ids.numpy()
        if self.eight_draw is None:
            paths.draw_rows(self.machine, ahead, keys, prefixes, tokens, probability)
            return
        states, symbols = len(self.eight_draw.initial), self.machine.vocabulary
        sizes = tokens.shape[1], states, states, states, symbols + 1, symbols + 1, symbols, 1, 1
        scratch = (_offsets(1), *map(_lanes, sizes))
        draw_rows(self.eight_draw, ahead, keys, prefixes, scratch, tokens, probability)


def _eight_faster(machine: Machine) -> tuple[bool, bool]:
    """Whether eight rows together are faster than one by one (for likelihoods, for draws).

    Compares nanoseconds per row and position, from measurements of n-grams of 8 to 547 states, HMMs and grammars; draws
    are compared without their common part. One by one, a likelihood visits only the edges of possible states: a
    revealed token leaves one state if a sequence determines its path, else all that can emit it. A draw visits all
    states.
    """
    edges, states, pinned = len(machine.edge_weight), machine.states, machine.unambiguous
    eight = (edges + 6 * states) / 13
    possible = 1 if pinned else len(machine.column_state) / machine.vocabulary
    return eight < 50 + 3 * possible * edges / states, eight < 130 + states + (0 if pinned else edges)


def _lanes(count: int) -> Floats:
    return aligned((count, LANES)).reshape(-1)


def _offsets(length: int) -> Indices:
    return np.empty(length * LANES, np.uint64)
