"""Forward and backward messages of a machine, kept up to date while positions are revealed.

    forward[j](s)  ~ q(z_j = s, x_R before j)        backward[j](s) ~ q(x_R after j, end | z_j = s)
    q(x_j = v | x_R) ~ sum_s forward[j](s) E(s, v) backward[j](s)                        (theory.md 7.1)

After a reveal each message is swept outwards only until the new one agrees with the old one to `TOLERANCE` relative in
every entry, which also means the same zeros. Nonnegative maps do not expand Hilbert's projective distance, so what a
stop leaves out stays out.

Zeros are exact: an entry that some path reaches is floored at `FLOOR`, and parameters below 1e-20 are refused, so that
a possible path never underflows. An impossible context is answered by a rule of the revealed tokens only: a message
that a revealed token makes zero everywhere restarts as that token's emission column, one that is zero after a
transition restarts as ones, and a hidden position whose two messages exclude each other is answered by the forward one.
"""

from __future__ import annotations

import numpy as np
from numba import njit

FLOOR = 1e-140
TOLERANCE = 1e-10


@njit(cache=True, nogil=True)
def weigh(machine, message, token, out):  # type: ignore[no-untyped-def]
    """out = message times the evidence at a position (its emission column, or nothing if hidden). Did it restart?"""
    if token == machine.column_start.shape[0] - 1:
        out[:] = message
        return False
    out[:] = 0.0
    begin, end = machine.column_start[token], machine.column_start[token + 1]
    total = 0.0
    for i in range(begin, end):
        s = machine.column_state[i]
        out[s] = message[s] * machine.column_weight[i]
        total += out[s]
    if total > 0.0:
        return False
    for i in range(begin, end):
        out[machine.column_state[i]] = machine.column_weight[i]
    return True


@njit(cache=True, nogil=True)
def normalise(out):  # type: ignore[no-untyped-def]
    """Scale to sum one and lift what is possible to the floor; ones where nothing is. Did it restart?"""
    total = out.sum()
    if total == 0.0:
        out[:] = 1.0 / out.shape[0]
        return True
    scale = 1.0 / total
    for s in range(out.shape[0]):
        if out[s] > 0.0:
            out[s] = max(out[s] * scale, FLOOR)
    return False


@njit(cache=True, nogil=True)
def push(machine, weighed, out):  # type: ignore[no-untyped-def]
    """out(t) ~ sum_s weighed(s) T(s, t). Did it restart?"""
    out[:] = 0.0
    for s in range(weighed.shape[0]):
        mass = weighed[s]
        if mass > 0.0:
            for e in range(machine.edge_start[s], machine.edge_start[s + 1]):
                out[machine.edge_target[e]] += mass * machine.edge_weight[e]
    return normalise(out)


@njit(cache=True, nogil=True)
def pull(machine, weighed, out):  # type: ignore[no-untyped-def]
    """out(s) ~ sum_t T(s, t) weighed(t)."""
    for s in range(out.shape[0]):
        mass = 0.0
        for e in range(machine.edge_start[s], machine.edge_start[s + 1]):
            mass += machine.edge_weight[e] * weighed[machine.edge_target[e]]
        out[s] = mass
    return normalise(out)


@njit(cache=True, nogil=True)
def _ends(machine, weighed):  # type: ignore[no-untyped-def]
    for s in range(weighed.shape[0]):
        if weighed[s] > 0.0 and machine.final[s] > 0.0:
            return True
    return False


@njit(cache=True, nogil=True)
def _settled(new, old):  # type: ignore[no-untyped-def]
    for s in range(new.shape[0]):
        if abs(new[s] - old[s]) > TOLERANCE * old[s]:
            return False
    return True


@njit(cache=True, nogil=True)
def sweep_forward(machine, tokens, forward, restarts, changed, work):  # type: ignore[no-untyped-def]
    """Renew forward (L, S) rightwards from the changed positions (ascending); work (2, S) is scratch."""
    last = tokens.shape[0] - 1
    weighed, new = work[0], work[1]
    i = 0
    while i < changed.shape[0]:
        j = changed[i]
        while True:
            while i < changed.shape[0] and changed[i] <= j:
                i += 1
            restarted = weigh(machine, forward[j], tokens[j], weighed)
            if j == last:
                restarts[j] = restarted or not _ends(machine, weighed)
                break
            restarts[j] = push(machine, weighed, new) or restarted
            settled = _settled(new, forward[j + 1])
            forward[j + 1] = new
            j += 1
            if settled:
                break


@njit(cache=True, nogil=True)
def sweep_backward(machine, tokens, backward, changed, work):  # type: ignore[no-untyped-def]
    """Renew backward (L, S) leftwards from the changed positions (ascending)."""
    weighed, new = work[0], work[1]
    i = changed.shape[0] - 1
    while i >= 0:
        j = changed[i]
        while True:
            while i >= 0 and changed[i] >= j:
                i -= 1
            if j == 0:
                break
            weigh(machine, backward[j], tokens[j], weighed)
            pull(machine, weighed, new)
            settled = _settled(new, backward[j - 1])
            backward[j - 1] = new
            j -= 1
            if settled:
                break


@njit(cache=True, nogil=True)
def fill(machine, tokens, forward, backward, restarts, work):  # type: ignore[no-untyped-def]
    """Both messages of one row from scratch: the definition that the sweeps must agree with."""
    last = tokens.shape[0] - 1
    forward[0] = machine.initial
    for j in range(last + 1):
        restarted = weigh(machine, forward[j], tokens[j], work[0])
        if j < last:
            restarts[j] = push(machine, work[0], forward[j + 1]) or restarted
        else:
            restarts[j] = restarted or not _ends(machine, work[0])
    backward[last] = machine.final
    for j in range(last, 0, -1):
        weigh(machine, backward[j], tokens[j], work[0])
        pull(machine, work[0], backward[j - 1])


@njit(cache=True, nogil=True)
def marginal(machine, forward, backward, out):  # type: ignore[no-untyped-def]
    """out(v) = q(x_j = v | x_R) from the two messages (S) at a hidden position."""
    for attempt in range(2):
        total = 0.0
        for v in range(out.shape[0]):
            mass = 0.0
            for i in range(machine.column_start[v], machine.column_start[v + 1]):
                s = machine.column_state[i]
                if attempt == 0:
                    mass += forward[s] * backward[s] * machine.column_weight[i]
                else:
                    mass += forward[s] * machine.column_weight[i]
            out[v] = mass
            total += mass
        if total > 0.0:
            break
    out *= 1.0 / total


@njit(cache=True, nogil=True)
def fill_rows(machine, tokens, forward, backward, restarts):  # type: ignore[no-untyped-def]
    """tokens (B, L); forward, backward (B, L, S); restarts (B, L)."""
    for b in range(tokens.shape[0]):
        work = np.empty((2, forward.shape[2]))
        fill(machine, tokens[b], forward[b], backward[b], restarts[b], work)


@njit(cache=True, nogil=True)
def sweep_rows(machine, tokens, forward, backward, restarts, rows, starts, positions):  # type: ignore[no-untyped-def]
    """Renew the messages of rows (R) whose positions[starts[i]:starts[i+1]] (ascending) have changed."""
    for i in range(rows.shape[0]):
        b = rows[i]
        work = np.empty((2, forward.shape[2]))
        changed = positions[starts[i] : starts[i + 1]]
        sweep_forward(machine, tokens[b], forward[b], restarts[b], changed, work)
        sweep_backward(machine, tokens[b], backward[b], changed, work)


@njit(cache=True, nogil=True)
def marginals_at(machine, forward, backward, rows, positions, out):  # type: ignore[no-untyped-def]
    """out (K, V): the marginals at K places."""
    for k in range(rows.shape[0]):
        marginal(machine, forward[rows[k], positions[k]], backward[rows[k], positions[k]], out[k])


@njit(cache=True, nogil=True)
def posterior_rows(machine, tokens, positions, out):  # type: ignore[no-untyped-def]
    """out (B, K, V): marginals at positions (B, K) from scratch; one-hot at revealed ones. Memory: one row a thread."""
    hidden = machine.column_start.shape[0] - 1
    for b in range(tokens.shape[0]):
        length, states = tokens.shape[1], machine.initial.shape[0]
        forward, backward = np.empty((length, states)), np.empty((length, states))
        fill(machine, tokens[b], forward, backward, np.empty(length, np.bool_), np.empty((2, states)))
        for k in range(positions.shape[1]):
            j = positions[b, k]
            if tokens[b, j] == hidden:
                marginal(machine, forward[j], backward[j], out[b, k])
            else:
                out[b, k] = 0.0
                out[b, k, tokens[b, j]] = 1.0
