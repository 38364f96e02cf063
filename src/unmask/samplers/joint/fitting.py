"""Joints of an automaton and the marginals of a step: they are fitted, drawn and measured, eight rows side by side.

    J(x) ~ prod_i f_i(x_i) w(x)                w: the weight of the path, 0 where the automaton rejects x
    backward_i(s) = sum_v f_i(v) w(s, v) backward_(i+1)(s v)
    forward_(i+1)(t) = sum_(s v = t) forward_i(s) f_i(v) w(s, v)
    m_i(v) = f_i(v) c_i(v) / Z,  c_i(v) = sum_s forward_i(s) w(s, v) backward_(i+1)(s v)

A sweep of iterative proportional fitting goes from left to right and replaces f_i by p_i Z / c_i, so that m_i = p_i
there. All three sums run over the edges of the automaton, sorted by their sums. Messages are
normalized at each position. Lanes are treated separately, so a row does not depend on the others. v is one of V classes
of tokens: within a class, J is the marginal p itself.

A hidden position without an entry counts as the symbol V of an erased automaton. In a row with a single position to
draw, the others have f = 1 for each token and are not fitted: its marginal is then p, cut to the tokens that have a
completion.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numba import uint64

from unmask.core.chance import draw, uniform_at
from unmask.core.compiled import kernel
from unmask.languages.automata import Automaton
from unmask.languages.kernels.lanes import LANES, all_positive, distance, load, splat, store, where_greater
from unmask.languages.kernels.machine import Flags, Floats, Indices, Ints, aligned, starts_of

SMOOTH = 1e-6  # added to each probability where no allowed string is left
LESS = 0.9  # a sweep that leaves more than this part of the error is the last


class Sums(NamedTuple):
    """out(k) = sum over the edges e of k of weight(e) left(e) right(e); left and right begin at these lanes."""

    start: Indices
    left: Indices
    right: Indices
    weight: Floats


class Form(NamedTuple):
    """An automaton for kernels."""

    pull: Sums  # of each state: its symbols and their targets
    emit: Sums  # of each symbol: its sources and targets
    push: Sums  # of each target: its sources and symbols
    moves: Ints  # (S, V)
    weights: Floats  # (S, V)
    final: Floats  # (S)
    size: Floats  # (V): the tokens of each class


class Case(NamedTuple):
    """The rows of a step (R, L), and the result."""

    tokens: Ints  # (R, L): V where hidden
    entries: Ints  # (R, L): the row of the table with the marginals of each hidden position, or -1
    now: Flags  # (R, L): the positions that this step reveals
    single: Flags  # (R): whether it is only one, with its own marginal
    table: Floats  # (K, V)
    rows: Ints  # (R): numbers of the rows, for random numbers
    visits: Ints  # (R, L)
    seed: np.uint64
    stream: int
    values: Ints  # (R, L): the tokens drawn, or those to measure
    log: Floats  # (R): log J of the values
    fallen: Flags  # (R): whether the marginals excluded every allowed string, so that they were smoothed


class Scratch(NamedTuple):
    """Memory for eight rows; a number is eight lanes."""

    p: Floats  # (L, V): -1 where f is not fitted
    f: Floats  # (L, V)
    old: Floats  # (L, V)
    backward: Floats  # (L+1, S)
    scale: Floats  # (L): the normalizer of each backward message
    forward: Floats  # (S)
    following: Floats  # (S)
    c: Floats  # (V)
    alone: Floats  # (V), of one row


@lru_cache(maxsize=16)
def form(automaton: Automaton) -> Form:
    states, symbols = automaton.moves.shape
    source, symbol = np.nonzero(automaton.moves >= 0)
    target = automaton.moves[source, symbol]
    weights = np.ones((states, symbols)) if automaton.weights is None else automaton.weights

    def sums(key: Ints, groups: int, left: Ints, right: Ints) -> Sums:
        order = np.argsort(key, kind="stable")
        lefts, rights = ((part[order] * LANES).astype(np.uint64) for part in (left, right))
        return Sums(starts_of(key, groups).astype(np.uint64), lefts, rights, weights[source, symbol][order])

    return Form(
        sums(source, states, symbol, target),
        sums(symbol, symbols, source, target),
        sums(target, states, source, symbol),
        automaton.moves,
        np.ascontiguousarray(weights, np.float64),
        automaton.final.astype(np.float64),
        np.bincount(automaton.classes, minlength=symbols).astype(np.float64),
    )


def scratch(automaton: Automaton, length: int) -> Scratch:
    states, symbols = automaton.moves.shape
    table = length * symbols
    sizes = (table, table, table, (length + 1) * states, length, states, states, symbols)
    return Scratch._make([*(aligned((size * LANES,)) for size in sizes), np.zeros(symbols)])


@kernel(_nrt=False)
def _sum(sums, left, at_left, right, at_right, out, at):  # type: ignore[no-untyped-def]
    """Set out, from `at` on. Return the total."""
    start, lefts, rights, weight = sums
    total = splat(0.0)
    for k in range(uint64(start.shape[0] - 1)):
        mass = splat(0.0)
        for e in range(start[k], start[k + uint64(1)]):
            mass += splat(weight[e]) * load(left, at_left + lefts[e]) * load(right, at_right + rights[e])
        store(out, at + k * uint64(LANES), mass)
        total += mass
    return total


@kernel(_nrt=False)
def _divide(values, at, count, total):  # type: ignore[no-untyped-def]
    """Divide lanes by the total where it is positive; they become 0 elsewhere."""
    scale = where_greater(total, splat(0.0), splat(1.0) / total, splat(0.0))
    for k in range(uint64(count)):
        place = at + k * uint64(LANES)
        store(values, place, load(values, place) * scale)


@kernel(_nrt=False)
def pull(form, memory, length):  # type: ignore[no-untyped-def]
    """Set the backward messages. Return a vector that is positive in the lanes with an allowed string."""
    states, symbols = uint64(form.moves.shape[0]), uint64(form.moves.shape[1])
    width, lanes = states * uint64(LANES), uint64(LANES)
    end = uint64(length) * width
    for s in range(states):
        store(memory.backward, end + s * lanes, splat(form.final[s]))
    for back in range(uint64(length)):
        i = uint64(length) - uint64(1) - back
        here = i * width
        args = memory.f, i * symbols * lanes, memory.backward, here + width, memory.backward, here
        total = _sum(form.pull, *args)
        store(memory.scale, i * lanes, total)
        _divide(memory.backward, here, states, total)
    return load(memory.backward, uint64(0))


@kernel(_nrt=False)
def sweep(form, memory, length, active):  # type: ignore[no-untyped-def]
    """Fit f from left to right in the active lanes. Return the distance of the marginals from p before it."""
    states, symbols, lanes = uint64(form.moves.shape[0]), uint64(form.moves.shape[1]), uint64(LANES)
    zero, one, apart = splat(0.0), splat(1.0), splat(0.0)
    for s in range(states):
        store(memory.forward, s * lanes, one if s == uint64(0) else zero)
    for i in range(uint64(length)):
        at, ahead = i * symbols * lanes, (i + uint64(1)) * states * lanes
        _sum(form.emit, memory.forward, uint64(0), memory.backward, ahead, memory.c, uint64(0))
        z = splat(0.0)
        for v in range(symbols):
            z += load(memory.f, at + v * lanes) * load(memory.c, v * lanes)
        share = where_greater(z, zero, one / z, zero)
        norm = splat(0.0)
        for v in range(symbols):
            f, c, p = load(memory.f, at + v * lanes), load(memory.c, v * lanes), load(memory.p, at + v * lanes)
            m = f * c * share
            apart += distance(m, p)
            wanted = where_greater(active, zero, where_greater(p, splat(-0.5), p * z / c, f), f)
            new = where_greater(m, zero, wanted, f)
            norm += new
            store(memory.f, at + v * lanes, new)
        _divide(memory.f, at, symbols, norm)
        args = memory.forward, uint64(0), memory.f, at, memory.following, uint64(0)
        total = _sum(form.push, *args)
        _divide(memory.following, uint64(0), states, total)
        for s in range(states):
            store(memory.forward, s * lanes, load(memory.following, s * lanes))
    return apart


@kernel(_nrt=False)
def _fit(form, memory, case, first, length, sweeps):  # type: ignore[no-untyped-def]
    """Set f and the backward messages of J for eight rows.

    A row stops after `sweeps`, or after a sweep that lowered the distance of its marginals by less than a tenth, and
    keeps its last potentials with an allowed string.
    """
    zero, active, before = splat(0.0), splat(1.0), splat(np.inf)
    size = uint64(memory.f.shape[0])
    alive = pull(form, memory, length)
    if not all_positive(alive):
        _enter(form, memory, case, first, length, True)
        pull(form, memory, length)
    for _ in range(sweeps):
        for k in range(uint64(0), size, uint64(LANES)):
            store(memory.old, k, load(memory.f, k))
        apart = sweep(form, memory, length, active)
        alive = pull(form, memory, length)
        if not all_positive(alive):
            for k in range(uint64(0), size, uint64(LANES)):
                store(memory.f, k, where_greater(alive, zero, load(memory.f, k), load(memory.old, k)))
            pull(form, memory, length)
        active = where_greater(alive, zero, where_greater(splat(LESS) * before, apart, active, zero), zero)
        before = apart
        if all_positive(splat(1.0) - active):
            break


@kernel(_nrt=False)
def _enter(form, memory, case, first, length, smoothed):  # type: ignore[no-untyped-def]
    """Set p and f: the marginals of hidden positions, and certainty at revealed tokens.

    smoothed: give every token of hidden positions a probability, in the rows without an allowed string only."""
    symbols, own = form.moves.shape[1], case.table.shape[1]
    more = SMOOTH if smoothed else 0.0
    for lane in range(LANES):
        row = min(first + lane, len(case.tokens) - 1)
        if smoothed and memory.backward[lane] > 0.0:
            continue
        case.fallen[row] = smoothed
        for i in range(length):
            entry, token, total = case.entries[row, i], case.tokens[row, i], 0.0
            for v in range(own if entry >= 0 else 0):
                total += case.table[entry, v] + more * form.size[v]
            for v in range(symbols):
                p = f = 1.0 if v == token else 0.0
                if entry >= 0:
                    p = f = (case.table[entry, v] + more * form.size[v]) / total if v < own else 0.0
                    if case.single[row] and not case.now[row, i]:
                        p, f = -1.0, form.size[v]
                memory.p[(i * symbols + v) * LANES + lane] = p
                memory.f[(i * symbols + v) * LANES + lane] = f


@kernel(_nrt=False)
def together(form, memory, case, sweeps, measured):  # type: ignore[no-untyped-def]
    """Draw or measure all rows. Return the first row without an allowed string, or the number of rows."""
    rows, length = case.tokens.shape
    for first in range(0, rows, LANES):
        _enter(form, memory, case, first, length, False)
        _fit(form, memory, case, first, length, sweeps)
        for row in range(first, min(first + LANES, rows)):
            if not memory.backward[row - first] > 0.0:
                return row
        if measured:
            _measure(form, memory, case, first, length)
        else:
            for row in range(first, min(first + LANES, rows)):
                _draw(form, memory, case, row, row - first)
    return rows


@kernel(_nrt=False)
def _draw(form, memory, case, row, lane):  # type: ignore[no-untyped-def]
    """Draw a row from left to right, up to the last position of this step."""
    states, symbols = form.moves.shape
    last = 0
    for i in range(case.tokens.shape[1]):
        last = i + 1 if case.now[row, i] else last
    state = 0
    for i in range(last):
        token = case.tokens[row, i]
        if case.entries[row, i] >= 0:
            ahead, here = (i + 1) * states, i * symbols
            for v in range(symbols):
                following, weight = form.moves[state, v], 0.0
                if following >= 0:
                    weight = memory.backward[(ahead + following) * LANES + lane]
                    weight *= memory.f[(here + v) * LANES + lane] * form.weights[state, v]
                memory.alone[v] = weight
            u = uniform_at(case.seed, case.stream, case.rows[row], i, case.visits[row, i])
            token = draw(memory.alone, u)
            if case.now[row, i]:
                case.values[row, i] = token
        state = form.moves[state, token]


@kernel(_nrt=False)
def _measure(form, memory, case, first, length):  # type: ignore[no-untyped-def]
    """Set log J(values at the positions of this step | revealed tokens) = log Z(with these values) - log Z."""
    symbols = form.moves.shape[1]
    for sign in (-1.0, 1.0):
        for row in range(first, min(first + LANES, len(case.tokens))):
            lane = row - first
            mass = memory.backward[lane]
            case.log[row] += sign * np.log(mass) if mass > 0.0 else -np.inf
            for i in range(length):
                if mass > 0.0:
                    case.log[row] += sign * np.log(memory.scale[i * LANES + lane])
                for v in range(symbols):
                    if case.now[row, i] and case.values[row, i] != v:
                        memory.f[(i * symbols + v) * LANES + lane] = 0.0
        if sign < 0.0:
            pull(form, memory, length)
