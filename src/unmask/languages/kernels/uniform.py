"""Leave-one-out posteriors under uniform noise: r_i(v) = q(x_i = v | y without y_i) of noisy tokens y.

At level a, each token is kept with probability a, and otherwise replaced by a uniformly chosen one of V symbols:

    E_a(v, y) = a [v = y] + (1 - a) / V

So the evidence of a noisy token about the state s of a machine is a E(s, y) + (1 - a) / V, since emission probabilities
sum to 1. Forward and backward messages with this evidence give r_i (messages.py), without the token at i itself. Known
tokens have level 1. Hidden positions have level 0: no evidence.
"""

from __future__ import annotations

import numpy as np

from unmask.core.compiled import inner, kernel
from unmask.core.errors import UnmaskError
from unmask.languages.kernels.lanes import LANES
from unmask.languages.kernels.local import bit_of
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


def interval_rows(
    width: int, tokens: Ints, known: Flags, level: Floats, out: Floats, mass: Floats | None = None
) -> None:
    """`machine_rows` of the language of intervals of this width."""
    levels = np.where(tokens == out.shape[2], 0.0, np.where(known, 1.0, level[:, None]))
    _intervals(width, tokens, levels, out, mass)


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


@kernel
def _intervals(width, tokens, levels, out, mass):  # type: ignore[no-untyped-def]
    """Sum over the sets C of unchanged tokens among the n - 1 others of an interval, whose bits must agree in pairs:

        w(C) = prod_{j in C} a_j prod_{j not in C} (1 - a_j) / V  times 2^-(bits of C),    r_i(v) ~ sum_{C in A(v)} w(C)

    A(v) has the partners whose common bit agrees with v, so sums over all subsets give r_i for every v.
    """
    length, vocabulary = out.shape[1], out.shape[2]
    weight, sizes, others = np.empty(vocabulary), np.zeros(vocabulary, np.int64), np.empty(width, np.int64)
    powers = 2.0 ** np.arange(2.0 - width, 2.0)  # of |C| + 2 - l
    for b in range(out.shape[0]):
        log_mass = 0.0
        for j in range(length):
            begin = j - j % width
            count = 0
            for i in range(begin, min(begin + width, length)):
                if i != j:
                    others[count] = i - begin
                    count += 1
            _subsets(width, tokens[b, begin:], levels[b, begin:], others[:count], powers, sizes, weight)
            total, own, level = 0.0, j - begin, levels[b, j]
            shared = 0  # the k-th other shares bit k of the token
            for k in range(count):
                shared |= bit_of(tokens[b, begin + others[k]], others[k], own) << k
            for v in range(vocabulary):
                out[b, j, v] = weight[~(v ^ shared) & ((1 << count) - 1)]
                total += out[b, j, v]
            if own == 0:
                seen = level * out[b, j, tokens[b, j] % vocabulary] + (1.0 - level) / vocabulary * total
                log_mass += np.log(seen / vocabulary)
            scale = 1.0 / total if total > 0.0 else 0.0
            for v in range(vocabulary):
                out[b, j, v] = out[b, j, v] * scale if total > 0.0 else 1.0 / vocabulary
        if mass is not None:
            mass[b] = log_mass


@inner
def _subsets(width, tokens, levels, others, powers, sizes, weight):  # type: ignore[no-untyped-def]
    """Set weight(A) = sum over C in A of w(C) 2^|C|, for sets A of the others; sizes: |A|, scratch."""
    vocabulary = 1 << (width - 1)
    weight[0] = 1.0
    for k in range(len(others)):
        own = others[k]
        agreeing = 0
        for m in range(k):
            same = bit_of(tokens[others[m]], others[m], own) == bit_of(tokens[own], own, others[m])
            agreeing |= int(same) << m
        for c in range(1 << k):
            both = c | 1 << k
            sizes[both] = sizes[c] + 1
            fits = levels[own] if c & ~agreeing == 0 else 0.0
            weight[both] = weight[c] * fits * powers[sizes[c]]
            weight[c] *= (1.0 - levels[own]) / vocabulary
    for k in range(len(others)):
        for c in range(1 << len(others)):
            if c >> k & 1:
                weight[c] += weight[c ^ 1 << k]
