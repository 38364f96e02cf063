"""Leave-one-out posteriors under uniform noise: r_i(v) = q(x_i = v | y without y_i) of noisy tokens y.

At level a, each token is kept with probability a, and otherwise replaced by a uniformly chosen one of V symbols:

    E_a(v, y) = a [v = y] + (1 - a) / V

So the evidence of a noisy token about the state s of a machine is a E(s, y) + (1 - a) / V, since emission probabilities
sum to 1. Forward and backward messages with this evidence give r_i (messages.py), without the token at i itself. Known
tokens have level 1. Hidden positions have level 0: no evidence.
"""

from __future__ import annotations

import numpy as np

from unmask.core.compiled import kernel
from unmask.core.errors import UnmaskError
from unmask.languages.kernels.lanes import LANES
from unmask.languages.kernels.lockstep import Lockstep, fill_distributions, fill_forward, filter_eight, locate
from unmask.languages.kernels.machine import MAX_COLUMNS, Flags, Floats, Ints, aligned
from unmask.languages.kernels.passes import Passes


def machine_rows(
    passes: Passes, tokens: Ints, known: Flags, level: Floats, out: Floats, mass: Floats | None = None
) -> None:
    """Set out (B, L, V) = r of noisy tokens (B, L), V where hidden, at a level (B); and mass (B) = log q_a(y)."""
    if passes.eight is None:
        size = passes.machine.states * passes.machine.vocabulary
        raise UnmaskError(
            f"uniform noise needs states times symbols of at most {MAX_COLUMNS:,}; the language has {size:,}"
        )
    length, states, symbols = tokens.shape[1], len(passes.eight.initial), passes.machine.vocabulary
    sizes = length * states, length * symbols, states, states, states, symbols + 1, symbols + 1, length + 1
    scratch = np.empty(length * LANES, np.uint64), *(aligned((size, LANES)).reshape(-1) for size in sizes)
    _eight(*_at_levels(passes.eight, tokens, known, level, symbols), scratch, out, mass)


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
