"""Whole generations by an order: each row is filled from beginning to end while its messages are near.

For every round of a row, as `Canvas.at`, `draw` and `reveal` would have it one after another: the marginals at the
round's positions, a token for each, and a sweep from what has changed. A row needs no other row, so that one row's
messages are all the memory, and they stay in the cache.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from unmask.core.chance import draw, uniform_at
from unmask.core.compiled import kernel
from unmask.kernels.machine import Flags, Floats, Ints, Machine, aligned
from unmask.kernels.messages import marginal, sweep_backward, sweep_forward


class Beside(NamedTuple):
    """What stands beside a row's messages."""

    restarts: Flags  # (L)
    everywhere: Ints  # (L): 0 .. L-1
    here: Floats  # (S)
    there: Floats  # (S)
    law: Floats  # (V)


class Scratch(NamedTuple):
    """In which one row is filled after another."""

    forward: Floats  # (L*S)
    backward: Floats  # (L*S)
    beside: Beside


def scratch(machine: Machine, length: int) -> Scratch:
    return Scratch(aligned((length * machine.states,)), aligned((length * machine.states,)), beside(machine, length))


def beside(machine: Machine, length: int) -> Beside:
    here, there = aligned((machine.states,)), aligned((machine.states,))
    return Beside(np.zeros(length, bool), np.arange(length), here, there, np.empty(machine.vocabulary))


@kernel(_nrt=False)
def by_messages(machine, blank, scratch, tokens, order, luck, visits, probability, evaluations, impossible):  # type: ignore[no-untyped-def]
    """Fill tokens (B, L) by order: (rounds, positions) (B, L), sorted by round, which is 0 where nothing is asked for.

    blank (2, L*S): the messages of a canvas that hides everything. luck: (seed, stream, row_ids (B)). Counted up are
    visits (B, L); set are the probability (B, L) of each token, and for each row the evaluations that it needed and the
    first of them that met an impossible context, or 0.
    """
    (rounds, positions), length = order, tokens.shape[1]
    forward, backward, beside = scratch
    for b in range(tokens.shape[0]):
        dead = begin_row(machine, tokens[b], blank, forward, backward, beside)
        begin = skip(rounds[b])
        while begin < length:
            end = round_end(rounds[b], begin)
            evaluations[b] += 1
            if dead and impossible[b] == 0:
                impossible[b] = evaluations[b]
            changed = positions[b, begin:end]
            for j in changed:
                marginal(machine, forward, j, backward, j, beside.law, beside.here)
                tokens[b, j] = write(beside.law, luck, b, j, visits, probability)
            dead |= _sweep(machine, tokens[b], forward, backward, beside, changed)
            begin = end


@kernel(_nrt=False)
def begin_row(machine, tokens, blank, forward, backward, beside):  # type: ignore[no-untyped-def]
    """Whether the context of a row before its first round is impossible: its messages (L*S) made."""
    untouched = True
    for token in tokens:
        untouched &= token == machine.column_start.shape[0] - 1
    for i in range(forward.shape[0]):
        forward[i] = blank[0, i]
        backward[i] = blank[1, i]
    return not untouched and _sweep(machine, tokens, forward, backward, beside, beside.everywhere)


@kernel(_nrt=False)
def _sweep(machine, tokens, forward, backward, beside, changed):  # type: ignore[no-untyped-def]
    """Whether the context is impossible: both messages renewed from the changed positions."""
    sweep_backward(machine, tokens, backward, changed, beside.here, beside.there)
    return sweep_forward(machine, tokens, forward, beside.restarts, changed, beside.here, beside.there)


@kernel(_nrt=False)
def skip(rounds):  # type: ignore[no-untyped-def]
    """Where what is asked for begins."""
    begin = 0
    while begin < rounds.shape[0] and rounds[begin] == 0:
        begin += 1
    return begin


@kernel(_nrt=False)
def round_end(rounds, begin):  # type: ignore[no-untyped-def]
    """Where the round that begins here ends."""
    end = begin + 1
    while end < rounds.shape[0] and rounds[end] == rounds[begin]:
        end += 1
    return end


@kernel(_nrt=False, forceinline=True)
def write(law, luck, b, j, visits, probability):  # type: ignore[no-untyped-def]
    """A token from the marginal law (V), by luck that no earlier draw here has used."""
    seed, stream, row_ids = luck
    token = draw(law, uniform_at(seed, stream, row_ids[b], j, visits[b, j]))
    visits[b, j] += 1
    probability[b, j] = law[token]
    return token
