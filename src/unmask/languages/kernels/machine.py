"""A language for kernels: a hidden Markov chain with sparse transitions and sparse emission columns.

    q(x, z) = initial(z_1) E(z_1, x_1) prod_t T(z_t, z_{t+1}) E(z_{t+1}, x_{t+1}) final(z_L) / Z_L

The states of an n-gram are its contexts; those of a grammar are the contents of its memory.

A message is multiplied by the transitions as a dense matrix, or as runs of eight neighbouring targets, whichever is
faster. Forwards from a hidden token, runs that start at the same target are added in a register. Forwards from a
revealed token, only runs of the states that emit it are used.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numba import uint64
from numpy.typing import NDArray

from unmask.core.compiled import inner
from unmask.languages.kernels.lanes import LANES, load, splat, store, sum_in_any_order, sums_of_eight

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Indices = NDArray[np.uint64]
Flags = NDArray[np.bool_]
MAX_COLUMNS = 2**18  # entries of a dense emission table
TILE = 4 * LANES  # columns at a time: four vectors of sums hide the latency of a multiplication
State = TypeVar("State", bound=Hashable)


class Machine(NamedTuple):
    initial: Floats  # (S)
    edge_start: Ints  # (S+1); the edges of state s are edge_start[s]:edge_start[s+1]
    edge_target: Ints  # (edges)
    edge_weight: Floats  # (edges)
    column_start: Ints  # (V+1); the states that can emit v are column_start[v]:column_start[v+1]
    column_state: Ints
    column_weight: Floats
    final: Floats  # (S); all ones if a sequence may end in any state
    columns: Floats  # ((V+1)*S): dense emission columns, with ones for a hidden token; empty if too large
    dense: Floats  # (2, S, S): the transitions and their transpose if that form is faster, else (2, 0, 0)
    run_start: Ints  # (S+1); the runs of state s, eight neighbouring targets each, are run_start[s]:run_start[s+1]
    run_target: Indices  # (runs): the first target of each; no runs if `dense` is faster
    run_weight: Floats  # (runs, 8)
    group_start: Ints  # (groups+1); the runs again, grouped by their first target
    group_target: Indices  # (groups)
    group_source: Indices  # (runs)
    group_weight: Floats  # (runs, 8)

    def __repr__(self) -> str:
        return f"<Machine of {len(self.initial)} states and {len(self.edge_target)} edges>"

    @property
    def states(self) -> int:
        return len(self.initial)

    @property
    def vocabulary(self) -> int:
        return len(self.column_start) - 1

    @property
    def edge_source(self) -> Ints:
        return np.repeat(np.arange(self.states), np.diff(self.edge_start))

    @property
    def open_ended(self) -> bool:
        """Whether a sequence may end in any state, so that every length is possible and Z_L = 1."""
        return bool((self.final == 1.0).all())

    @property
    def symbols(self) -> Ints | None:
        """(S) the symbol of each state if emission is deterministic, else None."""
        if len(self.column_state) != self.states or not (self.column_weight == 1.0).all():
            return None
        symbols = np.empty(self.states, np.int64)
        symbols[self.column_state] = np.repeat(np.arange(self.vocabulary), np.diff(self.column_start))
        return symbols

    @property
    def unambiguous(self) -> bool:
        """Whether a sequence determines its path: deterministic emission, and successors of distinct symbols."""
        symbols = self.symbols
        if symbols is None:
            return False
        starts = symbols[self.initial > 0]
        moves = self.edge_source * self.vocabulary + symbols[self.edge_target]
        return len(np.unique(starts)) == len(starts) and len(np.unique(moves)) == len(moves)


def from_edges(
    initial: Floats, source: Ints, target: Ints, weight: Floats, emission: Floats | Ints, vocabulary: int, final: Floats
) -> Machine:
    """Compress edges and emission; emission is (S, V) probabilities, or (S) symbols if it is deterministic."""
    keep = weight > 0
    source, target, weight = source[keep], target[keep], weight[keep]

    order = np.lexsort((target, source))
    source, target = source[order], target[order].astype(np.int64)
    weight = weight[order].astype(np.float64)

    states = len(initial)
    if emission.ndim == 1:
        symbol = emission.astype(np.int64)
        state = np.arange(states)
        mass = np.ones(states)
    else:
        state, symbol = np.nonzero(emission)
        mass = emission[state, symbol].astype(np.float64)
    by_symbol = np.lexsort((state, symbol))
    columns = np.zeros(0)
    if states * vocabulary <= MAX_COLUMNS:
        columns = aligned((vocabulary + 1, states))
        columns[symbol, state] = mass
        columns[vocabulary] = 1.0

    return Machine(
        np.ascontiguousarray(initial, np.float64),
        starts_of(source, states),
        target,
        weight,
        starts_of(symbol, vocabulary),
        np.ascontiguousarray(state[by_symbol], np.int64),
        np.ascontiguousarray(mass[by_symbol], np.float64),
        np.ascontiguousarray(final, np.float64),
        columns.reshape(-1),
        **_fast_form(states, source, target, weight),
    )


def from_dense(initial: Floats, transition: Floats, emission: Floats, final: Floats | None) -> Machine:
    source, target = np.nonzero(transition)
    ends = np.ones(len(initial)) if final is None else final
    return from_edges(initial, source, target, transition[source, target], emission, emission.shape[1], ends)


def explore(
    starts: Iterable[tuple[float, State]],
    successors: Callable[[State], Iterable[tuple[float, State]]],
    symbol: Callable[[State], int],
    final: Callable[[State], bool],
    vocabulary: int,
) -> Machine:
    """The machine of all states that can be reached from the starts; a state is any hashable value."""
    starts = list(starts)
    index: dict[State, int] = {}
    queue: list[State] = []

    def number(state: State) -> int:
        if state not in index:
            index[state] = len(queue)
            queue.append(state)
        return index[state]

    edges: list[tuple[int, int, float]] = []
    initial_mass = [(number(state), mass) for mass, state in starts]

    for state in queue:  # grows while it is read: breadth first
        edges.extend((index[state], number(following), weight) for weight, following in successors(state))

    initial = np.zeros(len(queue))
    for s, mass in initial_mass:
        initial[s] += mass

    source, target, weight = map(np.array, zip(*edges, strict=True))
    symbols = np.array(list(map(symbol, queue)), np.int64)
    ends = np.array(list(map(final, queue)), np.float64)
    return from_edges(initial, source.astype(np.int64), target.astype(np.int64), weight, symbols, vocabulary, ends)


def _fast_form(states: int, source: Ints, target: Ints, weight: Floats) -> dict[str, Any]:
    """`dense` or the runs, the form that multiplies a message faster; the other is empty.

    A vector of a dense tile costs a third of a run, whose target must be loaded. Machines with fewer than eight states,
    too few for a run, are dense.
    """
    nothing = np.zeros((3, 0), int)
    runs = _runs(states, source, target, weight) if states >= LANES else _runs(LANES, *nothing)
    if states >= LANES and (states % TILE != 0 or states * states // LANES >= 3 * len(runs["run_target"])):
        return {"dense": np.zeros((2, 0, 0))} | runs

    dense = aligned((2, states, states))
    dense[0, source, target] = weight
    dense[1, target, source] = weight
    return {"dense": dense} | _runs(LANES, *nothing)


def _runs(states: int, source: Ints, target: Ints, weight: Floats) -> dict[str, Any]:
    """The transitions in runs: the sorted edges of each source, cut so that a run spans at most eight targets."""
    owner: list[int] = []
    low: list[int] = []
    run = np.empty(len(source), np.int64)
    for e, (s, t) in enumerate(zip(source.tolist(), target.tolist(), strict=True)):
        if not owner or owner[-1] != s or t >= low[-1] + LANES:
            owner.append(s)
            low.append(t)
        run[e] = len(owner) - 1

    high = np.zeros(len(owner), np.int64)
    np.maximum.at(high, run, target)

    # the first target of each run, with as few distinct ones as possible: the latest, or that of an earlier run
    earliest = np.maximum(high - LANES + 1, 0)
    latest = np.minimum(np.array(low, np.int64), states - LANES)
    first = np.empty(len(latest), np.int64)
    chosen = -1
    for i in np.argsort(latest, kind="stable"):
        if chosen < earliest[i]:
            chosen = latest[i]
        first[i] = chosen

    weights = aligned((len(owner), LANES))
    weights[run, target - first[run]] = weight
    owners = np.array(owner, np.int64)
    by_start = np.lexsort((owners, first))
    starts, sizes = np.unique(first, return_counts=True)
    group_weight = aligned(weights.shape)
    group_weight[:] = weights[by_start]

    return {
        "run_start": starts_of(owners, states),
        "run_target": first.astype(np.uint64),
        "run_weight": weights,
        "group_start": np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64),
        "group_target": starts.astype(np.uint64),
        "group_source": owners[by_start].astype(np.uint64),
        "group_weight": group_weight,
    }


def aligned(shape: tuple[int, ...]) -> Floats:
    """Zeros aligned to a cache line: a vector that spans two lines costs twice as much."""
    size = math.prod(shape)
    buffer = np.zeros(size + LANES)
    begin = -buffer.ctypes.data % (8 * LANES) // 8
    return buffer[begin : begin + size].reshape(shape)


def starts_of(members: Ints, groups: int) -> Ints:
    """(groups+1): the start of each group among members that are sorted by group."""
    counts = np.bincount(members, minlength=groups)
    return np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)


@inner(forceinline=True)
def push(machine, here, token, there):  # type: ignore[no-untyped-def]
    """there(t) = sum_s here(s) T(s, t); here is already weighted by this token."""
    if machine.dense.shape[1] > 0:
        _multiply(machine.dense, uint64(0), here, there)
    elif token == machine.column_start.shape[0] - 1:
        groups = machine.group_start, machine.group_target, machine.group_source, machine.group_weight
        _push_groups(groups, here, there)
    else:
        runs = machine.run_start, machine.run_target, machine.run_weight
        _push_states(machine.column_start, machine.column_state, token, runs, here, there)


@inner(forceinline=True)
def pull(machine, here, there):  # type: ignore[no-untyped-def]
    """there(s) = sum_t T(s, t) here(t)."""
    if machine.dense.shape[1] > 0:
        _multiply(machine.dense, uint64(1), here, there)
    else:
        _pull_runs(machine.run_start, machine.run_target, machine.run_weight, here, there)


@inner
def clear(values):  # type: ignore[no-untyped-def]
    """Set to zero. (numba compiles an error message into every `values[:] = 0.0`.)"""
    for i in range(uint64(values.shape[0])):
        values[i] = 0.0


@inner
def _multiply(matrices, which, here, there):  # type: ignore[no-untyped-def]
    """Multiply tile by tile, with sums in registers, and the remaining columns one by one."""
    states = uint64(here.shape[0])
    begin = which * states * states
    whole = states // uint64(TILE) * uint64(TILE)

    for t in range(uint64(0), whole, uint64(TILE)):
        a, b, c, d = splat(0.0), splat(0.0), splat(0.0), splat(0.0)
        for s in range(states):
            mass = splat(here[s])
            row = begin + s * states + t
            a += mass * load(matrices, row)
            b += mass * load(matrices, row + uint64(LANES))
            c += mass * load(matrices, row + uint64(2 * LANES))
            d += mass * load(matrices, row + uint64(3 * LANES))
        store(there, t, a)
        store(there, t + uint64(LANES), b)
        store(there, t + uint64(2 * LANES), c)
        store(there, t + uint64(3 * LANES), d)

    for t in range(whole, states):
        total = 0.0
        for s in range(states):
            total += here[s] * matrices[which, s, t]
        there[t] = total


@inner
def _push_groups(groups, here, there):  # type: ignore[no-untyped-def]
    start, target, source, weight = groups
    clear(there)
    for g in range(uint64(target.shape[0])):
        sums = load(there, target[g])
        for run in range(uint64(start[g]), uint64(start[g + uint64(1)])):
            sums += splat(here[source[run]]) * load(weight, run * uint64(LANES))
        store(there, target[g], sums)


@inner
def _push_states(column_start, column_state, token, runs, here, there):  # type: ignore[no-untyped-def]
    """Push only from the states that emit the token; all others are impossible."""
    start, target, weight = runs
    clear(there)
    for i in range(column_start[token], column_start[token + 1]):
        s = column_state[i]
        if here[s] > 0.0:
            mass = splat(here[s])
            for run in range(uint64(start[s]), uint64(start[s + 1])):
                t = target[run]
                store(there, t, load(there, t) + mass * load(weight, run * uint64(LANES)))


@inner
def _pull_runs(start, target, weight, here, there):  # type: ignore[no-untyped-def]
    states = uint64(there.shape[0])
    s = uint64(0)
    if uint64(target.shape[0]) == states:  # an n-gram's contexts have one run each
        while s + uint64(LANES) <= states:
            store(there, s, sums_of_eight(_eight_runs(target, weight, here, s)))
            s += uint64(LANES)
    while s < states:
        total = 0.0
        for run in range(uint64(start[s]), uint64(start[s + uint64(1)])):
            total += sum_in_any_order(_run(target, weight, here, run))
        there[s] = total
        s += uint64(1)


@inner(forceinline=True)
def _eight_runs(target, weight, here, first):  # type: ignore[no-untyped-def]
    return (
        _run(target, weight, here, first),
        _run(target, weight, here, first + uint64(1)),
        _run(target, weight, here, first + uint64(2)),
        _run(target, weight, here, first + uint64(3)),
        _run(target, weight, here, first + uint64(4)),
        _run(target, weight, here, first + uint64(5)),
        _run(target, weight, here, first + uint64(6)),
        _run(target, weight, here, first + uint64(7)),
    )


@inner(forceinline=True)
def _run(target, weight, here, run):  # type: ignore[no-untyped-def]
    """The products of a run, before they are added."""
    return load(here, target[run]) * load(weight, run * uint64(LANES))
