"""A message times the transitions of its machine: as a dense matrix, or as runs of eight neighbouring targets.

`machine` chooses the faster form. Forwards from a hidden token, runs that start at the same target are added in a
register. Forwards from a revealed token, only runs of the states that emit it are used.
"""

from __future__ import annotations

from numba import uint64

from unmask.core.compiled import kernel
from unmask.languages.kernels.lanes import LANES, load, splat, store, sum_in_any_order, sums_of_eight

TILE = 4 * LANES  # columns at a time: four vectors of sums hide the latency of a multiplication


@kernel(_nrt=False, forceinline=True)
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


@kernel(_nrt=False, forceinline=True)
def pull(machine, here, there):  # type: ignore[no-untyped-def]
    """there(s) = sum_t T(s, t) here(t)."""
    if machine.dense.shape[1] > 0:
        _multiply(machine.dense, uint64(1), here, there)
    else:
        _pull_runs(machine.run_start, machine.run_target, machine.run_weight, here, there)


@kernel(_nrt=False)
def clear(values):  # type: ignore[no-untyped-def]
    """Set to zero. (numba compiles an error message into every `values[:] = 0.0`.)"""
    for i in range(uint64(values.shape[0])):
        values[i] = 0.0


@kernel(_nrt=False)
def _multiply(matrices, which, here, there):  # type: ignore[no-untyped-def]
    """Multiply tile by tile, with sums in registers, and the remaining columns one by one."""
    states = uint64(here.shape[0])
    begin, whole = which * states * states, states // uint64(TILE) * uint64(TILE)
    for t in range(uint64(0), whole, uint64(TILE)):
        a, b, c, d = splat(0.0), splat(0.0), splat(0.0), splat(0.0)
        for s in range(states):
            mass, row = splat(here[s]), begin + s * states + t
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


@kernel(_nrt=False)
def _push_groups(groups, here, there):  # type: ignore[no-untyped-def]
    start, target, source, weight = groups
    clear(there)
    for g in range(uint64(target.shape[0])):
        sums = load(there, target[g])
        for run in range(uint64(start[g]), uint64(start[g + uint64(1)])):
            sums += splat(here[source[run]]) * load(weight, run * uint64(LANES))
        store(there, target[g], sums)


@kernel(_nrt=False)
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


@kernel(_nrt=False)
def _pull_runs(start, target, weight, here, there):  # type: ignore[no-untyped-def]
    states, s = uint64(there.shape[0]), uint64(0)
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


@kernel(_nrt=False, forceinline=True)
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


@kernel(_nrt=False, forceinline=True)
def _run(target, weight, here, run):  # type: ignore[no-untyped-def]
    """The products of a run, before they are added."""
    return load(here, target[run]) * load(weight, run * uint64(LANES))
