"""Likelihoods, draws and entropies of a machine, each exact and computed in one pass over a sequence."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from unmask.core.chance import draw, uniform_at
from unmask.core.compiled import inner, kernel
from unmask.languages.kernels.machine import Floats, Ints, Machine, clear, starts_of
from unmask.languages.kernels.messages import carry, fill_rows, marginal, weigh

EVIDENCE_FLOOR = 1e-260


class Prefixes(NamedTuple):
    """The prefix of each row that the messages cover: all positions before `end`."""

    end: Ints  # (B): a position
    message: Floats  # (B, S): the forward message at end
    token: Ints  # (B): the token at end; V if it is not drawn yet


@kernel
def evidence_rows(machine, tokens, out):  # type: ignore[no-untyped-def]
    """out (B) = log of the mass of all paths that agree with the revealed tokens (B, L); -inf without such a path.

    A single message is multiplied, so its floor can be far lower than that of a product of two. A row in which a mass
    falls below that floor is computed again in logarithms. Only states that the revealed tokens leave possible are
    visited: a context that determines the state costs only its successors.
    """
    hidden = machine.column_start.shape[0] - 1
    states = machine.initial.shape[0]
    for b in range(tokens.shape[0]):
        evidence = np.zeros(states)
        old, new = np.empty(states, np.int64), np.empty(states, np.int64)
        mass, following = machine.initial.copy(), np.zeros(states)
        count = 0
        for s in range(states):
            if mass[s] > 0.0:
                old[count] = s
                count += 1

        log_mass = 0.0
        lifted = False
        for j in range(tokens.shape[1]):
            if j > 0:
                grown = 0
                for i in range(count):
                    s = old[i]
                    for e in range(machine.edge_start[s], machine.edge_start[s + 1]):
                        t = machine.edge_target[e]
                        if following[t] == 0.0:
                            new[grown] = t
                            grown += 1
                        following[t] += mass[s] * machine.edge_weight[e]
                for i in range(count):
                    mass[old[i]] = 0.0
                old, new, mass, following, count = new, old, following, mass, grown

            token = tokens[b, j]
            if token != hidden:
                begin, end = machine.column_start[token], machine.column_start[token + 1]
                for i in range(begin, end):
                    evidence[machine.column_state[i]] = machine.column_weight[i]
                possible = 0
                for i in range(count):
                    s = old[i]
                    mass[s] *= evidence[s]
                    if mass[s] > 0.0:
                        old[possible] = s
                        possible += 1
                count = possible
                for i in range(begin, end):
                    evidence[machine.column_state[i]] = 0.0

            total = 0.0
            for i in range(count):
                total += mass[old[i]]
            if total == 0.0:
                break
            log_mass += np.log(total)
            for i in range(count):
                scaled = mass[old[i]] / total
                lifted |= scaled < EVIDENCE_FLOOR
                mass[old[i]] = max(scaled, EVIDENCE_FLOOR)

        ending = 0.0
        for i in range(count):
            ending += mass[old[i]] * machine.final[old[i]]
        if ending > 0.0:
            out[b] = _in_logarithms(machine, tokens[b]) if lifted else log_mass + np.log(ending)
        else:
            out[b] = -np.inf


@kernel
def _in_logarithms(machine, tokens):  # type: ignore[no-untyped-def]
    """`evidence_rows` for one row (L), from the log mass of each state: slower, but exact for masses of any ratio."""
    hidden = machine.column_start.shape[0] - 1
    states = machine.initial.shape[0]
    logs = np.log(machine.initial)
    evidence = np.empty(states)
    largest, total = np.empty(states), np.empty(states)

    for j in range(tokens.shape[0]):
        if j > 0:
            largest[:], total[:] = -np.inf, 0.0

            # a sum of exponentials, each below the largest of its target
            for s in range(states):
                for e in range(machine.edge_start[s], machine.edge_start[s + 1]):
                    t = machine.edge_target[e]
                    largest[t] = max(largest[t], logs[s] + np.log(machine.edge_weight[e]))
            for s in range(states):
                if logs[s] > -np.inf:
                    for e in range(machine.edge_start[s], machine.edge_start[s + 1]):
                        t = machine.edge_target[e]
                        total[t] += np.exp(logs[s] + np.log(machine.edge_weight[e]) - largest[t])
            for t in range(states):
                logs[t] = largest[t] + np.log(total[t]) if total[t] > 0.0 else -np.inf

        if tokens[j] != hidden:
            clear(evidence)
            for i in range(machine.column_start[tokens[j]], machine.column_start[tokens[j] + 1]):
                evidence[machine.column_state[i]] = machine.column_weight[i]
            logs += np.log(evidence)

    logs += np.log(machine.final)
    peak = logs.max()
    return peak + np.log(np.exp(logs - peak).sum())


def backward_rows(machine: Machine, tokens: Ints) -> Floats:
    """(B, L, S) backward messages given the revealed tokens (B, L)."""
    forward, backward = np.empty((2, *tokens.shape, machine.states))
    fill_rows(machine, tokens, forward, backward, np.empty(tokens.shape, bool))
    return backward


def sample_rows(machine: Machine, rng: Any, given: Ints, backward: Floats, out: Ints) -> None:
    """Draw x ~ q(. | given): states from left to right, each weighted by the backward message.

    `rng`: (seed, token_stream, state_stream, row_ids (B)). given and backward have one row, or one for each row of out
    (B, L).
    """
    order = np.argsort(machine.column_state, kind="stable")
    symbol = np.repeat(np.arange(machine.vocabulary), np.diff(machine.column_start))
    emission = starts_of(machine.column_state, machine.states), symbol[order], machine.column_weight[order]
    scratch = np.empty(machine.states), np.empty(machine.states), np.arange(machine.states)
    _sample_rows(machine, emission, scratch, rng, given, backward, out)


@kernel(_nrt=False)
def _sample_rows(machine, emission, scratch, rng, given, backward, out):  # type: ignore[no-untyped-def]
    """emission: the columns transposed into rows (start (S+1), token, weight)."""
    row_start, row_token, row_weight = emission
    weights, products, everywhere = scratch
    seed, token_stream, state_stream, row_ids = rng
    hidden = machine.column_start.shape[0] - 1
    zero = np.int64(0)
    for b in range(out.shape[0]):
        shared = min(b, given.shape[0] - 1)
        ahead = backward[shared]
        state = 0
        for j in range(out.shape[1]):
            weigh(machine, ahead[j], zero, given[shared, j], weights)
            u = uniform_at(seed, state_stream, row_ids[b], j, zero)
            if j == 0:
                state = _pick(everywhere, machine.initial, weights, products, u)
            else:
                begin, end = machine.edge_start[state], machine.edge_start[state + 1]
                state = _pick(machine.edge_target[begin:end], machine.edge_weight[begin:end], weights, products, u)

            if given[shared, j] != hidden:
                out[b, j] = given[shared, j]
            else:
                begin, end = row_start[state], row_start[state + 1]
                if end - begin == 1:
                    out[b, j] = row_token[begin]
                else:
                    u = uniform_at(seed, token_stream, row_ids[b], j, zero)
                    out[b, j] = row_token[begin + draw(row_weight[begin:end], u)]


@inner
def _pick(targets, masses, weights, products, u):  # type: ignore[no-untyped-def]
    """A target drawn with probability ~ masses(i) weights(targets(i))."""
    for i in range(masses.shape[0]):
        products[i] = masses[i] * weights[targets[i]]
    return targets[draw(products[: masses.shape[0]], u)]


@kernel
def path_entropy(machine, given, backward):  # type: ignore[no-untyped-def]
    """H(Z | given) in nats, for one row: sum_t E H(z_{t+1} | z_t, given after t).

    Equals H(X) if paths are unambiguous.
    """
    states = machine.initial.shape[0]
    weights, occupied, following = np.empty(states), np.empty(states), np.empty(states)
    ahead = backward.reshape(-1)
    first = np.int64(0)

    weigh(machine, ahead, first, given[0], weights)
    entropy = 0.0
    total = 0.0
    for s in range(states):
        occupied[s] = machine.initial[s] * weights[s]
        total += occupied[s]
    for s in range(states):
        occupied[s] /= total
        if occupied[s] > 0.0:
            entropy -= occupied[s] * np.log(occupied[s])

    for j in range(1, given.shape[0]):
        weigh(machine, ahead, j, given[j], weights)
        clear(following)
        for s in range(states):
            total = 0.0
            for e in range(machine.edge_start[s], machine.edge_start[s + 1]):
                total += machine.edge_weight[e] * weights[machine.edge_target[e]]
            if occupied[s] == 0.0 or total == 0.0:
                continue

            for e in range(machine.edge_start[s], machine.edge_start[s + 1]):
                t = machine.edge_target[e]
                fraction = machine.edge_weight[e] * weights[t] / total
                if fraction > 0.0:
                    entropy -= occupied[s] * fraction * np.log(fraction)
                    following[t] += occupied[s] * fraction
        occupied, following = following, occupied
    return entropy


@kernel
def reachable_ends(machine, longest):  # type: ignore[no-untyped-def]
    """(longest+1) booleans: whether sequences of each length exist."""
    states = machine.initial.shape[0]
    possible = np.zeros(longest + 1, np.bool_)
    here, following = machine.initial.copy(), np.zeros(states)
    for length in range(1, longest + 1):
        for s in range(states):
            if here[s] > 0.0 and machine.final[s] > 0.0:
                possible[length] = True

        clear(following)
        for s in range(states):
            if here[s] > 0.0:
                for e in range(machine.edge_start[s], machine.edge_start[s + 1]):
                    following[machine.edge_target[e]] = 1.0
        here, following = following, here
    return possible


@kernel
def filter_rows(machine, ahead, predicted, lengths, tokens, counts, out):  # type: ignore[no-untyped-def]
    """Append counts (B) of the tokens (B, K) to each prefix; out (B, K, V) is the prediction after each token.

    predicted (B, L, S) has the forward message of every position so far; a length of -1 means that the next token is
    the start. ahead (L, S): the backward messages without later tokens.
    """
    here, there = np.empty(ahead.shape[1]), np.empty(ahead.shape[1])
    future = ahead.reshape(-1)

    for b in range(tokens.shape[0]):
        messages = predicted[b].reshape(-1)
        for k in range(min(counts[b], ahead.shape[0] - 1 - lengths[b])):
            j = lengths[b] + 1 + k
            if j == 0:
                for s in range(here.shape[0]):
                    messages[s] = machine.initial[s]
            else:
                carry(machine, messages, j - 1, tokens[b, k], here, there, j)
            marginal(machine, messages, j, future, j, out[b, k], here)


@kernel
def draw_rows(machine, ahead, rng, prefixes, tokens, probability):  # type: ignore[no-untyped-def]
    """Draw the continuation of each prefix from q(x_j | x_<j) into tokens (B, L) and probability (B, L).

    `rng`: (seed, stream, row_ids (B)). ahead (L, S): the backward messages without later tokens.
    """
    seed, stream, row_ids = rng
    hidden = machine.column_start.shape[0] - 1
    zero = np.int64(0)
    message, here, there = np.empty(ahead.shape[1]), np.empty(ahead.shape[1]), np.empty(ahead.shape[1])
    distribution = np.empty(hidden)
    future = ahead.reshape(-1)

    for b in range(tokens.shape[0]):
        for s in range(message.shape[0]):
            message[s] = prefixes.message[b, s]
        for j in range(prefixes.end[b], tokens.shape[1]):
            token = prefixes.token[b]
            if token == hidden or j > prefixes.end[b]:
                marginal(machine, message, zero, future, j, distribution, here)
                token = draw(distribution, uniform_at(seed, stream, row_ids[b], j, zero))
                tokens[b, j] = token
                probability[b, j] = distribution[token]
            carry(machine, message, zero, token, here, there, zero)


@kernel(_nrt=False)
def window_masses(machine, starts, ends, scratch, distribution):  # type: ignore[no-untyped-def]
    """Add to `distribution` (V^size) the mean mass of each window over T positions, between starts and ends (T, S).

    The windows are walked depth first: a common beginning is computed once, and an impossible one is skipped. scratch:
    a window (size), the mass before each of its tokens is emitted (size, S), and the masses of all windows (V^size).
    """
    count, states = starts.shape
    token, level, here = scratch
    size = token.shape[0]
    vocabulary = machine.column_start.shape[0] - 1

    for t in range(count):
        clear(here)
        for s in range(states):
            level[0, s] = starts[t, s]
        token[0] = -1
        k = 0
        code = 0

        while k >= 0:
            token[k] += 1
            if token[k] == vocabulary:
                k -= 1
                code //= vocabulary
                continue

            begin, end = machine.column_start[token[k]], machine.column_start[token[k] + 1]
            if k == size - 1:
                for i in range(begin, end):
                    s = machine.column_state[i]
                    here[code * vocabulary + token[k]] += level[k, s] * machine.column_weight[i] * ends[t, s]
                continue

            clear(level[k + 1])
            reached = 0.0
            for i in range(begin, end):
                s = machine.column_state[i]
                mass = level[k, s] * machine.column_weight[i]
                reached += mass
                if mass > 0.0:
                    for e in range(machine.edge_start[s], machine.edge_start[s + 1]):
                        level[k + 1, machine.edge_target[e]] += mass * machine.edge_weight[e]
            if reached > 0.0:
                code = code * vocabulary + token[k]
                k += 1
                token[k] = -1

        total = 0.0
        for code in range(distribution.shape[0]):
            total += here[code]
        for code in range(distribution.shape[0]):
            distribution[code] += here[code] / (total * count)


def log_evidence(machine: Machine, tokens: np.ndarray) -> Floats:
    out = np.empty(len(tokens))
    evidence_rows(machine, np.ascontiguousarray(tokens, np.int64), out)
    return out
