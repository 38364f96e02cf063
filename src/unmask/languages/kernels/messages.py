"""Forward and backward messages of a machine, updated while positions are revealed.

    forward[j](s)  ~ q(z_j = s, x_R before j)        backward[j](s) ~ q(x_R after j, end | z_j = s)
    q(x_j = v | x_R) ~ sum_s forward[j](s) E(s, v) backward[j](s)                        (theory.md 7.1)

After a reveal, messages are updated outwards until the new message agrees with the old one in every entry, to a
relative `TOLERANCE`; this implies the same zeros. Nonnegative maps do not expand Hilbert's projective distance, so the
error of such a stop does not grow.

Zeros are exact: a reachable entry is at least `FLOOR`, and parameters below 1e-20 are refused, so a possible path never
underflows. A path whose mass falls below the floor relative to another is raised to it. If later evidence leaves only
such paths, their posterior is too uniform (paths that never meet, each losing a factor of two per token, from 465
tokens on). Likelihoods (`paths.evidence_rows`) are exact for masses of any ratio.

An impossible context gets a result that depends only on the revealed tokens. A message that a revealed token makes zero
everywhere restarts as the emission column of that token. A message that is zero after a transition restarts as ones. At
a hidden position whose two messages exclude each other, the forward message decides.

`fill` generates by an order, one row after another: each step of a row does the work of `Canvas.at`, `draw` and
`reveal`. Only the messages of one row are in memory; they stay in the processor's cache.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import uint64

from unmask.core.chance import draw, uniform_at
from unmask.core.compiled import inner, kernel
from unmask.languages.kernels.lanes import LANES, load, splat, sum_in_pairs
from unmask.languages.kernels.machine import Flags, Floats, Ints, Machine, aligned, clear, pull, push

FLOOR = 1e-140
TOLERANCE = 1e-10


@inner(forceinline=True)
def weigh(machine, messages, j, token, here):  # type: ignore[no-untyped-def]
    """Set here (S) = message j times the evidence (the emission column of its token). Return whether it restarted.

    Three choices make these kernels fast. `_nrt=False` avoids counting references to arrays, which would double the
    time. Messages are flat (L*S) with unsigned offsets, because LLVM does not vectorize if an index may be negative.
    LLVM inlines functions that take the whole machine; numba's own inlining takes minutes to compile.
    """
    begin = uint64(j) * uint64(here.shape[0])
    if machine.columns.shape[0] > 0:
        return _weigh_by_column(machine.columns, uint64(token) * uint64(here.shape[0]), messages, begin, here)
    arrays = machine.column_start, machine.column_state, machine.column_weight
    return _weigh_by_states(arrays, token, messages, begin, here)


@inner(fastmath={"reassoc"})
def _weigh_by_column(columns, column, messages, begin, here):  # type: ignore[no-untyped-def]
    states = uint64(here.shape[0])
    total = 0.0
    for s in range(states):
        mass = messages[begin + s] * columns[column + s]
        here[s] = mass
        total += mass
    if total > 0.0:
        return False
    for s in range(states):
        here[s] = columns[column + s]
    return True


@inner
def _weigh_by_states(arrays, token, messages, begin, here):  # type: ignore[no-untyped-def]
    column_start, column_state, column_weight = arrays
    if token == column_start.shape[0] - 1:
        for s in range(uint64(here.shape[0])):
            here[s] = messages[begin + s]
        return False
    clear(here)
    total = 0.0
    for i in range(column_start[token], column_start[token + 1]):
        s = uint64(column_state[i])
        here[s] = messages[begin + s] * column_weight[i]
        total += here[s]
    if total > 0.0:
        return False
    for i in range(column_start[token], column_start[token + 1]):
        here[column_state[i]] = column_weight[i]
    return True


@inner
def settle(there, messages, j):  # type: ignore[no-untyped-def]
    """Set message j = there (S), scaled to sum one. Return (whether it restarted, whether it agrees with the old one).

    Possible entries are raised to the floor; without possible entries the message is uniform. The loop counts
    disagreements instead of stopping at the first one, so that it is vectorized.
    """
    begin = uint64(j) * uint64(there.shape[0])
    total = total_of(there)
    moved = 0

    if total == 0.0:
        for s in range(uint64(there.shape[0])):
            old = messages[begin + s]
            messages[begin + s] = 1.0 / there.shape[0]
            moved += abs(messages[begin + s] - old) > TOLERANCE * old
        return True, moved == 0

    scale = 1.0 / total
    for s in range(uint64(there.shape[0])):
        old = messages[begin + s]
        mass = there[s]
        new = max(mass * scale, FLOOR) if mass > 0.0 else 0.0
        moved += abs(new - old) > TOLERANCE * old
        messages[begin + s] = new
    return False, moved == 0


@inner
def total_of(values):  # type: ignore[no-untyped-def]
    """The sum in a fixed order: each eighth entry, these in pairs, then the rest."""
    whole = uint64(values.shape[0]) // uint64(LANES) * uint64(LANES)
    eighths = splat(0.0)
    for s in range(uint64(0), whole, uint64(LANES)):
        eighths += load(values, s)
    total = sum_in_pairs(eighths)
    for s in range(whole, uint64(values.shape[0])):
        total += values[s]
    return total


@inner
def ends(final, here):  # type: ignore[no-untyped-def]
    """Whether a sequence can end in a state of here."""
    for s in range(here.shape[0]):
        if here[s] > 0.0 and final[s] > 0.0:
            return True
    return False


@inner(forceinline=True)
def carry(machine, messages, i, token, here, there, j):  # type: ignore[no-untyped-def]
    """Set message j from the neighbouring message i and its token; return the result of `settle`."""
    restarted = weigh(machine, messages, i, token, here)
    push(machine, here, token, there)
    empty, agreed = settle(there, messages, j)
    return restarted or empty, agreed


@kernel(_nrt=False)
def sweep_forward(machine, tokens, forward, restarts, changed, here, there):  # type: ignore[no-untyped-def]
    """Update forward (L*S) rightwards from the changed positions (ascending). Return whether a message restarted."""
    last = tokens.shape[0] - 1
    i = 0
    restarted = False
    while i < changed.shape[0]:
        j = changed[i]
        while True:
            while i < changed.shape[0] and changed[i] <= j:
                i += 1

            if j == last:
                restarts[j] = weigh(machine, forward, j, tokens[j], here) or not ends(machine.final, here)
                restarted |= restarts[j]
                break

            restarts[j], agreed = carry(machine, forward, j, tokens[j], here, there, j + 1)
            restarted |= restarts[j]
            j += 1
            if agreed:
                break
    return restarted


@kernel(_nrt=False)
def sweep_backward(machine, tokens, backward, changed, here, there):  # type: ignore[no-untyped-def]
    """Update backward (L*S) leftwards from the changed positions (ascending)."""
    i = changed.shape[0] - 1
    while i >= 0:
        j = changed[i]
        while True:
            while i >= 0 and changed[i] >= j:
                i -= 1

            if j == 0:
                break

            weigh(machine, backward, j, tokens[j], here)
            pull(machine, here, there)
            j -= 1
            if settle(there, backward, j)[1]:
                break


@inner(forceinline=True)
def marginal(machine, forward, i, backward, j, out, here):  # type: ignore[no-untyped-def]
    """out(v) = q(x_j = v | x_R) at a hidden position from two messages, at i and j; here (S) is scratch."""
    states = uint64(here.shape[0])
    arrays = machine.column_start, machine.column_state, machine.column_weight
    possible = _product(forward, uint64(i) * states, backward, uint64(j) * states, here)
    if not possible or not _emit(arrays, here, out):
        for s in range(states):
            here[s] = forward[uint64(i) * states + s]
        _emit(arrays, here, out)


@inner(fastmath={"reassoc"})
def _product(forward, i, backward, j, here):  # type: ignore[no-untyped-def]
    total = 0.0
    for s in range(uint64(here.shape[0])):
        mass = forward[i + s] * backward[j + s]
        here[s] = mass
        total += mass
    return total > 0.0


@inner
def _emit(arrays, here, out):  # type: ignore[no-untyped-def]
    """Set out(v) ~ sum_s here(s) E(s, v). Return whether any symbol is possible."""
    column_start, column_state, column_weight = arrays
    total = 0.0
    for v in range(out.shape[0]):
        mass = 0.0
        for e in range(column_start[v], column_start[v + 1]):
            mass += here[column_state[e]] * column_weight[e]
        out[v] = mass
        total += mass
    if total == 0.0:
        return False
    for v in range(out.shape[0]):
        out[v] /= total
    return True


@kernel
def sweep_rows(machine, tokens, forward, backward, restarts, rows, starts, positions):  # type: ignore[no-untyped-def]
    """Update the messages of rows (R) after changes of positions[starts[i]:starts[i+1]] (ascending)."""
    here, there = np.empty(forward.shape[2]), np.empty(forward.shape[2])
    for i in range(rows.shape[0]):
        b = rows[i]
        changed = positions[starts[i] : starts[i + 1]]
        sweep_forward(machine, tokens[b], forward[b].reshape(-1), restarts[b], changed, here, there)
        sweep_backward(machine, tokens[b], backward[b].reshape(-1), changed, here, there)


@kernel
def marginals_at(machine, forward, backward, rows, positions, out):  # type: ignore[no-untyped-def]
    """out (K, V): the marginals at K positions, from messages (B, L, S)."""
    here = np.empty(forward.shape[2])
    ahead = forward.reshape(-1)
    behind = backward.reshape(-1)
    for k in range(rows.shape[0]):
        at = rows[k] * forward.shape[1] + positions[k]
        marginal(machine, ahead, at, behind, at, out[k], here)


def fill_rows(machine: Machine, tokens: Ints, forward: Floats, backward: Floats, restarts: Flags) -> None:
    """Compute both messages (B, L, S) of tokens (B, L) from scratch, and restarts (B, L)."""
    rows, length = tokens.shape
    forward[:, 0] = machine.initial
    backward[:, -1] = machine.final
    everywhere = np.tile(np.arange(length), rows)
    sweep_rows(machine, tokens, forward, backward, restarts, np.arange(rows), np.arange(rows + 1) * length, everywhere)


def posterior_rows(machine: Machine, tokens: Ints, positions: Ints, out: Floats) -> None:
    """out (B, K, V): marginals at positions (B, K) from scratch, one-hot if revealed. Holds messages of one row."""
    forward, backward = np.empty((2, 1, tokens.shape[1], machine.states))
    restarts = np.empty((1, tokens.shape[1]), bool)
    for b in range(len(tokens)):
        fill_rows(machine, tokens[b : b + 1], forward, backward, restarts)
        shown = tokens[b, positions[b]]
        hidden = np.flatnonzero(shown == machine.vocabulary)
        known = np.flatnonzero(shown < machine.vocabulary)
        distribution = np.empty((len(hidden), machine.vocabulary))
        marginals_at(machine, forward, backward, np.zeros_like(hidden), positions[b, hidden], distribution)
        out[b] = 0.0
        out[b, hidden] = distribution
        out[b, known, shown[known]] = 1.0


class Scratch(NamedTuple):
    """Scratch memory of `fill`, used for all rows."""

    forward: Floats  # (L*S)
    backward: Floats  # (L*S)
    restarts: Flags  # (L)
    everywhere: Ints  # (L): 0 .. L-1
    here: Floats  # (S)
    there: Floats  # (S)
    distribution: Floats  # (V)


def scratch(machine: Machine, length: int) -> Scratch:
    forward, backward, here, there = (aligned((n * machine.states,)) for n in (length, length, 1, 1))
    restarts = np.zeros(length, bool)
    distribution = np.empty(machine.vocabulary)
    return Scratch(forward, backward, restarts, np.arange(length), here, there, distribution)


def blank(machine: Machine, length: int) -> Floats:
    """(2, L*S): the messages of a canvas without revealed tokens. It compiles nothing that `fill` does not need."""
    _, _, restarts, everywhere, here, there, _ = scratch(machine, length)
    forward, backward = both = aligned((2, length * machine.states))
    tokens = np.full(length, machine.vocabulary)
    forward[: machine.states] = machine.initial
    backward[-machine.states :] = machine.final
    sweep_forward(machine, tokens, forward, restarts, everywhere, here, there)
    sweep_backward(machine, tokens, backward, everywhere, here, there)
    return both


@kernel(_nrt=False)
def fill(machine, blank, scratch, tokens, order, begins, rng, visits, probability, model_calls, impossible):  # type: ignore[no-untyped-def]
    """Fill tokens (B, L) by order: (step, position) (B, L), sorted by step, from an index in it, begins (B).

    blank (2, L*S): the messages of a canvas without revealed tokens. `rng`: (seed, stream, row_ids (B)). Increments
    visits (B, L). Sets the probability (B, L) of each token, and for each row its model calls (B) and the first of them
    with an impossible context (B), or 0.
    """
    steps, positions = order
    forward, backward, restarts, everywhere, here, there, distribution = scratch
    for b in range(tokens.shape[0]):
        row = tokens[b]
        begin = begins[b]
        dead = False
        shown = 0
        for i in range(forward.shape[0]):
            forward[i] = blank[0, i]
            backward[i] = blank[1, i]

        for token in row:
            shown |= token != machine.column_start.shape[0] - 1
        changed = everywhere[: row.shape[0] * shown]

        while begin < row.shape[0]:
            sweep_backward(machine, row, backward, changed, here, there)
            dead |= sweep_forward(machine, row, forward, restarts, changed, here, there)
            end = step_end(steps[b], begin)
            model_calls[b] += 1
            if dead and impossible[b] == 0:
                impossible[b] = model_calls[b]

            # the step is drawn from messages that none of its own tokens has changed
            changed = positions[b, begin:end]
            for j in changed:
                marginal(machine, forward, j, backward, j, distribution, here)
                row[j] = write(distribution, rng, b, j, visits, probability)

            begin = end


@inner
def step_end(steps, begin):  # type: ignore[no-untyped-def]
    """The end of the step that starts at begin."""
    end = begin + 1
    while end < steps.shape[0] and steps[end] == steps[begin]:
        end += 1
    return end


@inner(forceinline=True)
def write(distribution, rng, b, j, visits, probability):  # type: ignore[no-untyped-def]
    """Draw a token from the marginal distribution (V), with a random number that no earlier draw has used."""
    seed, stream, row_ids = rng
    token = draw(distribution, uniform_at(seed, stream, row_ids[b], j, visits[b, j]))
    visits[b, j] += 1
    probability[b, j] = distribution[token]
    return token
