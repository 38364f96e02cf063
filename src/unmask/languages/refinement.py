"""The coarsest partition of an automaton's states by their futures, in time m log n for m moves (Valmari 2012).

Moore's refinement (1956) passes over all states as often as the longest path is long: n times for a literal of n
characters. Here a set that is split puts only its smaller part on the list of splitters: each move is looked at log n
times at most.

A partition is one array of rows. Elements of a set are together in E; those that are marked come first.

    E, L        elements in the order of their sets, and the index of each element in it
    S           the set of each element
    F, P, M     the first index of each set, the one past its last, and its number of marked elements
    W, Z        sets with marked elements; Z has the number of sets, and that of sets in W
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from unmask.core.compiled import inner, kernel
from unmask.languages.kernels.machine import Flags, Ints

Sets = NDArray[np.int32]
E, L, S, F, P, M, W, Z = range(8)


def futures(moves: Ints, final: Flags) -> tuple[Ints, Ints]:
    """(a state of each group, the group of each state) of moves (S, C) from state 0; -1: no string goes on, or comes.

    Groups have the order of their discovery from state 0, symbol by symbol, so equal automata get equal numbers.
    """
    states = len(moves)
    tail, label = (moves >= 0).nonzero()
    head = moves[tail, label]
    reached = _spread(tail, head, np.zeros(1, np.int64), states)

    alive = np.zeros(states, bool)
    alive[_spread(head, tail, np.flatnonzero(final), states)] = True

    useful = reached[alive[reached]]
    number = np.full(states, -1)
    number[useful] = np.arange(len(useful))
    inside = (number[tail] >= 0) & (number[head] >= 0)

    tail, label, head = number[tail[inside]], label[inside], number[head[inside]]

    blocks = _partition(final[useful].astype(np.int64))
    cords = _partition(label)
    _refine(tail, np.argsort(head, kind="stable"), _starts(head, len(useful)), blocks, cords)
    _, first, which = np.unique(blocks[S, : len(useful)], return_index=True, return_inverse=True)
    order = first.argsort()

    groups = np.full(states, -1)
    groups[useful] = order.argsort()[which]
    return useful[first[order]], groups


def _spread(tail: Ints, head: Ints, first: Ints, states: int) -> Ints:
    """The states that can be reached from the first ones, in the order of their discovery."""
    queue = np.zeros(states, np.int64)
    queue[: len(first)] = first
    seen = np.zeros(states, bool)
    seen[first] = True
    order = np.argsort(tail, kind="stable")
    return queue[: _reach(head[order], _starts(tail, states), queue, seen, np.int64(len(first)))]


def _starts(keys: Ints, count: int) -> Ints:
    """(count + 1): the first index of each key in their sorted order."""
    return np.concatenate([[0], np.bincount(keys, minlength=count).cumsum()])


def _partition(keys: Ints) -> Sets:
    """The partition of elements by their keys."""
    _, which, sizes = np.unique(keys, return_inverse=True, return_counts=True)
    sets = np.zeros((8, max(len(keys), 2)), np.int32)
    sets[E, : len(keys)] = np.argsort(which, kind="stable")
    sets[L, sets[E, : len(keys)]] = np.arange(len(keys))
    sets[S, : len(keys)] = which
    sets[P, : len(sizes)] = sizes.cumsum()
    sets[F, : len(sizes)] = sets[P, : len(sizes)] - sizes
    sets[Z, 0] = len(sizes)
    return sets


@kernel
def _reach(heads: Ints, starts: Ints, queue: Ints, seen: Flags, count: int) -> int:
    """Fill the queue with the states behind its first ones; return their number."""
    at = 0
    while at < count:
        for index in range(starts[queue[at]], starts[queue[at] + 1]):
            state = heads[index]
            if not seen[state]:
                seen[state] = True
                queue[count] = state
                count += 1
        at += 1
    return count


@kernel
def _refine(tail: Ints, incoming: Ints, starts: Ints, blocks: Sets, cords: Sets) -> None:
    """Split blocks of states by cords, sets of moves with one symbol into one block, until nothing changes."""
    block, cord = 1, 0
    while cord < cords[Z, 0]:
        for index in range(cords[F, cord], cords[P, cord]):
            _mark(blocks, tail[cords[E, index]])
        _split(blocks)
        cord += 1

        while block < blocks[Z, 0]:
            for index in range(blocks[F, block], blocks[P, block]):
                state = blocks[E, index]
                for move in range(starts[state], starts[state + 1]):
                    _mark(cords, incoming[move])
            _split(cords)
            block += 1


@inner
def _mark(sets: Sets, element: int) -> None:
    """Put an element among the marked ones of its set."""
    own = sets[S, element]
    here = sets[L, element]
    there = sets[F, own] + sets[M, own]
    other = sets[E, there]
    sets[E, here], sets[L, other] = other, here
    sets[E, there], sets[L, element] = element, there

    if sets[M, own] == 0:
        sets[W, sets[Z, 1]] = own
        sets[Z, 1] += 1

    sets[M, own] += 1


@inner
def _split(sets: Sets) -> None:
    """Split each set into its marked elements and the others; the smaller part is the new set."""
    while sets[Z, 1]:
        sets[Z, 1] -= 1
        own = sets[W, sets[Z, 1]]
        new = sets[Z, 0]
        middle = sets[F, own] + sets[M, own]
        marked = sets[M, own]
        sets[M, own] = 0
        if middle == sets[P, own]:
            continue

        if marked <= sets[P, own] - middle:
            sets[F, new], sets[P, new], sets[F, own] = sets[F, own], middle, middle
        else:
            sets[F, new], sets[P, new], sets[P, own] = middle, sets[P, own], middle

        for index in range(sets[F, new], sets[P, new]):
            sets[S, sets[E, index]] = new
        sets[M, new] = 0
        sets[Z, 0] += 1
