"""Eight rows filled at a time, side by side in the lanes of a vector, each at its own place.

A sweep is a chain of products in which each waits for the last; eight of them have nothing to wait for, and an edge of
a sparse machine then costs one instruction for all. A lane goes its own way: when both sweeps of its round have ended
it draws the next round at once, and when its row is complete it takes the next row. What a lane computes does not
depend on its neighbours, and is what filling.py computes row by row, bit for bit.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit, uint64
from numpy.typing import NDArray

from unmask.exact.filling import begin_row, round_end, skip, write
from unmask.exact.lanes import (
    LANES,
    distance,
    load,
    load_offsets,
    load_turned,
    splat,
    store,
    store_turned,
    where_greater,
)
from unmask.exact.machine import Floats, Indices, Ints, Machine, aligned
from unmask.exact.messages import FLOOR, TOLERANCE, ends, marginal, weigh


class Sweeps(NamedTuple):
    """Eight sweeps in one direction; lane k of state s stands at 8 s + k."""

    step: int  # 1 forwards, -1 backwards
    start: Indices  # (S+1); the edges whose sources' masses a state receives are start[s]:start[s+1]
    source: Indices  # (edges): where the eight lanes of each source begin
    weight: Floats
    messages: Floats  # (8*L*S + S): one row a lane, and a place where idle lanes write
    current: Floats  # (8*S): the message at each lane's place
    here: Floats  # (8*S): the same, weighed
    totals: Floats  # (8)
    moved: Floats  # (8): entries of each lane's new message that disagree with the old one
    column_at: Indices  # (8): where the emission column of each lane's token begins
    message_at: Indices  # (8): where each lane's next message stands
    place: Ints  # (8)
    turn: Ints  # (8): which of the changed positions comes next
    active: NDArray[np.bool_]  # (8)
    restarted: NDArray[np.bool_]  # (8): in the last step


def sweeps(machine: Machine, length: int) -> tuple[Sweeps, Sweeps]:
    """Forwards and backwards."""
    into = machine.in_start, machine.in_source, machine.in_weight
    out_of = machine.edge_start, machine.edge_target, machine.edge_weight
    return _sweeps(1, *into, length), _sweeps(-1, *out_of, length)


def _sweeps(step: int, start: Ints, source: Ints, weight: Floats, length: int) -> Sweeps:
    states = len(start) - 1
    sizes = LANES * length * states + states, LANES * states, LANES * states, LANES, LANES
    numbers = [aligned((size,)) for size in sizes]
    indices = [np.zeros(LANES, kind) for kind in (np.uint64, np.uint64, np.int64, np.int64, np.bool_, np.bool_)]
    edges = start.astype(np.uint64), (source * LANES).astype(np.uint64), weight
    return Sweeps(step, *edges, *numbers, *indices)  # type: ignore[arg-type]


@njit(cache=True, nogil=True)
def by_messages(machine, blank, ahead, behind, tokens, order, luck, visits, probability, evaluations, impossible):  # type: ignore[no-untyped-def]
    """As filling.by_messages; ahead and behind are the sweeps forwards and backwards."""
    states, length = machine.initial.shape[0], tokens.shape[1]
    lanes = np.zeros(LANES, np.int64), np.zeros(LANES, np.int64), np.full(LANES, length), np.zeros(LANES, np.bool_)
    scratch = np.zeros(length, np.bool_), np.empty((2, states)), np.empty(machine.column_start.shape[0] - 1)
    results = visits, probability, evaluations, impossible
    _fill(machine, blank, ahead, behind, lanes, scratch, tokens, order, luck, results)


@njit(cache=True, nogil=True, _nrt=False)
def _fill(machine, blank, ahead, behind, lanes, scratch, tokens, order, luck, results):  # type: ignore[no-untyped-def]
    """lanes: for each its row, where its round begins and ends in the row's order, and whether the row is dead."""
    states, length = machine.initial.shape[0], tokens.shape[1]
    rounds, positions = order
    row, begin, end, dead = lanes
    restarts, pair, out = scratch
    visits, probability, evaluations, impossible = results
    here = pair[0]
    for k in range(LANES):
        _rest(machine, ahead, k)
        _rest(machine, behind, k)
    next_row, busy = 0, True
    while busy:
        busy = False
        for k in range(LANES):
            forward = ahead.messages[k * length * states : (k + 1) * length * states]
            backward = behind.messages[k * length * states : (k + 1) * length * states]
            while not (ahead.active[k] or behind.active[k]):
                if end[k] == length:
                    if next_row == tokens.shape[0]:
                        break
                    b = row[k] = next_row
                    next_row += 1
                    end[k] = skip(rounds[b])
                    dead[k] = begin_row(machine, tokens[b], blank, forward, backward, restarts, pair)
                    continue
                b = row[k]
                begin[k], end[k] = end[k], round_end(rounds[b], end[k])
                changed = positions[b, begin[k] : end[k]]
                evaluations[b] += 1
                if dead[k] and impossible[b] == 0:
                    impossible[b] = evaluations[b]
                for j in changed:
                    marginal(machine, forward, j, backward, j, out, here)
                    tokens[b, j] = write(out, luck, b, j, visits, probability)
                ahead.turn[k], behind.turn[k] = 0, changed.shape[0] - 1
                dead[k] |= _aim(machine, ahead, k, tokens[b], changed, here)
                _aim(machine, behind, k, tokens[b], changed, here)
            busy |= ahead.active[k] or behind.active[k]
        _advance(machine.columns, ahead, uint64(states))
        _advance(machine.columns, behind, uint64(states))
        for k in range(LANES):
            changed = positions[row[k], begin[k] : end[k]]
            if ahead.active[k]:
                dead[k] |= _go_on(machine, ahead, k, tokens[row[k]], changed, here)
            if behind.active[k]:
                _go_on(machine, behind, k, tokens[row[k]], changed, here)


@njit(cache=True, nogil=True, _nrt=False, inline="always")
def _advance(columns, sweep, states):  # type: ignore[no-untyped-def]
    """Every lane's next message, from the current one; that is then the current one."""
    _weigh(columns, sweep, states)
    for k in range(LANES):
        sweep.restarted[k] = sweep.totals[k] == 0.0
        if sweep.restarted[k]:
            for s in range(states):
                sweep.here[LANES * s + k] = columns[sweep.column_at[k] + s]
    _multiply(sweep, states)
    for k in range(LANES):
        if sweep.totals[k] == 0.0:
            sweep.restarted[k] = True
            sweep.totals[k] = states
            for s in range(states):
                sweep.current[LANES * s + k] = 1.0
        sweep.totals[k] = 1.0 / sweep.totals[k]
    _settle(sweep, states)


@njit(cache=True, nogil=True, _nrt=False, inline="always")
def _weigh(columns, sweep, states):  # type: ignore[no-untyped-def]
    """here = current times the evidence in each lane; totals: their sums.

    Eight states at a time, here and below, and written out: a tuple is looked up for nothing only where it is unpacked.
    """
    begins, total = load_offsets(sweep.column_at, uint64(0)), splat(0.0)
    for first in range(uint64(0), states, uint64(LANES)):
        a, b, c, d, e, f, g, h = load_turned(columns, begins, first)
        total += _weigh_state(sweep, first, a)
        total += _weigh_state(sweep, first + uint64(1), b)
        total += _weigh_state(sweep, first + uint64(2), c)
        total += _weigh_state(sweep, first + uint64(3), d)
        total += _weigh_state(sweep, first + uint64(4), e)
        total += _weigh_state(sweep, first + uint64(5), f)
        total += _weigh_state(sweep, first + uint64(6), g)
        total += _weigh_state(sweep, first + uint64(7), h)
    store(sweep.totals, uint64(0), total)


@njit(cache=True, nogil=True, _nrt=False, inline="always")
def _weigh_state(sweep, state, evidence):  # type: ignore[no-untyped-def]
    mass = load(sweep.current, state * uint64(LANES)) * evidence
    store(sweep.here, state * uint64(LANES), mass)
    return mass


@njit(cache=True, nogil=True, _nrt=False, inline="always")
def _multiply(sweep, states):  # type: ignore[no-untyped-def]
    """current = here times the transitions; totals: their sums, in the order of `messages.total_of`."""
    a, b, c, d = splat(0.0), splat(0.0), splat(0.0), splat(0.0)
    e, f, g, h = splat(0.0), splat(0.0), splat(0.0), splat(0.0)
    for first in range(uint64(0), states, uint64(LANES)):
        a += _receive(sweep, first)
        b += _receive(sweep, first + uint64(1))
        c += _receive(sweep, first + uint64(2))
        d += _receive(sweep, first + uint64(3))
        e += _receive(sweep, first + uint64(4))
        f += _receive(sweep, first + uint64(5))
        g += _receive(sweep, first + uint64(6))
        h += _receive(sweep, first + uint64(7))
    store(sweep.totals, uint64(0), ((a + b) + (c + d)) + ((e + f) + (g + h)))


@njit(cache=True, nogil=True, _nrt=False, inline="always")
def _receive(sweep, state):  # type: ignore[no-untyped-def]
    """What a state has in current: the masses that it receives, in each lane."""
    mass, edge, end = splat(0.0), sweep.start[state], sweep.start[state + uint64(1)]
    while edge < end:  # fewer instructions than numba's range
        mass += load(sweep.here, sweep.source[edge]) * splat(sweep.weight[edge])
        edge += uint64(1)
    store(sweep.current, state * uint64(LANES), mass)
    return mass


@njit(cache=True, nogil=True, _nrt=False, inline="always")
def _settle(sweep, states):  # type: ignore[no-untyped-def]
    """current times totals, lifted to the floor where possible, kept as messages; moved: how many disagreed."""
    begins, scale, moved = load_offsets(sweep.message_at, uint64(0)), load(sweep.totals, uint64(0)), splat(0.0)
    for first in range(uint64(0), states, uint64(LANES)):
        a, b, c, d, e, f, g, h = load_turned(sweep.messages, begins, first)
        moved += _settle_state(sweep, first, scale, a)
        moved += _settle_state(sweep, first + uint64(1), scale, b)
        moved += _settle_state(sweep, first + uint64(2), scale, c)
        moved += _settle_state(sweep, first + uint64(3), scale, d)
        moved += _settle_state(sweep, first + uint64(4), scale, e)
        moved += _settle_state(sweep, first + uint64(5), scale, f)
        moved += _settle_state(sweep, first + uint64(6), scale, g)
        moved += _settle_state(sweep, first + uint64(7), scale, h)
        store_turned(sweep.messages, begins, first, sweep.current, first * uint64(LANES))
    store(sweep.moved, uint64(0), moved)


@njit(cache=True, nogil=True, _nrt=False, inline="always")
def _settle_state(sweep, state, scale, old):  # type: ignore[no-untyped-def]
    """One in the lanes that disagree with the old message."""
    floor, zero = splat(FLOOR), splat(0.0)
    mass = load(sweep.current, state * uint64(LANES))
    new = mass * scale
    new = where_greater(mass, zero, where_greater(new, floor, new, floor), zero)
    store(sweep.current, state * uint64(LANES), new)
    return where_greater(distance(new, old), old * splat(TOLERANCE), splat(1.0), zero)


@njit(cache=True, nogil=True, _nrt=False, inline="always")
def _go_on(machine, sweep, k, tokens, changed, here):  # type: ignore[no-untyped-def]
    """Where lane k goes after a step. Did its message restart, or can it not end so?"""
    j, i = sweep.place[k], sweep.turn[k]
    while 0 <= i < changed.shape[0] and changed[i] * sweep.step <= j * sweep.step:
        i += sweep.step
    sweep.turn[k] = i
    met = sweep.restarted[k]
    if sweep.moved[k] == 0:
        return _aim(machine, sweep, k, tokens, changed, here) or met
    j += sweep.step
    if j == _last(sweep, tokens):
        met |= _ends_badly(machine, sweep, k, tokens, here)
        _rest(machine, sweep, k)
    else:
        _place(machine, sweep, k, tokens, j)
    return met


@njit(cache=True, nogil=True, _nrt=False, inline="always")
def _aim(machine, sweep, k, tokens, changed, here):  # type: ignore[no-untyped-def]
    """Send lane k to the next of its changed positions, or to rest. Is the end of the row such that it cannot end?"""
    states, met = here.shape[0], False
    while 0 <= sweep.turn[k] < changed.shape[0]:
        j = changed[sweep.turn[k]]
        if j != _last(sweep, tokens):
            begin = (k * tokens.shape[0] + j) * states
            for s in range(states):
                sweep.current[LANES * s + k] = sweep.messages[begin + s]
            _place(machine, sweep, k, tokens, j)
            return met
        met |= _ends_badly(machine, sweep, k, tokens, here)
        sweep.turn[k] += sweep.step
    _rest(machine, sweep, k)
    return met


@njit(cache=True, nogil=True, _nrt=False, inline="always")
def _place(machine, sweep, k, tokens, j):  # type: ignore[no-untyped-def]
    states = machine.initial.shape[0]
    sweep.place[k], sweep.active[k] = j, True
    sweep.column_at[k] = tokens[j] * states
    sweep.message_at[k] = (k * tokens.shape[0] + j + sweep.step) * states


@njit(cache=True, nogil=True, _nrt=False, inline="always")
def _rest(machine, sweep, k):  # type: ignore[no-untyped-def]
    """An idle lane multiplies ones, and writes where nobody reads."""
    states = machine.initial.shape[0]
    sweep.active[k] = False
    sweep.column_at[k] = (machine.column_start.shape[0] - 1) * states
    sweep.message_at[k] = sweep.messages.shape[0] - states
    for s in range(states):
        sweep.current[LANES * s + k] = 1.0


@njit(cache=True, nogil=True, _nrt=False, inline="always")
def _last(sweep, tokens):  # type: ignore[no-untyped-def]
    return tokens.shape[0] - 1 if sweep.step == 1 else 0


@njit(cache=True, nogil=True, _nrt=False, inline="always")
def _ends_badly(machine, sweep, k, tokens, here):  # type: ignore[no-untyped-def]
    """Forwards: whether the last message, weighed, is impossible there or cannot be the last."""
    if sweep.step == -1:
        return False
    last = tokens.shape[0] - 1
    restarted = weigh(machine, sweep.messages, k * tokens.shape[0] + last, tokens[last], here)
    return restarted or not ends(machine.final, here)
