"""Joints of the positions S of a step alone: fitted on what a completion allows there, one row at a time.

    A_S = {x_S : a completion at the other hidden positions is accepted}
    J(x_S) ~ prod_(i in S) f_i(x_i) 1[x_S in A_S], with marginals p_i

A_S is read from left to right by sets of the automaton's states: all that some tokens at the skipped positions can
reach, and from which the rest of the row can be accepted. A set is bits in a few words. The sets before each position
of S are its nodes, so J is a product over a path, as in `fitting`. If S is one position, J is p, cut to A_S.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numba import uint64
from numpy.typing import NDArray

from unmask.core.chance import draw, uniform_at
from unmask.core.compiled import kernel
from unmask.languages.automata import Automaton
from unmask.languages.kernels.machine import Floats, Indices, Ints
from unmask.samplers.joint.fitting import LESS, SMOOTH

WORD = 64  # bits
SETS = 2**11  # that one position can have
SLOTS = 2**13
FULL, NONE = -1, -2  # too many nodes; no completion


class Sets(NamedTuple):
    """An automaton for kernels."""

    moves: Ints  # (S, V)
    any: Indices  # (S, W): the targets of each state
    final: Indices  # (W)


class Nodes(NamedTuple):
    """Memory for one row: its nodes, their edges and the messages."""

    first: Ints  # (L+2): the first node of each position of S
    places: Ints  # (L): the positions of S
    following: NDArray[np.int32]  # (nodes, V): the next node, -1 if not allowed
    p: Floats  # (L, V)
    f: Floats  # (L, V)
    old: Floats  # (L, V)
    backward: Floats  # (nodes+1)
    forward: Floats  # (nodes+1)
    c: Floats  # (V)
    rest: Indices  # (L+1, W): states from which the rest of the row can be accepted
    sets: Indices  # (2, SETS, W): those before and after a position
    slots: Ints  # (SLOTS, 2): a hash table: (visit, set)
    visit: Ints  # (1): the positions so far, of all rows; a slot of an earlier one is empty
    into: Ints  # (2, SETS): the set that each set at the last position of S, or before this one, has become


@lru_cache(maxsize=16)
def sets_of(automaton: Automaton) -> Sets:
    words = -(-automaton.states // WORD)
    reached = np.zeros((automaton.states, words), np.uint64)
    source, symbol = np.nonzero(automaton.moves >= 0)
    target = automaton.moves[source, symbol]
    np.bitwise_or.at(reached, (source, target // WORD), np.uint64(1) << (target % WORD).astype(np.uint64))
    final, ends = np.zeros(words, np.uint64), np.flatnonzero(automaton.final)
    np.bitwise_or.at(final, ends // WORD, np.uint64(1) << (ends % WORD).astype(np.uint64))
    return Sets(automaton.moves, reached, final)


def nodes(automaton: Automaton, length: int, capacity: int) -> Nodes:
    words, symbols = -(-automaton.states // WORD), automaton.vocabulary
    return Nodes(
        np.zeros(length + 2, np.int64),
        np.zeros(length, np.int64),
        np.zeros((capacity, symbols), np.int32),
        *np.zeros((3, length, symbols)),
        np.zeros(capacity + 1),
        np.zeros(capacity + 1),
        np.zeros(symbols),
        np.zeros((length + 1, words), np.uint64),
        np.zeros((2, SETS, words), np.uint64),
        np.zeros((SLOTS, 2), np.int64),
        np.zeros(1, np.int64),
        np.zeros((2, SETS), np.int64),
    )


@kernel(_nrt=False)
def _has(bits, state):  # type: ignore[no-untyped-def]
    return (bits[state // WORD] >> uint64(state % WORD)) & uint64(1) != uint64(0)


@kernel(_nrt=False)
def _ends(sets, memory, tokens):  # type: ignore[no-untyped-def]
    """Set memory.rest, for tokens (L), V where hidden."""
    states, words = sets.any.shape
    rest, length = memory.rest, tokens.shape[0]
    for w in range(words):
        rest[length, w] = sets.final[w]
    for i in range(length - 1, -1, -1):
        for w in range(words):
            rest[i, w] = uint64(0)
        for s in range(states):
            goes = False
            if tokens[i] == sets.moves.shape[1]:
                for w in range(words):
                    goes |= sets.any[s, w] & rest[i + 1, w] != uint64(0)
            else:
                target = sets.moves[s, tokens[i]]
                goes = target >= 0 and _has(rest[i + 1], target)
            if goes:
                rest[i, s // WORD] |= uint64(1) << uint64(s % WORD)


@kernel(_nrt=False)
def _image(sets, here, symbol, rest, out):  # type: ignore[no-untyped-def]
    """Set out = the states of `rest` that the set `here` reaches by a symbol, -1 for any. Return whether one is."""
    states, words = sets.any.shape
    for w in range(words):
        out[w] = uint64(0)
    for s in range(states):
        if not _has(here, s):
            continue
        if symbol < 0:
            for w in range(words):
                out[w] |= sets.any[s, w]
        elif sets.moves[s, symbol] >= 0:
            target = sets.moves[s, symbol]
            out[target // WORD] |= uint64(1) << uint64(target % WORD)
    some = False
    for w in range(words):
        out[w] &= rest[w]
        some |= out[w] != uint64(0)
    return some


@kernel(_nrt=False)
def _number(memory, side, count):  # type: ignore[no-untyped-def]
    """The index of the set at `count` among those before it: itself if it is new."""
    mine, visit = memory.sets[side, count], memory.visit[0]
    key = uint64(1469598103934665603)
    for w in range(mine.shape[0]):
        key = (key ^ mine[w]) * uint64(1099511628211)
        key ^= key >> uint64(29)
    slot = np.int64(key & uint64(SLOTS - 1))
    while memory.slots[slot, 0] == visit:
        other = memory.slots[slot, 1]
        same = True
        for w in range(mine.shape[0]):
            same &= memory.sets[side, other, w] == mine[w]
        if same:
            return other
        slot = (slot + 1) % SLOTS
    memory.slots[slot, 0], memory.slots[slot, 1] = visit, count
    return count


@kernel(_nrt=False)
def explore(sets, memory, tokens, now):  # type: ignore[no-untyped-def]
    """Set the nodes and edges of A_S. Return the number of positions in S, or FULL or NONE."""
    symbols, capacity, length = sets.moves.shape[1], memory.following.shape[0], tokens.shape[0]
    _ends(sets, memory, tokens)
    if not _has(memory.rest[0], 0):
        return NONE
    side, count, layer, total = 0, 1, 0, 0
    memory.sets[0, 0] = uint64(0)
    memory.sets[0, 0, 0] = uint64(1)
    into = memory.into[0]
    into[0] = 0
    before = 1  # sets after the last position of S
    last = 0
    for i in range(length):
        last = i + 1 if now[i] else last
    for i in range(last):
        new, there = 0, 1 - side
        memory.visit[0] += 1
        if now[i]:
            _close(memory, layer, total, before, symbols)
            memory.first[layer], memory.places[layer] = total, i
            if total + count > capacity:
                return FULL
            for j in range(count):
                for v in range(symbols):
                    memory.following[total + j, v] = -1
                    if new == SETS:
                        return FULL
                    if _image(sets, memory.sets[side, j], v, memory.rest[i + 1], memory.sets[there, new]):
                        number = _number(memory, there, new)
                        memory.following[total + j, v] = number
                        new += number == new
            total += count
            layer += 1
            before = new
            for j in range(new):
                into[j] = j
        else:
            symbol = -1 if tokens[i] == symbols else tokens[i]
            for j in range(count):
                number = -1
                if _image(sets, memory.sets[side, j], symbol, memory.rest[i + 1], memory.sets[there, new]):
                    number = _number(memory, there, new)
                    new += number == new
                memory.into[1, j] = number
            for j in range(before):
                into[j] = memory.into[1, into[j]]
        side, count = there, new
    for j in range(before):
        into[j] = 0  # all ends are alike
    memory.first[layer] = total
    _close(memory, layer, total, before, symbols)
    return layer


@kernel(_nrt=False)
def _close(memory, layer, total, before, symbols):  # type: ignore[no-untyped-def]
    """Let the edges of the last layer lead to the nodes that their sets have become."""
    if layer > 0:
        for node in range(memory.first[layer - 1], total):
            for v in range(symbols):
                following = memory.following[node, v]
                if following >= 0:
                    memory.following[node, v] = total + memory.into[0, following]


@kernel(_nrt=False)
def _pull(memory, count, symbols):  # type: ignore[no-untyped-def]
    """Set the backward messages. Return whether a string is allowed."""
    memory.backward[memory.first[count]] = 1.0
    for layer in range(count - 1, -1, -1):
        total = 0.0
        for node in range(memory.first[layer], memory.first[layer + 1]):
            mass = 0.0
            for v in range(symbols):
                following = memory.following[node, v]
                if following >= 0:
                    mass += memory.f[layer, v] * memory.backward[following]
            memory.backward[node] = mass
            total += mass
        if not total > 0.0:
            return False
        for node in range(memory.first[layer], memory.first[layer + 1]):
            memory.backward[node] /= total
    return memory.backward[0] > 0.0


@kernel(_nrt=False)
def _sweep(memory, count, symbols):  # type: ignore[no-untyped-def]
    """Fit f from left to right. Return the distance of the marginals before it."""
    apart = 0.0
    memory.forward[0] = 1.0
    for layer in range(count):
        begin, end = memory.first[layer], memory.first[layer + 1]
        for v in range(symbols):
            memory.c[v] = 0.0
        for node in range(begin, end):
            for v in range(symbols):
                following = memory.following[node, v]
                if following >= 0:
                    memory.c[v] += memory.forward[node] * memory.backward[following]
        z, norm = 0.0, 0.0
        for v in range(symbols):
            z += memory.f[layer, v] * memory.c[v]
        for v in range(symbols):
            m = memory.f[layer, v] * memory.c[v] / z if z > 0.0 else 0.0
            apart += abs(m - memory.p[layer, v])
            if m > 0.0:
                memory.f[layer, v] = memory.p[layer, v] * z / memory.c[v]
            norm += memory.f[layer, v]
        after = memory.first[layer + 2] if layer + 1 < count else end + 1
        for node in range(end, after):
            memory.forward[node] = 0.0
        total = 0.0
        for v in range(symbols):
            memory.f[layer, v] /= norm
        for node in range(begin, end):
            for v in range(symbols):
                following = memory.following[node, v]
                if following >= 0:
                    mass = memory.forward[node] * memory.f[layer, v]
                    memory.forward[following] += mass
                    total += mass
        for node in range(end, after):
            memory.forward[node] /= total if total > 0.0 else 1.0
    return apart


@kernel(_nrt=False)
def _copy(source, target, count, symbols):  # type: ignore[no-untyped-def]
    for layer in range(count):
        for v in range(symbols):
            target[layer, v] = source[layer, v]


@kernel(_nrt=False)
def fit(memory, count, symbols, sweeps):  # type: ignore[no-untyped-def]
    """Set f and the backward messages of J, as `fitting.fit`. Return whether no string was allowed before smoothing."""
    _copy(memory.p, memory.f, count, symbols)
    fallen = not _pull(memory, count, symbols)
    if fallen:
        for layer in range(count):
            for v in range(symbols):
                memory.p[layer, v] = (memory.p[layer, v] + SMOOTH) / (1.0 + symbols * SMOOTH)
        _copy(memory.p, memory.f, count, symbols)
        _pull(memory, count, symbols)
    before = np.inf
    for _ in range(sweeps if count > 1 else 0):
        _copy(memory.f, memory.old, count, symbols)
        apart = _sweep(memory, count, symbols)
        if not _pull(memory, count, symbols):
            _copy(memory.old, memory.f, count, symbols)
            _pull(memory, count, symbols)
            break
        if not apart < LESS * before:
            break
        before = apart
    return fallen


@kernel(_nrt=False)
def _row(sets, memory, case, row, sweeps, measured):  # type: ignore[no-untyped-def]
    """Draw or measure one row. Return the number of positions in S, or FULL or NONE."""
    symbols, tokens, entries = sets.moves.shape[1], case.tokens[row], case.entries[row]
    count = explore(sets, memory, tokens, case.now[row])
    for layer in range(count):
        total, entry = 0.0, entries[memory.places[layer]]
        for v in range(symbols):
            total += case.table[entry, v]
        for v in range(symbols):
            memory.p[layer, v] = case.table[entry, v] / total
    if count <= 0:
        return count
    case.fallen[row] = fit(memory, count, symbols, sweeps)
    node = 0
    for layer in range(count):
        i = memory.places[layer]
        for v in range(symbols):
            following = memory.following[node, v]
            memory.c[v] = memory.f[layer, v] * memory.backward[following] if following >= 0 else 0.0
        chosen = case.values[row, i]
        if measured and not memory.c[chosen] > 0.0:
            case.log[row] = -np.inf
            return count
        if measured:
            case.log[row] += np.log(memory.c[chosen] / memory.c.sum())
        else:
            chosen = draw(memory.c, uniform_at(case.seed, case.stream, case.rows[row], i, case.visits[row, i]))
            case.values[row, i], case.odds[row, i] = chosen, memory.p[layer, chosen]
        node = memory.following[node, chosen]
    return count


@kernel(_nrt=False)
def alone(sets, memory, case, first, sweeps, measured):  # type: ignore[no-untyped-def]
    """Draw or measure the rows from `first` on. Return (a row, FULL or NONE), or (the number of rows, 0)."""
    for row in range(first, len(case.tokens)):
        status = _row(sets, memory, case, row, sweeps, measured)
        if status < 0:
            return row, status
    return len(case.tokens), 0
