"""Joints of an automaton and the marginals of a step: they are fitted, drawn and measured, eight rows side by side.

    J(x) ~ prod_i f_i(x_i) w(x)                w: the weight of the path, 0 where the automaton rejects x
    backward_i(s) = sum_v w(s, v) [f_i(v) backward_(i+1)(s v)]
    F_i(v, t) = sum_(s v = t) forward_i(s) w(s, v)
    forward_(i+1)(t) = sum_v f_i(v) F_i(v, t)
    m_i(v) = f_i(v) c_i(v) / Z,  c_i(v) = sum_t F_i(v, t) backward_(i+1)(t)

A sweep of iterative proportional fitting goes from left to right and replaces f_i by p_i Z / c_i, so that m_i = p_i
there. An automaton has far fewer pairs (v, t) of a symbol and its target than edges (s, v), so edges only add: terms of
pairs [..] to states, and states to pairs. A message is normalized where it is used. Lanes are treated separately, so a
row does not depend on the others. v is one of V classes of tokens: within a class, J is the marginal p itself.

A hidden position without an entry counts as the symbol V of an erased automaton. In a row with a single position to
draw, the others have f = 1 for each token and are not fitted: its marginal is then p, cut to the tokens that have a
completion.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numba import uint64

from unmask.core.chance import uniform_at
from unmask.core.compiled import inner, kernel
from unmask.languages.automata import Automaton
from unmask.languages.kernels.lanes import LANES, all_positive, distance, load, splat, store, where_greater
from unmask.languages.kernels.lockstep import Sparse, draw_eight, multiply, sparse
from unmask.languages.kernels.machine import Flags, Floats, Indices, Ints, aligned, starts_of

DRAW, MEASURE, WEIGH = 1, 2, 4  # tasks: draw the values, set log J of them, set log Z
SMOOTH = 1e-6  # added to each probability where no allowed string is left
LEAST_COST = 1e-9  # a graph has no edges of cost 0
MOST_NATS, SAFE = 30.0, 300.0  # of the log-marginal of a class, and of the range of messages: e^708 is infinite
LESS = 0.9  # a sweep that leaves more than this part of the error is the last


class Form(NamedTuple):
    """An automaton for kernels. A pair is a symbol and one of its targets."""

    pairs: Indices  # (V+1): the pairs of symbol v are pairs[v]:pairs[v+1]
    target: Indices  # (pairs)
    join: Sparse  # from sources to pairs
    pull: Sparse  # from pairs to sources
    moves: Ints  # (S, V): 0 where the weight is 0
    weights: Floats  # (S, V)
    final: Floats  # (S)
    size: Floats  # (V): the tokens of each class


class Case(NamedTuple):
    """A canvas (B, L) in a step, and the result."""

    classes: Ints  # (V+1): the class of each token, and of a hidden one
    tokens: Ints  # (B, L)
    entries: Ints  # (B, L): the row of the table with the marginals of each hidden position, or -1
    now: Flags  # (B, L): the positions that this step reveals
    single: Flags  # (B): whether it is only one, with its own marginal
    table: Floats  # (K, V)
    row_ids: Ints  # (B)
    visits: Ints  # (B, L)
    seed: np.uint64
    stream: int
    values: Ints  # (B, L): the classes drawn, or those to measure
    log: Floats  # (B): log J of the values
    mass: Floats  # (B): log Z, of the product the probability that the constraint can still be met
    fallen: Flags  # (B): whether the marginals excluded every allowed string, so that they were smoothed


class Scratch(NamedTuple):
    """Memory for eight rows; a number is eight lanes."""

    p: Floats  # (L, V): -1 where f is not fitted
    f: Floats  # (L, V)
    old: Floats  # (L, V)
    backward: Floats  # (L+1, S+1): messages, each with its total
    forward: Floats  # (2, S): messages at an even and an odd position
    pairs: Floats  # (pairs+1)
    c: Floats  # (V)
    chance: Floats
    drawn: Floats
    masses: Floats
    state: Ints


@lru_cache(maxsize=16)
def form(automaton: Automaton) -> Form:
    return _weighed(automaton, np.zeros(automaton.states))


def _weighed(automaton: Automaton, potential: Floats) -> Form:
    """The form whose message at state s is exp(potential(s)) times the usual one."""
    states, symbols = automaton.moves.shape
    source, symbol = np.nonzero(automaton.moves >= 0)
    known, pair = np.unique(symbol * states + automaton.moves[source, symbol], return_inverse=True)
    weights: Floats = np.where(automaton.moves >= 0, 1.0 if automaton.weights is None else automaton.weights, 0.0)

    change = potential[:, None] - potential[automaton.moves]
    weights = weights * np.exp(np.where(automaton.moves >= 0, change, 0.0))
    edges = weights[source, symbol]

    return Form(
        starts_of(known // states, symbols).astype(np.uint64),
        (known % states * LANES).astype(np.uint64),
        sparse(source, pair, edges, len(known)),
        sparse(pair, source, edges, states),
        np.maximum(automaton.moves, 0),
        weights,
        automaton.final.astype(np.float64),
        np.bincount(automaton.classes, minlength=symbols).astype(np.float64),
    )


def balanced(automaton: Automaton, masses: Floats) -> tuple[Form, float]:
    """(a form whose messages stay within floating-point numbers, the potential of state 0), for masses (K, C).

    A text with a hundred fixed tokens can have a probability of e^-1000 where the model does not expect them. The
    potential of a state is the cheapest log-cost of its rest, by the mean log-marginal of each class."""
    if not _deep(automaton):
        return form(automaton), 0.0
    costs = np.zeros(automaton.moves.shape[1])  # the last class of an erased automaton is free
    costs[: masses.shape[1]] = -np.log(np.maximum(masses, np.exp(-MOST_NATS))).mean(0)
    potential = _potential(automaton, costs)
    if potential.max() < SAFE:
        return form(automaton), 0.0
    return _weighed(automaton, potential), float(potential[0])


@lru_cache(maxsize=16)
def _deep(automaton: Automaton) -> bool:
    """Whether an end can be too many tokens away: messages may leave the range of floating-point numbers."""
    near = automaton.final
    for _ in range(int(SAFE / MOST_NATS)):
        near = near | np.append(near, False)[automaton.moves].any(1)
    return not bool(near.all())


def _potential(automaton: Automaton, costs: Floats) -> Floats:
    """(S): the least sum of costs (C) from each state to an end."""
    from scipy.sparse import csgraph, csr_array  # a third of a second to load

    source, symbol = np.nonzero(automaton.moves >= 0)
    target = automaton.moves[source, symbol]
    price = costs[symbol] + LEAST_COST
    order = np.lexsort((price, source, target))
    source, target, price = source[order], target[order], price[order]
    first = np.append(True, (np.diff(source) != 0) | (np.diff(target) != 0))  # the cheapest of parallel edges
    shape = automaton.states, automaton.states
    back = csr_array((price[first], (target[first], source[first])), shape=shape)
    potential: Floats = csgraph.dijkstra(back, indices=np.flatnonzero(automaton.final), min_only=True)
    return potential


def scratch(form: Form, length: int) -> Scratch:
    states, symbols = form.moves.shape
    table = length * symbols
    sizes = (table, table, table, (length + 1) * (states + 1), 2 * states, len(form.target) + 1, symbols, 1, 1, 1)
    lanes = (aligned((size * LANES,)) for size in sizes)
    return Scratch._make([*lanes, np.zeros(LANES, np.int64)])


@inner
def _inverse(total):  # type: ignore[no-untyped-def]
    """1 / total where it is positive, 0 elsewhere."""
    return where_greater(total, splat(0.0), splat(1.0) / total, splat(0.0))


@inner
def pull(form, memory, length):  # type: ignore[no-untyped-def]
    """Set the backward messages. Return a vector that is positive in the lanes with an allowed string."""
    states, symbols, lanes = uint64(form.moves.shape[0]), uint64(form.moves.shape[1]), uint64(LANES)
    width = (states + uint64(1)) * lanes
    here = uint64(length) * width
    scale = splat(1.0)

    for s in range(states):
        store(memory.backward, here + s * lanes, splat(form.final[s]))

    for back in range(uint64(length)):
        i = uint64(length) - uint64(1) - back
        ahead = here
        here = i * width
        for v in range(symbols):
            f = load(memory.f, (i * symbols + v) * lanes) * scale
            for k in range(form.pairs[v], form.pairs[v + uint64(1)]):
                store(memory.pairs, k * lanes, f * load(memory.backward, ahead + form.target[k]))

        total = multiply(form.pull, memory.pairs, uint64(0), memory.backward[here : here + width])
        store(memory.backward, here + width - lanes, total)
        scale = _inverse(total)
    return load(memory.backward, uint64(0))


@inner
def sweep(form, memory, length, active):  # type: ignore[no-untyped-def]
    """Fit f from left to right in the active lanes. Return the distance of the marginals from p before it."""
    states, symbols, lanes = uint64(form.moves.shape[0]), uint64(form.moves.shape[1]), uint64(LANES)
    width = states * lanes
    apart = splat(0.0)
    scale = splat(1.0)

    for s in range(states):
        store(memory.forward, s * lanes, splat(1.0) if s == uint64(0) else splat(0.0))
    for i in range(uint64(length)):
        at = i * symbols * lanes
        here = (i & uint64(1)) * width
        z = _expect(form, memory, at, here, (i + uint64(1)) * (width + lanes))
        far, norm = _replace(memory, at, symbols, z, active)
        apart += far
        scale = _push(form, memory, at, width - here, scale, _inverse(norm))
    return apart


@inner
def _expect(form, memory, at, here, ahead):  # type: ignore[no-untyped-def]
    """Set F and c at a position. Return Z = sum_v f(v) c(v)."""
    lanes = uint64(LANES)
    z = splat(0.0)
    multiply(form.join, memory.forward, here, memory.pairs)
    for v in range(uint64(form.moves.shape[1])):
        c = splat(0.0)
        for k in range(form.pairs[v], form.pairs[v + uint64(1)]):
            c += load(memory.pairs, k * lanes) * load(memory.backward, ahead + form.target[k])
        store(memory.c, v * lanes, c)
        z += load(memory.f, at + v * lanes) * c
    return z


@inner
def _replace(memory, at, symbols, z, active):  # type: ignore[no-untyped-def]
    """Replace f by p Z / c in the active lanes. Return the distance of m from p before that, and the new total of f."""
    lanes, zero = uint64(LANES), splat(0.0)
    share = _inverse(z)
    apart, norm = splat(0.0), splat(0.0)
    for v in range(symbols):
        f = load(memory.f, at + v * lanes)
        c = load(memory.c, v * lanes)
        p = load(memory.p, at + v * lanes)
        m = f * c * share
        apart += distance(m, p)
        wanted = where_greater(active, zero, where_greater(p, splat(-0.5), p * z / c, f), f)
        new = where_greater(m, zero, wanted, f)
        norm += new
        store(memory.f, at + v * lanes, new)
    return apart, norm


@inner
def _push(form, memory, at, there, scale, shrink):  # type: ignore[no-untyped-def]
    """Set the next forward message, by the scale of this one, and shrink f. Return the scale of the next."""
    lanes = uint64(LANES)
    total = splat(0.0)
    for s in range(uint64(form.moves.shape[0])):
        store(memory.forward, there + s * lanes, splat(0.0))

    for v in range(uint64(form.moves.shape[1])):
        f = load(memory.f, at + v * lanes)
        store(memory.f, at + v * lanes, f * shrink)
        f = f * scale
        for k in range(form.pairs[v], form.pairs[v + uint64(1)]):
            mass = f * load(memory.pairs, k * lanes)
            place = there + form.target[k]
            store(memory.forward, place, load(memory.forward, place) + mass)
            total += mass
    return _inverse(total)


@inner
def _fit(form, memory, case, members, first, length, sweeps):  # type: ignore[no-untyped-def]
    """Set f and the backward messages of J for eight rows.

    A row stops after `sweeps`, or after a sweep that lowered the distance of its marginals by less than a tenth, and
    keeps its last potentials with an allowed string.
    """
    zero = splat(0.0)
    active = splat(1.0)  # 0 in the lanes that have stopped
    before = splat(np.inf)  # the distance before the last sweep
    size = uint64(memory.f.shape[0])

    for turn in range(sweeps + 1):
        apart = before
        if turn > 0:
            for k in range(uint64(0), size, uint64(LANES)):
                store(memory.old, k, load(memory.f, k))
            apart = sweep(form, memory, length, active)

        alive = pull(form, memory, length)
        if not all_positive(alive):
            if turn == 0:
                _enter(form, memory, case, members, first, length, True)
            else:
                for k in range(uint64(0), size, uint64(LANES)):
                    store(memory.f, k, where_greater(alive, zero, load(memory.f, k), load(memory.old, k)))
            pull(form, memory, length)

        if turn > 0:
            active = where_greater(alive, zero, where_greater(splat(LESS) * before, apart, active, zero), zero)
        before = apart
        if all_positive(splat(1.0) - active):
            break


@inner
def _enter(form, memory, case, members, first, length, smoothed):  # type: ignore[no-untyped-def]
    """Set p and f: the marginals of hidden positions, and certainty at revealed tokens.

    smoothed: give every token of hidden positions a probability, in the rows without an allowed string only."""
    symbols = form.moves.shape[1]
    own = case.table.shape[1]
    more = SMOOTH if smoothed else 0.0

    for i in range(length):
        for lane in range(LANES):
            row = members[min(first + lane, len(members) - 1)]
            if smoothed and memory.backward[lane] > 0.0:
                continue
            case.fallen[row] = smoothed

            entry = case.entries[row, i]
            token = case.classes[case.tokens[row, i]]
            scale = 0.0
            if entry >= 0:
                total = 0.0
                for v in range(own):
                    total += case.table[entry, v] + more * form.size[v]
                scale = 1.0 / total
            free = case.single[row] and not case.now[row, i]

            for v in range(symbols):
                p = f = 0.0
                if entry < 0:
                    p = f = 1.0 if v == token else 0.0  # numba has no float of a truth value
                elif free:
                    p, f = -1.0, form.size[v]
                elif v < own:
                    p = f = (case.table[entry, v] + more * form.size[v]) * scale
                memory.p[(i * symbols + v) * LANES + lane] = p
                memory.f[(i * symbols + v) * LANES + lane] = f


@kernel(_nrt=False)
def together(form, memory, case, members, length, sweeps, task):  # type: ignore[no-untyped-def]
    """Do a task, a sum of DRAW, MEASURE and WEIGH, for rows, whose numbers are members (R).

    Return how many have been done before one without an allowed string."""
    for first in range(0, len(members), LANES):
        _enter(form, memory, case, members, first, length, False)
        _fit(form, memory, case, members, first, length, sweeps)
        some = members[first : first + LANES]

        for lane in range(len(some)):
            if not memory.backward[lane] > 0.0:
                return first + lane

        if task & WEIGH:
            for lane in range(len(some)):
                case.mass[some[lane]] = _log_mass(form, memory, lane, length)
        if task & DRAW:
            _draw(form, memory, case, some, length)
        if task & MEASURE:
            _measure(form, memory, case, some, length)
    return len(members)


@inner
def _draw(form, memory, case, rows, length):  # type: ignore[no-untyped-def]
    """Draw eight rows from left to right, up to the last position of this step."""
    states, symbols = form.moves.shape
    last = 0
    for lane in range(len(rows)):
        row = rows[lane]
        memory.state[lane] = 0
        for i in range(last, length):
            if case.now[row, i]:
                last = i + 1

    for i in range(last):
        ahead = (i + 1) * (states + 1)
        here = i * symbols
        for lane in range(len(rows)):
            row = rows[lane]
            state = memory.state[lane]
            if case.entries[row, i] >= 0:
                for v in range(symbols):
                    weight = memory.f[(here + v) * LANES + lane] * form.weights[state, v]
                    weight *= memory.backward[(ahead + form.moves[state, v]) * LANES + lane]
                    memory.c[v * LANES + lane] = weight
                memory.chance[lane] = uniform_at(case.seed, case.stream, case.row_ids[row], i, case.visits[row, i])
        draw_eight(memory.c, load(memory.chance, uint64(0)), memory.drawn, memory.masses)

        for lane in range(len(rows)):
            row = rows[lane]
            token = case.classes[case.tokens[row, i]]
            if case.entries[row, i] >= 0:
                token = int(memory.drawn[lane])
            if case.now[row, i]:
                case.values[row, i] = token
            memory.state[lane] = form.moves[memory.state[lane], token]

    for row in rows:
        for i in range(length):
            case.visits[row, i] += case.entries[row, i] >= 0


@inner
def _measure(form, memory, case, rows, length):  # type: ignore[no-untyped-def]
    """Set log J(values at the positions of this step | revealed tokens) = log Z(with these values) - log Z."""
    for lane in range(len(rows)):
        row = rows[lane]
        case.log[row] -= _log_mass(form, memory, lane, length)
        for i in range(length):
            for v in range(form.moves.shape[1]):
                if case.now[row, i] and case.values[row, i] != v:
                    memory.f[(i * form.moves.shape[1] + v) * LANES + lane] = 0.0
    pull(form, memory, length)
    for lane in range(len(rows)):
        case.log[rows[lane]] += _log_mass(form, memory, lane, length)


@inner
def _log_mass(form, memory, lane, length):  # type: ignore[no-untyped-def]
    """log Z of a lane: its first message, by the totals of the others."""
    states = form.moves.shape[0]
    mass = memory.backward[lane]
    if not mass > 0.0:
        return -np.inf
    log = np.log(mass)
    for i in range(1, length):
        log += np.log(memory.backward[(i * (states + 1) + states) * LANES + lane])
    return log
