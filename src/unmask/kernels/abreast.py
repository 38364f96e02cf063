"""Eight rows filled at once, side by side in the lanes of a vector, each at its own position.

A sweep is a chain of products that wait for each other. Eight independent sweeps hide that latency, and an edge of a
sparse machine costs one instruction for all of them. Lanes do not wait for each other: a lane draws its next step when
both of its sweeps have ended, and takes the next row when its row is complete. The result of a lane does not depend on
the other lanes, and equals that of filling.py bit for bit.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import uint64

from unmask.core.compiled import kernel
from unmask.kernels import lockstep
from unmask.kernels.filling import Beside, begin_row, beside, skip, step_end, write
from unmask.kernels.lanes import (
    LANES,
    distance,
    distribute,
    load,
    load_offsets,
    splat,
    store,
    transposed,
    where_greater,
)
from unmask.kernels.lockstep import Lockstep, Sparse
from unmask.kernels.machine import Flags, Floats, Indices, Ints, Machine, aligned
from unmask.kernels.messages import FLOOR, TOLERANCE, ends, marginal, weigh


class Sweeps(NamedTuple):
    """Eight sweeps in one direction, one per lane."""

    step: int  # 1 forwards, -1 backwards
    columns: Floats  # ((V+1)*S): the evidence
    matrix: Sparse  # moves a message by one position
    messages: Floats  # (8*L*S + S): one row per lane, and space that idle lanes write to
    current: Floats  # (S*8): the message at each lane's position
    here: Floats  # (S*8): the current message times the evidence
    sound: Floats  # (8): 0 if the last message restarted
    moved: Floats  # (8): entries of each lane's new message that disagree with the old one
    column_at: Indices  # (8): start of the emission column of each lane's token
    message_at: Indices  # (8): start of each lane's next message
    place: Ints  # (8): the position of each lane
    turn: Ints  # (8): index of the next changed position
    active: Flags  # (8)


class Scratch(NamedTuple):
    ahead: Sweeps
    behind: Sweeps
    row: Ints  # (8): the row that each lane fills
    begin: Ints  # (8): start of its step in the order of the row
    end: Ints  # (8): end of its step
    dead: Flags  # (8): whether its context is impossible
    beside: Beside


def scratch(machine: Machine, eight: Lockstep, length: int) -> Scratch:
    """Scratch memory of `by_messages`, with every lane at the end of a row."""
    states = len(eight.initial)

    def sweeps(step: int, matrix: Sparse) -> Sweeps:
        return Sweeps(
            step,
            eight.columns,
            matrix,
            messages=aligned((LANES * length * states + states,)),
            current=aligned((states * LANES,)),
            here=aligned((states * LANES,)),
            sound=aligned((LANES,)),
            moved=aligned((LANES,)),
            column_at=np.full(LANES, len(eight.columns) - states, np.uint64),
            message_at=np.full(LANES, LANES * length * states, np.uint64),
            place=np.zeros(LANES, np.int64),
            turn=np.zeros(LANES, np.int64),
            active=np.zeros(LANES, bool),
        )

    row, begin, end = np.zeros(LANES, np.int64), np.zeros(LANES, np.int64), np.full(LANES, length)
    both = sweeps(1, eight.push), sweeps(-1, eight.pull)
    return Scratch(*both, row, begin, end, np.zeros(LANES, bool), beside(machine, length))


@kernel(_nrt=False)
def by_messages(machine, blank, scratch, tokens, order, rng, visits, probability, model_calls, impossible):  # type: ignore[no-untyped-def]
    """`filling.by_messages` for eight rows at once."""
    (steps, positions), (ahead, behind, row, begin, end, dead, beside) = order, scratch
    length, here, distribution = tokens.shape[1], beside.here, beside.distribution
    width = length * here.shape[0]
    next_row, busy = 0, True
    while busy:
        busy = False
        for k in range(LANES):
            forward = ahead.messages[k * width : (k + 1) * width]
            backward = behind.messages[k * width : (k + 1) * width]
            while not (ahead.active[k] or behind.active[k]):
                if end[k] == length:
                    if next_row == tokens.shape[0]:
                        break
                    b = row[k] = next_row
                    next_row += 1
                    end[k] = skip(steps[b])
                    dead[k] = begin_row(machine, tokens[b], blank, forward, backward, beside)
                    continue
                b = row[k]
                dead[k] |= _ends_badly(machine, forward, tokens[b], here)
                begin[k], end[k] = end[k], step_end(steps[b], end[k])
                changed = positions[b, begin[k] : end[k]]
                model_calls[b] += 1
                if dead[k] and impossible[b] == 0:
                    impossible[b] = model_calls[b]
                for j in changed:
                    marginal(machine, forward, j, backward, j, distribution, here)
                    tokens[b, j] = write(distribution, rng, b, j, visits, probability)
                ahead.turn[k], behind.turn[k] = 0, changed.shape[0] - 1
                _aim(ahead, k, tokens[b], changed, here.shape[0])
                _aim(behind, k, tokens[b], changed, here.shape[0])
            busy |= ahead.active[k] or behind.active[k]
        _advance(ahead, uint64(here.shape[0]))
        _advance(behind, uint64(here.shape[0]))
        for k in range(LANES):
            changed = positions[row[k], begin[k] : end[k]]
            if ahead.active[k]:
                dead[k] |= ahead.sound[k] == 0.0
                _continue(ahead, k, tokens[row[k]], changed, here.shape[0])
            if behind.active[k]:
                _continue(behind, k, tokens[row[k]], changed, here.shape[0])


@kernel(_nrt=False, forceinline=True)
def _ends_badly(machine, forward, tokens, here):  # type: ignore[no-untyped-def]
    """Whether the last forward message is impossible with the last token, or no sequence can end there."""
    last = tokens.shape[0] - 1
    restarted = weigh(machine, forward, last, tokens[last], here)
    return restarted or not ends(machine.final, here)


@kernel(_nrt=False, forceinline=True)
def _advance(sweep, states):  # type: ignore[no-untyped-def]
    """Compute every lane's next message from the current one; store it as the new current message."""
    zero, one, begin = splat(0.0), splat(1.0), uint64(0)
    tokens = load_offsets(sweep.column_at, begin)
    weighed = lockstep.weigh(sweep.columns, tokens, sweep.current, begin, states, sweep.here)
    lockstep.multiply(sweep.matrix, sweep.here, begin, sweep.current)
    total = _total(sweep.current, states)
    lockstep.normalize(sweep.current, total, 1.0 / states, FLOOR, states, sweep.current, begin)
    store(sweep.moved, begin, _replace(sweep.current, states, sweep.messages, load_offsets(sweep.message_at, begin)))
    store(sweep.sound, begin, where_greater(weighed, zero, where_greater(total, zero, one, zero), zero))


@kernel(_nrt=False)
def _total(current, states):  # type: ignore[no-untyped-def]
    """The sum of each lane, in the order of `messages.total_of`."""
    a, b, c, d = splat(0.0), splat(0.0), splat(0.0), splat(0.0)
    e, f, g, h = splat(0.0), splat(0.0), splat(0.0), splat(0.0)
    for first in range(uint64(0), states * uint64(LANES), uint64(LANES * LANES)):
        a += load(current, first)
        b += load(current, first + uint64(LANES))
        c += load(current, first + uint64(2 * LANES))
        d += load(current, first + uint64(3 * LANES))
        e += load(current, first + uint64(4 * LANES))
        f += load(current, first + uint64(5 * LANES))
        g += load(current, first + uint64(6 * LANES))
        h += load(current, first + uint64(7 * LANES))
    return ((a + b) + (c + d)) + ((e + f) + (g + h))


@kernel(_nrt=False)
def _replace(current, states, messages, at):  # type: ignore[no-untyped-def]
    """Write each lane's current message to messages; count the entries that disagree with the replaced ones."""
    moved = splat(0.0)
    for s in range(uint64(0), states, uint64(LANES)):
        a, b, c, d, e, f, g, h = transposed(messages, at, s)
        moved += _disagrees(current, s, a)
        moved += _disagrees(current, s + uint64(1), b)
        moved += _disagrees(current, s + uint64(2), c)
        moved += _disagrees(current, s + uint64(3), d)
        moved += _disagrees(current, s + uint64(4), e)
        moved += _disagrees(current, s + uint64(5), f)
        moved += _disagrees(current, s + uint64(6), g)
        moved += _disagrees(current, s + uint64(7), h)
        distribute(messages, at, s, current, s * uint64(LANES))
    return moved


@kernel(_nrt=False)
def _disagrees(current, state, old):  # type: ignore[no-untyped-def]
    apart = distance(load(current, state * uint64(LANES)), old)
    return where_greater(apart, old * splat(TOLERANCE), splat(1.0), splat(0.0))


@kernel(_nrt=False, forceinline=True)
def _continue(sweep, k, tokens, changed, states):  # type: ignore[no-untyped-def]
    """Move lane k to the next position; if its message did not change, to the next changed position."""
    j, i = sweep.place[k] + sweep.step, sweep.turn[k]
    while 0 <= i < changed.shape[0] and changed[i] * sweep.step < j * sweep.step:
        i += sweep.step
    sweep.turn[k] = i
    if sweep.moved[k] == 0.0:
        _aim(sweep, k, tokens, changed, states)
    else:
        _place(sweep, k, tokens, j, states)


@kernel(_nrt=False, forceinline=True)
def _aim(sweep, k, tokens, changed, states):  # type: ignore[no-untyped-def]
    """Move lane k to the next of its changed positions, or to rest."""
    if 0 <= sweep.turn[k] < changed.shape[0]:
        j = changed[sweep.turn[k]]
        begin = (k * tokens.shape[0] + j) * states
        for s in range(states):
            sweep.current[LANES * s + k] = sweep.messages[begin + s]
        _place(sweep, k, tokens, j, states)
    else:
        _rest(sweep, k, states)


@kernel(_nrt=False, forceinline=True)
def _place(sweep, k, tokens, j, states):  # type: ignore[no-untyped-def]
    """Start lane k's next message at j; at the end of the row the lane rests and writes to unused memory."""
    length, following = tokens.shape[0], j + sweep.step
    sweep.place[k], sweep.active[k] = j, 0 <= following < length
    if sweep.active[k]:
        sweep.column_at[k] = tokens[j] * states
        sweep.message_at[k] = (k * length + following) * states
    else:
        _rest(sweep, k, states)


@kernel(_nrt=False, forceinline=True)
def _rest(sweep, k, states):  # type: ignore[no-untyped-def]
    sweep.active[k] = False
    sweep.column_at[k] = sweep.columns.shape[0] - states
    sweep.message_at[k] = sweep.messages.shape[0] - states
