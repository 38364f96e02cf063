"""Exact dependence between hidden positions of a machine, and sets of positions without much of it.

    q(x_i = a, x_j = b | x_R) ~ sum_s carried_j(s, a) E(s, b) backward_j(s),   i < j
    carried_i(s, a) = forward_i(s) E(s, a), taken from i to j through what is revealed there

and I(X_i; X_j | x_R) in nats from it. Beyond j all of x_i's influence passes through the state z_j, so that no later
position depends on x_i by more than I(X_i; Z_j | x_R) (data processing), nor this by more than the chi-square
divergence of the pair from independence, which needs no logarithms.
"""

from __future__ import annotations

import numpy as np

from unmask.compiled import kernel


@kernel
def apart_rows(machine, tokens, forward, backward, asked, gamma, chosen):  # type: ignore[no-untyped-def]
    """Set chosen (B, L): from left to right each place asked for that depends on no chosen one by more than gamma."""
    length, states, vocabulary = forward.shape[1], forward.shape[2], machine.column_start.shape[0] - 1
    there = np.empty((states, vocabulary))
    joint = np.empty((vocabulary, vocabulary))
    for b in range(tokens.shape[0]):
        carried = [np.empty((states, vocabulary)) for _ in range(0)]  # one for each chosen place that still matters
        for j in range(length):
            token = tokens[b, j]
            if asked[b, j]:
                free = True
                for here in carried:
                    _pair(machine, here, backward[b, j], joint)
                    if _information(joint) > gamma:
                        free = False
                        break
                if free:
                    chosen[b, j] = True
                    carried.append(_start(machine, forward[b, j], states, vocabulary))
            if j == length - 1:
                break
            kept = 0
            for c in range(len(carried)):
                here = carried[c]
                if token < vocabulary:
                    _weigh(machine, token, here, there)
                    here[:] = there
                if _push(machine, here, there) and _chi_square(there, backward[b, j + 1]) > gamma:
                    here[:] = there
                    carried[kept] = here
                    kept += 1
            while len(carried) > kept:
                carried.pop()


@kernel
def _start(machine, forward, states, vocabulary):  # type: ignore[no-untyped-def]
    out = np.zeros((states, vocabulary))
    for v in range(vocabulary):
        for e in range(machine.column_start[v], machine.column_start[v + 1]):
            s = machine.column_state[e]
            out[s, v] = forward[s] * machine.column_weight[e]
    return out


@kernel
def _weigh(machine, token, here, there):  # type: ignore[no-untyped-def]
    """there = here times the evidence of a revealed token."""
    there[:] = 0.0
    for e in range(machine.column_start[token], machine.column_start[token + 1]):
        s = machine.column_state[e]
        for a in range(here.shape[1]):
            there[s, a] = here[s, a] * machine.column_weight[e]


@kernel
def _push(machine, here, there):  # type: ignore[no-untyped-def]
    """there(t, a) ~ sum_s here(s, a) T(s, t). Is anything possible?"""
    there[:] = 0.0
    for s in range(here.shape[0]):
        if here[s].sum() > 0.0:
            for e in range(machine.edge_start[s], machine.edge_start[s + 1]):
                t, weight = machine.edge_target[e], machine.edge_weight[e]
                for a in range(here.shape[1]):
                    there[t, a] += here[s, a] * weight
    total = there.sum()
    if total == 0.0:
        return False
    there *= 1.0 / total
    return True


@kernel
def _pair(machine, here, backward, joint):  # type: ignore[no-untyped-def]
    """joint(a, b) ~ q(x_i = a, x_j = b | x_R)."""
    joint[:] = 0.0
    for v in range(joint.shape[1]):
        for e in range(machine.column_start[v], machine.column_start[v + 1]):
            s = machine.column_state[e]
            weight = machine.column_weight[e] * backward[s]
            if weight > 0.0:
                for a in range(joint.shape[0]):
                    joint[a, v] += here[s, a] * weight


@kernel
def _information(joint):  # type: ignore[no-untyped-def]
    """I in nats of a joint law that need not be normalised; 0 where nothing is possible."""
    total = joint.sum()
    if total == 0.0:
        return 0.0
    first, second = joint.sum(1), joint.sum(0)
    nats = 0.0
    for a in range(joint.shape[0]):
        for b in range(joint.shape[1]):
            if joint[a, b] > 0.0:
                nats += joint[a, b] * np.log(joint[a, b] * total / (first[a] * second[b]))
    return nats / total


@kernel
def _chi_square(here, backward):  # type: ignore[no-untyped-def]
    """sum p(s, a)^2 / (p(s) p(a)) - 1 of the state and the chosen token, weighed by what follows."""
    first = np.zeros(here.shape[1])
    total = 0.0
    for s in range(here.shape[0]):
        for a in range(here.shape[1]):
            first[a] += here[s, a] * backward[s]
    for a in range(here.shape[1]):
        total += first[a]
    if total == 0.0:
        return 0.0
    square = 0.0
    for s in range(here.shape[0]):
        mass = here[s].sum()
        if mass > 0.0 and backward[s] > 0.0:
            part = 0.0
            for a in range(here.shape[1]):
                if here[s, a] > 0.0:
                    part += here[s, a] * here[s, a] / first[a]
            square += part * backward[s] / mass
    return square - 1.0
