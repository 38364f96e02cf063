"""Passes over rows of a machine: eight rows at a time, or one by one; and its posteriors under uniform noise.

Leave-one-out posteriors r_i(v) = q(x_i = v | y without y_i) of noisy tokens y: at level a, each token is kept with
probability a, and otherwise replaced by a uniformly chosen one of V symbols,

    E_a(v, y) = a [v = y] + (1 - a) / V

So the evidence of a noisy token about the state s of a machine is a E(s, y) + (1 - a) / V, since emission probabilities
sum to 1. Forward and backward messages with this evidence give r_i (messages.py), without the token at i itself. Known
tokens have level 1. Hidden positions have level 0: no evidence.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from unmask.core.chance import Randomness, Stream
from unmask.core.compiled import kernel
from unmask.core.errors import UnmaskError
from unmask.languages.kernels import messages, paths
from unmask.languages.kernels.lanes import LANES
from unmask.languages.kernels.lockstep import (
    Lockstep,
    draw_rows,
    evidence_rows,
    fill_distributions,
    fill_forward,
    filter_eight,
    locate,
    lockstep,
    posterior_rows,
)
from unmask.languages.kernels.machine import MAX_COLUMNS, Flags, Floats, Ints, Machine, aligned
from unmask.languages.kernels.paths import Prefixes


class Passes:
    """Passes over rows of a machine, each in the faster form: eight rows together, or one by one.

    Compares nanoseconds per row and position, from measurements of n-grams of 8 to 547 states, HMMs and grammars; draws
    are compared without their common part. One by one, a likelihood visits only the edges of possible states: a
    revealed token leaves one state if a sequence determines its path, else all that can emit it. A draw visits all
    states.
    """

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.eight = lockstep(machine) if len(machine.columns) else None

        edges = len(machine.edge_weight)
        states = machine.states
        eight = (edges + 6 * states) / 13
        possible = len(machine.column_state) / machine.vocabulary
        draw = 130 + states + edges
        if machine.unambiguous:
            possible = 1
            draw = 130 + states
        self.eight_filter = self.eight if eight < 50 + 3 * possible * edges / states else None
        self.eight_draw = self.eight if eight < draw else None

    def evidence(self, tokens: Ints) -> Floats:
        """(B): log of the mass of all paths that agree with the revealed tokens (B, L); -inf without such a path."""
        if self.eight_filter is None:
            return paths.log_evidence(self.machine, tokens)
        rows, length = tokens.shape
        states = len(self.eight_filter.initial)
        scratch = _memory(length, length + 1, states, states)
        out = np.empty(rows)
        evidence_rows(self.eight_filter, tokens, scratch, out)
        lost = np.isnan(out)
        if lost.any():
            out[lost] = paths.log_evidence(self.machine, tokens[lost])
        return out

    def posterior(self, tokens: Ints, positions: Ints, out: Floats) -> None:
        """out (B, K, V): marginals at positions (B, K) from scratch, one-hot if revealed."""
        if self.eight is None:
            messages.posterior_rows(self.machine, tokens, positions, out)
            return
        length = tokens.shape[1]
        states = len(self.eight.initial)
        symbols = self.machine.vocabulary
        sizes = length * states, length * symbols, states, states, states, symbols + 1, symbols + 1
        posterior_rows(self.eight, tokens, positions, _memory(length, *sizes), out)

    def draw(self, ahead: Floats, rng: Randomness, prefixes: Prefixes, tokens: Ints, probability: Floats) -> None:
        """`paths.draw_rows`."""
        keys = np.uint64(rng.seed), int(Stream.TOKEN), rng.row_ids.numpy()
        if self.eight_draw is None:
            paths.draw_rows(self.machine, ahead, keys, prefixes, tokens, probability)
            return
        states = len(self.eight_draw.initial)
        symbols = self.machine.vocabulary
        sizes = tokens.shape[1], states, states, states, symbols + 1, symbols + 1, symbols, 1, 1
        draw_rows(self.eight_draw, ahead, keys, prefixes, _memory(1, *sizes), tokens, probability)


def _memory(length: int, *sizes: int) -> tuple[Any, ...]:
    """Memory of eight rows: the offsets of L tokens, and arrays of these sizes for each row."""
    return np.empty(length * LANES, np.uint64), *(aligned((LANES * size,)) for size in sizes)


def machine_rows(
    passes: Passes, tokens: Ints, known: Flags, level: Floats, out: Floats, mass: Floats | None = None
) -> None:
    """Set out (B, L, V) = r of noisy tokens (B, L), V where hidden, at a level (B); and mass (B) = log q_a(y)."""
    if passes.eight is None:
        size = passes.machine.states * passes.machine.vocabulary
        raise UnmaskError(
            f"uniform noise needs states times symbols of at most {MAX_COLUMNS:,}; the language has {size:,}"
        )
    length = tokens.shape[1]
    states = len(passes.eight.initial)
    symbols = passes.machine.vocabulary
    sizes = length * states, length * symbols, states, states, states, symbols + 1, symbols + 1, length + 1
    _eight(*_at_levels(passes.eight, tokens, known, level, symbols), _memory(length, *sizes), out, mass)


def _at_levels(machine: Lockstep, tokens: Ints, known: Flags, level: Floats, vocabulary: int) -> tuple[Lockstep, Ints]:
    """The machine with further columns for noisy tokens at each level, and the column (B, L) of each token."""
    exact = machine.columns.reshape(vocabulary + 1, -1)
    distinct, which = np.unique(level, return_inverse=True)
    noisy = [a * exact[:-1] + (1 - a) / vocabulary for a in distinct]
    columns = np.where(known | (tokens == vocabulary), tokens, (which[:, None] + 1) * vocabulary + 1 + tokens)
    return machine._replace(columns=np.concatenate([exact, *noisy]).reshape(-1)), columns


@kernel
def _eight(machine, columns, scratch, out, mass):  # type: ignore[no-untyped-def]
    offsets, forward, distributions, backward, here, there, distribution, spare, totals = scratch
    length, vocabulary = out.shape[1], out.shape[2]
    everywhere = np.ones(length, np.bool_)

    for first in range(0, out.shape[0], LANES):
        locate(columns, first, machine.initial.shape[0], offsets)
        if mass is not None:
            filter_eight(machine, length, offsets, totals, here, there)
            for b in range(first, min(first + LANES, out.shape[0])):
                mass[b] = 0.0
                for j in range(length + 1):
                    mass[b] += np.log(totals[j * LANES + b - first])

        fill_forward(machine, length, offsets, forward, here, there)
        fill_distributions(
            machine, everywhere, offsets, forward, distributions, backward, here, there, distribution, spare
        )

        for b in range(first, min(first + LANES, out.shape[0])):
            for j in range(length):
                for v in range(vocabulary):
                    out[b, j, v] = distributions[(j * vocabulary + v) * LANES + b - first]
