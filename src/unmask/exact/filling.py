"""Whole generations by an order: each row is filled from beginning to end while its messages are near.

For every round of a row, as `Canvas.at`, `draw` and `reveal` would have it one after another: the marginals at the
round's positions, a token for each, and a sweep from what has changed. A row needs no other row, so that one row's
messages are all the memory, and they stay in the cache.
"""

from __future__ import annotations

import numpy as np
from numba import types
from numba.extending import overload

from unmask.chance import draw, uniform_at
from unmask.compiled import kernel
from unmask.exact import chain, interval
from unmask.exact.messages import fill_backward, fill_forward, marginal, sweep_backward, sweep_forward


@kernel
def by_messages(machine, blank, scratch, tokens, order, luck, visits, probability, evaluations, impossible):  # type: ignore[no-untyped-def]
    """Fill tokens (B, L) by order: (rounds, positions) (B, L), sorted by round, which is 0 where nothing is asked for.

    blank (2, L*S): the messages of a canvas that hides everything; scratch: as many again, and (2, S), in which one
    row is filled after another. luck: (seed, stream, row_ids (B)). Counted up are visits (B, L); set are the
    probability (B, L) of each token, and for each row the evaluations that it needed and the first of them that met
    an impossible context, or 0.
    """
    length = tokens.shape[1]
    rounds, positions = order
    messages, pair = scratch
    forward, backward, here, there = messages[0], messages[1], pair[0], pair[1]
    restarts, out = np.zeros(length, np.bool_), np.empty(machine.column_start.shape[0] - 1)
    for b in range(tokens.shape[0]):
        row, places = tokens[b], positions[b]
        dead = begin_row(machine, row, blank, forward, backward, restarts, pair)
        begin = skip(rounds[b])
        while begin < length:
            end = round_end(rounds[b], begin)
            evaluations[b] += 1
            if dead and impossible[b] == 0:
                impossible[b] = evaluations[b]
            for j in places[begin:end]:
                marginal(machine, forward, j, backward, j, out, here)
                row[j] = write(out, luck, b, j, visits, probability)
            changed = places[begin:end]
            dead |= sweep_forward(machine, row, forward, restarts, changed, here, there)
            sweep_backward(machine, row, backward, changed, here, there)
            begin = end


@kernel
def by_neighbours(tables, dead, tokens, order, luck, visits, probability, evaluations, impossible):  # type: ignore[no-untyped-def]
    """The same where the tokens themselves are all that a marginal needs; dead (B) is carried on."""
    length, out = tokens.shape[1], np.empty(_vocabulary(tables))
    rounds, positions = order
    drawn = np.empty(length, np.int64)
    for b in range(tokens.shape[0]):
        row, places = tokens[b], positions[b]
        begin = skip(rounds[b])
        while begin < length:
            end = round_end(rounds[b], begin)
            evaluations[b] += 1
            if dead[b] and impossible[b] == 0:
                impossible[b] = evaluations[b]
            for i in range(begin, end):  # nobody sees what the same round writes
                _marginal(tables, row, places[i], out)
                drawn[i] = write(out, luck, b, places[i], visits, probability)
            for i in range(begin, end):
                row[places[i]] = drawn[i]
            for i in range(begin, end):
                dead[b] |= _contradicts(tables, row, places[i])
            begin = end


@kernel(_nrt=False)
def begin_row(machine, row, blank, forward, backward, restarts, scratch):  # type: ignore[no-untyped-def]
    """The messages (L*S) of a row before its first round. Is its context impossible?"""
    untouched, dead = True, False
    for token in row:
        untouched &= token == machine.column_start.shape[0] - 1
    if untouched:
        for i in range(forward.shape[0]):
            forward[i] = blank[0, i]
            backward[i] = blank[1, i]
    else:
        fill_forward(machine, row, forward, restarts, scratch[0], scratch[1])
        fill_backward(machine, row, backward, scratch[0], scratch[1])
    for j in range(row.shape[0]):
        restarts[j] &= not untouched
        dead |= restarts[j]
    return dead


@kernel(_nrt=False)
def skip(rounds):  # type: ignore[no-untyped-def]
    """Where what is asked for begins."""
    begin = 0
    while begin < rounds.shape[0] and rounds[begin] == 0:
        begin += 1
    return begin


@kernel(_nrt=False)
def round_end(rounds, begin):  # type: ignore[no-untyped-def]
    end = begin + 1
    while end < rounds.shape[0] and rounds[end] == rounds[begin]:
        end += 1
    return end


@kernel(forceinline=True)
def write(out, luck, b, j, visits, probability):  # type: ignore[no-untyped-def]
    """A token from the marginal out (V), from luck that no earlier draw here has used."""
    seed, stream, row_ids = luck
    token = draw(out, uniform_at(seed, stream, row_ids[b], j, visits[b, j]))
    visits[b, j] += 1
    probability[b, j] = out[token]
    return token


def _vocabulary(tables):  # type: ignore[no-untyped-def]
    """V; like the next two of a chain's tables, or of the interval language's width."""


def _marginal(tables, row, j, out):  # type: ignore[no-untyped-def]
    """out (V) at hidden place j of row (L)."""


def _contradicts(tables, row, j):  # type: ignore[no-untyped-def]
    """Whether what stands at place j disagrees with what stands around it."""


def _is_chain(tables):  # type: ignore[no-untyped-def]
    return isinstance(tables, types.BaseTuple)


@overload(_vocabulary)
def _(tables):  # type: ignore[no-untyped-def]
    return (lambda tables: tables.powers.shape[1]) if _is_chain(tables) else (lambda tables: 1 << (tables - 1))


@overload(_marginal)
def _(tables, row, j, out):  # type: ignore[no-untyped-def]
    kernel = chain.marginal if _is_chain(tables) else interval.marginal
    return lambda tables, row, j, out: kernel(tables, row, j, out)


@overload(_contradicts)
def _(tables, row, j):  # type: ignore[no-untyped-def]
    kernel = chain.contradicts if _is_chain(tables) else interval.contradicts
    return lambda tables, row, j: kernel(tables, row, j)
