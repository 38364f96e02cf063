"""Generation by an order, one row after another.

Each step of a row does the work of `Canvas.at`, `draw` and `reveal`: compute the marginals at its positions, draw a
token for each, and update the messages. Rows are independent, so only the messages of one row are in memory; they stay
in the processor's cache.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from unmask.core.chance import draw, uniform_at
from unmask.core.compiled import kernel
from unmask.languages.kernels.machine import Flags, Floats, Ints, Machine, aligned
from unmask.languages.kernels.messages import marginal, sweep_backward, sweep_forward


class Beside(NamedTuple):
    """Scratch memory of a row, in addition to its messages."""

    restarts: Flags  # (L)
    everywhere: Ints  # (L): 0 .. L-1
    here: Floats  # (S)
    there: Floats  # (S)
    distribution: Floats  # (V)


class Scratch(NamedTuple):
    """Scratch memory of one row, used for all rows."""

    forward: Floats  # (L*S)
    backward: Floats  # (L*S)
    beside: Beside


def scratch(machine: Machine, length: int) -> Scratch:
    return Scratch(aligned((length * machine.states,)), aligned((length * machine.states,)), beside(machine, length))


def beside(machine: Machine, length: int) -> Beside:
    here, there = aligned((machine.states,)), aligned((machine.states,))
    return Beside(np.zeros(length, bool), np.arange(length), here, there, np.empty(machine.vocabulary))


@kernel(_nrt=False)
def by_messages(machine, blank, scratch, tokens, order, rng, visits, probability, model_calls, impossible):  # type: ignore[no-untyped-def]
    """Fill tokens (B, L) by order: (step, position) (B, L), sorted by step; step 0 marks positions to leave alone.

    blank (2, L*S): the messages of a canvas without revealed tokens. `rng`: (seed, stream, row_ids (B)). Increments
    visits (B, L). Sets the probability (B, L) of each token, and for each row its model calls (B) and the first of them
    with an impossible context (B), or 0.
    """
    results = rng, visits, probability, model_calls, impossible
    for b in range(tokens.shape[0]):
        complete_row(machine, blank, scratch, b, skip(order[0][b]), tokens, order, results)


@kernel(_nrt=False)
def complete_row(machine, blank, scratch, b, begin, tokens, order, results):  # type: ignore[no-untyped-def]
    """`by_messages` for row b, from index `begin` in its order."""
    (steps, positions), (forward, backward, beside) = order, scratch
    rng, visits, probability, model_calls, impossible = results
    dead = begin_row(machine, tokens[b], blank, forward, backward, beside)
    while begin < tokens.shape[1]:
        end = step_end(steps[b], begin)
        model_calls[b] += 1
        if dead and impossible[b] == 0:
            impossible[b] = model_calls[b]
        changed = positions[b, begin:end]
        for j in changed:
            marginal(machine, forward, j, backward, j, beside.distribution, beside.here)
            tokens[b, j] = write(beside.distribution, rng, b, j, visits, probability)
        dead |= _sweep(machine, tokens[b], forward, backward, beside, changed)
        begin = end


@kernel(_nrt=False)
def begin_row(machine, tokens, blank, forward, backward, beside):  # type: ignore[no-untyped-def]
    """Compute the messages (L*S) of a row before its first step. Return whether its context is impossible."""
    untouched = True
    for token in tokens:
        untouched &= token == machine.column_start.shape[0] - 1
    for i in range(forward.shape[0]):
        forward[i] = blank[0, i]
        backward[i] = blank[1, i]
    return not untouched and _sweep(machine, tokens, forward, backward, beside, beside.everywhere)


@kernel(_nrt=False)
def _sweep(machine, tokens, forward, backward, beside, changed):  # type: ignore[no-untyped-def]
    """Update both messages from the changed positions. Return whether the context is impossible."""
    sweep_backward(machine, tokens, backward, changed, beside.here, beside.there)
    return sweep_forward(machine, tokens, forward, beside.restarts, changed, beside.here, beside.there)


@kernel(_nrt=False)
def skip(steps):  # type: ignore[no-untyped-def]
    """The index of the first position that is not in step 0."""
    begin = 0
    while begin < steps.shape[0] and steps[begin] == 0:
        begin += 1
    return begin


@kernel(_nrt=False)
def step_end(steps, begin):  # type: ignore[no-untyped-def]
    """The end of the step that starts at begin."""
    end = begin + 1
    while end < steps.shape[0] and steps[end] == steps[begin]:
        end += 1
    return end


@kernel(_nrt=False, forceinline=True)
def write(distribution, rng, b, j, visits, probability):  # type: ignore[no-untyped-def]
    """Draw a token from the marginal distribution (V), with a random number that no earlier draw has used."""
    seed, stream, row_ids = rng
    token = draw(distribution, uniform_at(seed, stream, row_ids[b], j, visits[b, j]))
    visits[b, j] += 1
    probability[b, j] = distribution[token]
    return token
