"""Exact dependence between hidden positions of a machine, and sets of positions with little dependence.

    q(x_i = a, x_j = b | x_R) ~ sum_s carried_j(s, a) E(s, b) backward_j(s),   i < j
    carried_i(s, a) = forward_i(s) E(s, a), carried from i to j through the revealed tokens between them

and I(X_i; X_j | x_R) in nats from it. Beyond j, x_i acts only through the state z_j. So no later position depends on
x_i by more than I(X_i; Z_j | x_R) (data processing), which is at most the chi-square divergence of the pair from
independence; this bound needs no logarithms.
"""

from __future__ import annotations

import numpy as np

from unmask.core.compiled import kernel
from unmask.languages.kernels.messages import weigh
from unmask.languages.kernels.transitions import clear, push


@kernel
def apart_rows(machine, tokens, forward, backward, allowed, gamma, chosen):  # type: ignore[no-untyped-def]
    """Set chosen (B, L): from left to right, each allowed position that depends on no chosen one by more than gamma."""
    length, states, vocabulary = forward.shape[1], forward.shape[2], machine.column_start.shape[0] - 1
    carried = np.empty((length, vocabulary, states))  # one (V, S) for each chosen position that still matters
    there, weighed = np.empty((vocabulary, states)), np.empty(states)
    joint, sums = np.empty((vocabulary, vocabulary)), np.empty((2, vocabulary))
    for b in range(tokens.shape[0]):
        count = 0
        for j in range(length):
            if allowed[b, j]:
                free = True
                for c in range(count):
                    _pair(machine, carried[c], backward[b, j], joint)
                    if _information(joint, sums) > gamma:
                        free = False
                        break
                if free:
                    chosen[b, j] = True
                    for a in range(vocabulary):
                        _weigh(machine, forward[b, j], a, carried[count, a])
                    count += 1
            if j == length - 1:
                break
            relevant = 0
            for c in range(count):
                total = 0.0
                for a in range(vocabulary):
                    _weigh(machine, carried[c, a], tokens[b, j], weighed)
                    push(machine, weighed, tokens[b, j], there[a])
                    for s in range(states):
                        total += there[a, s]
                if total > 0.0 and _chi_square(there, backward[b, j + 1], sums[0]) > gamma:
                    for a in range(vocabulary):
                        for s in range(states):
                            carried[relevant, a, s] = there[a, s] * (1.0 / total)
                    relevant += 1
            count = relevant


@kernel(_nrt=False)
def _weigh(machine, message, token, here):  # type: ignore[no-untyped-def]
    """Set here (S) = the message times the evidence; zero if that is impossible."""
    if weigh(machine, message, np.int64(0), token, here):
        clear(here)


@kernel(_nrt=False)
def _pair(machine, here, backward, joint):  # type: ignore[no-untyped-def]
    """joint(a, b) ~ q(x_i = a, x_j = b | x_R)."""
    for a in range(joint.shape[0]):
        for b in range(joint.shape[1]):
            mass = 0.0
            for e in range(machine.column_start[b], machine.column_start[b + 1]):
                s = machine.column_state[e]
                mass += here[a, s] * (machine.column_weight[e] * backward[s])
            joint[a, b] = mass


@kernel(_nrt=False)
def _information(joint, sums):  # type: ignore[no-untyped-def]
    """I in nats of an unnormalized joint distribution; 0 if nothing is possible. sums (2, V) is scratch."""
    first, second, total = sums[0], sums[1], 0.0
    clear(first)
    clear(second)
    for a in range(joint.shape[0]):
        for b in range(joint.shape[1]):
            first[a] += joint[a, b]
            second[b] += joint[a, b]
            total += joint[a, b]
    if total == 0.0:
        return 0.0
    nats = 0.0
    for a in range(joint.shape[0]):
        for b in range(joint.shape[1]):
            if joint[a, b] > 0.0:
                nats += joint[a, b] * np.log(joint[a, b] * total / (first[a] * second[b]))
    return nats / total


@kernel(_nrt=False)
def _chi_square(here, backward, first):  # type: ignore[no-untyped-def]
    """sum p(s, a)^2 / (p(s) p(a)) - 1 of state and chosen token, weighted by backward; first (V) is scratch."""
    total = 0.0
    for a in range(here.shape[0]):
        first[a] = 0.0
        for s in range(here.shape[1]):
            first[a] += here[a, s] * backward[s]
        total += first[a]
    if total == 0.0:
        return 0.0
    square = 0.0
    for s in range(here.shape[1]):
        if backward[s] > 0.0:
            mass, part = 0.0, 0.0
            for a in range(here.shape[0]):
                if here[a, s] > 0.0:
                    mass += here[a, s]
                    part += here[a, s] * here[a, s] / first[a]
            if mass > 0.0:
                square += part * backward[s] / mass
    return square - 1.0
