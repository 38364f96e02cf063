"""Passes over eight rows of a machine side by side, in full vectors for any pattern of edges.

A message is S times eight doubles, one for each state and row, so an edge is the product of a vector and a number.
Operations treat each lane separately, so the result of a row does not depend on the other rows. The last eight rows are
filled up with copies of a row. Each lane follows the rules of `messages`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import uint64

from unmask.core.chance import uniform_at
from unmask.core.compiled import inner, kernel
from unmask.languages.kernels.lanes import (
    LANES,
    all_positive,
    load,
    load_offsets,
    splat,
    store,
    transposed,
    where_greater,
)
from unmask.languages.kernels.machine import Floats, Indices, Ints, Machine
from unmask.languages.kernels.messages import FLOOR
from unmask.languages.kernels.paths import EVIDENCE_FLOOR

SLICE = 4  # sums that are computed together, which hides the latency of an addition


class Sparse(NamedTuple):
    """A matrix M as the sums over s of here(s) M(s, t), sorted by their number of terms and cut into slices of four.

    The terms of a slice are interleaved, four at a time. Shorter sums end in zeros. Sums that fill up the last slice
    are zero and come after the others.
    """

    start: Indices  # (slices+1)
    target: Indices  # (slices*4): start of the eight lanes of each sum
    source: Indices  # (terms): start of the eight lanes of s
    weight: Floats  # (terms)


class Lockstep(NamedTuple):
    """A machine whose S states are padded with impossible ones to P, a multiple of eight."""

    even: float  # 1 / S
    initial: Floats  # (P)
    final: Floats  # (P)
    columns: Floats  # ((V+1)*P)
    push: Sparse  # transitions
    pull: Sparse  # their transpose
    emit: Sparse  # emission


def lockstep(machine: Machine) -> Lockstep:
    states, source, target = machine.states, machine.edge_source, machine.edge_target
    symbol = np.repeat(np.arange(machine.vocabulary), np.diff(machine.column_start))
    return Lockstep(
        1.0 / states,
        _filled_up(machine.initial),
        _filled_up(machine.final),
        _filled_up(machine.columns.reshape(-1, states)).reshape(-1),
        sparse(source, target, machine.edge_weight, states),
        sparse(target, source, machine.edge_weight, states),
        sparse(machine.column_state, symbol, machine.column_weight, machine.vocabulary),
    )


def _filled_up(values: Floats) -> Floats:
    """(.., S) padded with zeros to (.., P)."""
    return np.pad(values, [(0, 0)] * (values.ndim - 1) + [(0, -values.shape[-1] % LANES)])


def sparse(source: Ints, target: Ints, weight: Floats, sums: int) -> Sparse:
    counts = np.bincount(target, minlength=sums)
    slices = -(-sums // SLICE)
    owner = np.full(slices * SLICE, sums)
    owner[:sums] = np.argsort(counts, kind="stable")
    longest = np.append(counts, 0)[owner].reshape(slices, SLICE).max(1)

    start = np.concatenate([[0], np.cumsum(longest * SLICE)])
    first = np.empty(sums + 1, np.int64)  # start of the terms of each sum
    first[owner] = (start[:-1, None] + np.arange(SLICE)).reshape(-1)

    # the n-th term of a sum is SLICE places behind the one before it
    order = np.argsort(target, kind="stable")
    rank = np.arange(len(target)) - np.repeat(np.cumsum(counts) - counts, counts)
    at = first[target[order]] + rank * SLICE

    sources = np.zeros(start[-1], np.uint64)
    weights = np.zeros(start[-1])
    sources[at] = source[order] * LANES
    weights[at] = weight[order]
    return Sparse(start.astype(np.uint64), (owner * LANES).astype(np.uint64), sources, weights)


@inner
def multiply(matrix, here, at, there):  # type: ignore[no-untyped-def]
    """Set there(t) = sum_s here(s) M(s, t), where here starts at `at`. Return the total."""
    start, target, source, weight = matrix
    total = splat(0.0)
    for i in range(uint64(start.shape[0] - 1)):
        a, b, c, d = splat(0.0), splat(0.0), splat(0.0), splat(0.0)
        for e in range(start[i], start[i + uint64(1)], uint64(SLICE)):
            a += splat(weight[e]) * load(here, at + source[e])
            b += splat(weight[e + uint64(1)]) * load(here, at + source[e + uint64(1)])
            c += splat(weight[e + uint64(2)]) * load(here, at + source[e + uint64(2)])
            d += splat(weight[e + uint64(3)]) * load(here, at + source[e + uint64(3)])

        t = i * uint64(SLICE)
        store(there, target[t], a)
        store(there, target[t + uint64(1)], b)
        store(there, target[t + uint64(2)], c)
        store(there, target[t + uint64(3)], d)
        total += (a + b) + (c + d)
    return total


@inner
def weigh(columns, offsets, message, at, states, here):  # type: ignore[no-untyped-def]
    """Set here = the message at `at` times the evidence, or the evidence alone if that product is zero.

    Return the total of the product. offsets: the start of the emission column of each lane's token.
    """
    total = _times_columns(columns, offsets, message, at, states, here)
    if not all_positive(total):
        for s in range(uint64(states)):
            mass = load(message, at + s * uint64(LANES))
            store(here, s * uint64(LANES), where_greater(total, splat(0.0), mass, splat(1.0)))
        _times_columns(columns, offsets, here, uint64(0), states, here)
    return total


@inner
def _times_columns(columns, offsets, message, at, states, here):  # type: ignore[no-untyped-def]
    """Set here = the message at `at` times the evidence. Return its total.

    The tuple is unpacked, because indexing it would take time.
    """
    total = splat(0.0)
    for s in range(uint64(0), uint64(states), uint64(LANES)):
        a, b, c, d, e, f, g, h = transposed(columns, offsets, s)
        total += _times(message, at, s, a, here)
        total += _times(message, at, s + uint64(1), b, here)
        total += _times(message, at, s + uint64(2), c, here)
        total += _times(message, at, s + uint64(3), d, here)
        total += _times(message, at, s + uint64(4), e, here)
        total += _times(message, at, s + uint64(5), f, here)
        total += _times(message, at, s + uint64(6), g, here)
        total += _times(message, at, s + uint64(7), h, here)
    return total


@inner
def _times(message, at, state, evidence, here):  # type: ignore[no-untyped-def]
    mass = load(message, at + state * uint64(LANES)) * evidence
    store(here, state * uint64(LANES), mass)
    return mass


@inner
def normalize(there, total, even, floor, states, message, at):  # type: ignore[no-untyped-def]
    """Set the message at `at` = there / total, with possible entries raised to the floor; `even` if none is possible.

    Return a positive number in the lanes in which an entry was raised.
    """
    zero, least = splat(0.0), splat(floor)
    scale = splat(1.0) / total
    below = splat(0.0)
    for s in range(uint64(states)):
        mass = load(there, s * uint64(LANES))
        scaled = mass * scale
        lifted = where_greater(scaled, least, scaled, least)
        store(message, at + s * uint64(LANES), where_greater(mass, zero, lifted, zero))
        below += where_greater(mass, zero, lifted - scaled, zero)

    if not all_positive(total):
        for s in range(uint64(states)):
            place = at + s * uint64(LANES)
            store(message, place, where_greater(total, zero, load(message, place), splat(even)))
    return below


@inner
def _distribution(emit, product, message, at, distribution, spare, out, begin):  # type: ignore[no-untyped-def]
    """Set out(v), from `begin` on, ~ sum_s product(s) E(s, v); if that is zero, ~ sum_s message(s) E(s, v)."""
    symbols = uint64(distribution.shape[0] // LANES - 1)
    zero = splat(0.0)
    total = multiply(emit, product, uint64(0), distribution)

    if not all_positive(total):
        alone = multiply(emit, message, at, spare)
        for v in range(symbols):
            place = v * uint64(LANES)
            store(distribution, place, where_greater(total, zero, load(distribution, place), load(spare, place)))
        total = where_greater(total, zero, total, alone)

    scale = splat(1.0) / total
    for v in range(symbols):
        store(out, begin + v * uint64(LANES), load(distribution, v * uint64(LANES)) * scale)


@inner
def _spread(values, out):  # type: ignore[no-untyped-def]
    for s in range(uint64(values.shape[0])):
        store(out, s * uint64(LANES), splat(values[s]))


@inner
def locate(tokens, first, states, offsets):  # type: ignore[no-untyped-def]
    """Set offsets (L*8): the starts of the emission columns of the tokens (B, L) of eight rows, from `first` on."""
    for r in range(LANES):
        b = min(first + r, tokens.shape[0] - 1)
        for j in range(tokens.shape[1]):
            offsets[j * LANES + r] = tokens[b, j] * states


@kernel
def evidence_rows(machine, tokens, scratch, out):  # type: ignore[no-untyped-def]
    """`paths.evidence_rows`, but NaN for a row in which a mass fell below the floor."""
    offsets, totals, here, there = scratch
    length = tokens.shape[1]
    for first in range(0, tokens.shape[0], LANES):
        locate(tokens, first, machine.initial.shape[0], offsets)
        store(there, uint64(0), filter_eight(machine, length, offsets, totals, here, there))
        for b in range(first, min(first + LANES, tokens.shape[0])):
            log_mass = 0.0
            for j in range(length + 1):
                log_mass += np.log(totals[j * LANES + b - first])
            out[b] = np.nan if there[b - first] > 0.0 and log_mass > -np.inf else log_mass


@inner
def filter_eight(machine, length, offsets, totals, here, there):  # type: ignore[no-untyped-def]
    """Set totals ((L+1)*8): the factors by which each position, and the end, reduce the mass of all paths.

    Return a positive number in the lanes in which a mass fell below the floor.
    """
    below = splat(0.0)
    states = machine.initial.shape[0]
    zero = uint64(0)
    _spread(machine.initial, there)
    for j in range(uint64(length)):
        if j > zero:
            multiply(machine.push, here, zero, there)
        total = weigh(machine.columns, load_offsets(offsets, j * uint64(LANES)), there, zero, states, here)
        store(totals, j * uint64(LANES), total)
        below += normalize(here, total, machine.even, EVIDENCE_FLOOR, states, here, zero)

    ending = splat(0.0)
    for s in range(uint64(states)):
        ending += splat(machine.final[s]) * load(here, s * uint64(LANES))
    store(totals, uint64(length * LANES), ending)
    return below


@kernel
def posterior_rows(machine, tokens, positions, scratch, out):  # type: ignore[no-untyped-def]
    """`messages.posterior_rows`."""
    offsets, forward, distributions, backward, here, there, distribution, spare = scratch
    vocabulary = out.shape[2]
    requested = np.empty(tokens.shape[1], np.bool_)
    for first in range(0, tokens.shape[0], LANES):
        rows = range(first, min(first + LANES, tokens.shape[0]))
        requested[:] = False
        for b in rows:
            for j in positions[b]:
                requested[j] |= tokens[b, j] == vocabulary

        locate(tokens, first, machine.initial.shape[0], offsets)
        fill_forward(machine, tokens.shape[1], offsets, forward, here, there)
        fill_distributions(
            machine, requested, offsets, forward, distributions, backward, here, there, distribution, spare
        )

        for b in rows:
            for k in range(positions.shape[1]):
                j = positions[b, k]
                if tokens[b, j] == vocabulary:
                    for v in range(vocabulary):
                        out[b, k, v] = distributions[(j * vocabulary + v) * LANES + b - first]
                else:
                    out[b, k] = 0.0
                    out[b, k, tokens[b, j]] = 1.0


@inner
def fill_forward(machine, length, offsets, forward, here, there):  # type: ignore[no-untyped-def]
    """forward (L*S*8): the forward messages of eight rows."""
    states = machine.initial.shape[0]
    zero = uint64(0)
    width = uint64(states * LANES)
    _spread(machine.initial, forward)
    for j in range(uint64(length - 1)):
        weigh(machine.columns, load_offsets(offsets, j * uint64(LANES)), forward, j * width, states, here)
        total = multiply(machine.push, here, zero, there)
        normalize(there, total, machine.even, FLOOR, states, forward, (j + uint64(1)) * width)


@inner
def fill_distributions(machine, requested, offsets, forward, out, backward, here, there, distribution, spare):  # type: ignore[no-untyped-def]
    """Set `out` (L*V*8): the marginals of eight rows at the requested positions, during the backward pass."""
    states = machine.initial.shape[0]
    zero = uint64(0)
    width = uint64(states * LANES)
    j = uint64(requested.shape[0])
    _spread(machine.final, backward)
    while j > zero:
        j -= uint64(1)
        if requested[j]:
            for s in range(uint64(states)):
                place = s * uint64(LANES)
                store(here, place, load(forward, j * width + place) * load(backward, place))
            _distribution(
                machine.emit,
                here,
                forward,
                j * width,
                distribution,
                spare,
                out,
                j * uint64(distribution.shape[0] - LANES),
            )

        if j > zero:
            weigh(machine.columns, load_offsets(offsets, j * uint64(LANES)), backward, zero, states, here)
            total = multiply(machine.pull, here, zero, there)
            normalize(there, total, machine.even, FLOOR, states, backward, zero)


@kernel
def draw_rows(machine, ahead, rng, prefixes, scratch, tokens, probability):  # type: ignore[no-untyped-def]
    """`paths.draw_rows`. Eight rows start at the earliest end of their prefixes; each joins at its own end."""
    seed, stream, row_ids = rng
    offsets, chances, message, here, there, distribution, spare, distributions, drawn, masses = scratch
    length = ahead.shape[0]
    states = machine.initial.shape[0]
    zero = uint64(0)
    hidden = distributions.shape[0] // LANES
    rows = np.empty(LANES, np.int64)

    for first in range(0, tokens.shape[0], LANES):
        begin = length
        for r in range(LANES):
            b = min(first + r, tokens.shape[0] - 1)
            rows[r] = b
            begin = min(begin, prefixes.end[b])
            for j in range(prefixes.end[b], length):
                chances[j * LANES + r] = uniform_at(seed, stream, row_ids[b], j, np.int64(0))

        _spread(machine.initial, message)  # any value, for rows that have not joined yet
        for j in range(begin, length):
            for r in range(LANES):
                if j == prefixes.end[rows[r]]:
                    for s in range(ahead.shape[1]):
                        message[s * LANES + r] = prefixes.message[rows[r], s]

            for s in range(uint64(ahead.shape[1])):
                place = s * uint64(LANES)
                store(here, place, load(message, place) * splat(ahead[j, s]))
            _distribution(machine.emit, here, message, zero, distribution, spare, distributions, zero)
            draw_eight(distributions, load(chances, uint64(j * LANES)), drawn, masses)

            for r in range(LANES):
                b = rows[r]
                token = hidden
                if j == prefixes.end[b]:
                    token = prefixes.token[b]
                if j > prefixes.end[b] or (j == prefixes.end[b] and token == hidden):
                    token = int(drawn[r])
                    tokens[b, j] = token
                    probability[b, j] = masses[r]
                offsets[r] = token * states

            weigh(machine.columns, load_offsets(offsets, zero), message, zero, states, here)
            total = multiply(machine.push, here, zero, there)
            normalize(there, total, machine.even, FLOOR, states, message, zero)


@inner
def draw_eight(distributions, chance, drawn, masses):  # type: ignore[no-untyped-def]
    """`chance.draw` in each lane: the last possible symbol whose preceding masses sum to at most the threshold."""
    symbols = uint64(distributions.shape[0] // LANES)
    zero = splat(0.0)
    total, cumulative, token, probability = zero, zero, zero, zero
    for v in range(symbols):
        total += load(distributions, v * uint64(LANES))
    threshold = chance * total

    for v in range(symbols):
        mass = load(distributions, v * uint64(LANES))
        taken = where_greater(cumulative, threshold, zero, mass)
        token = where_greater(taken, zero, splat(float(v)), token)
        probability = where_greater(taken, zero, mass, probability)
        cumulative += mass

    store(drawn, uint64(0), token)
    store(masses, uint64(0), probability)
