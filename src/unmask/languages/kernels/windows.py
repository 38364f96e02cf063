"""Messages of an n-gram over windows of m = n - 1 positions, only where windows agree with the revealed tokens.

    forward[j](x_{j-m+1} .. x_j)  ~ q(x_{j-m+1} .. x_j, x_R before j)
    backward[j](x_j .. x_{j+m-1}) ~ q(x_R after j+m-1 | x_j .. x_{j+m-1})
    q(x_j = v | x_R) ~ sum of forward[t] backward[t-m+1] over the windows that agree with x_R, with x_j = v

An entry whose window disagrees with x_R has no part in this sum, at any later step either. So it is not computed. At
position j itself a message has entries for all symbols; at each other revealed position of its window it has entries
for one. So each revealed token makes m - 1 messages V times smaller; m revealed neighbors leave nothing to compute.

Backward is the mirror image of forward: the same recursion in the other direction. As in messages.py, an update ends
when a message agrees with the old one. A window beyond a changed position does not contain it, so the update goes at
least that far. Contexts must be possible; `messages.fill` continues when one is not.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import int64, uint64

from unmask.core.compiled import inner, kernel
from unmask.languages.kernels.lanes import LANES, distance, load, splat, store, sum_in_pairs, where_greater
from unmask.languages.kernels.machine import Floats, Indices, Ints, aligned
from unmask.languages.kernels.messages import FLOOR, TOLERANCE, step_end, write


class Windows(NamedTuple):
    """An n-gram. A message has V^(m-1) W entries, with W = V rounded up to whole vectors of eight lanes.

    Strings r of m - 1 tokens are numbers in base V. Message: (W/8, r, 8), the last token of the window in the lanes.
    """

    memory: int  # m
    symbols: int  # V
    initial: Floats  # (W/8, r, 8): the first forward message
    ahead: Floats  # (W/8, r, V, 8), flat: q(w | x r) at r, x, w
    behind: Floats  # (W/8, r, V, 8), flat: q(w | x r) at reversed r, w, x


class Scratch(NamedTuple):
    """Scratch memory of one row."""

    codes: Indices  # (2, V^(m-1))
    there: Floats  # (V^(m-1) * W)
    distribution: Floats  # (V)
    drawn: Ints  # (L)
    everywhere: Ints  # (L): 0 .. L-1


def windows(memory: int, initial: Floats, transition: Floats) -> Windows:
    """From the probabilities (V^m) of the first m tokens, and of the next token after each context (V^m, V)."""
    symbols = transition.shape[1]
    by_token = transition.reshape((symbols,) * (memory + 1))
    ahead, behind = (np.moveaxis(table, 0, -2) for table in (by_token, by_token.transpose()))
    return Windows(memory, symbols, *(_in_lanes(table, symbols) for table in (initial, ahead, behind)))


def _in_lanes(table: Floats, symbols: int) -> Floats:
    """(.., V) as (W/8, .., 8), flat."""
    rows = table.reshape(-1, symbols)
    tiles = -(-symbols // LANES)
    out = aligned((tiles, len(rows), LANES))
    for v in range(symbols):
        out[v // LANES, :, v % LANES] = rows[:, v]
    return out.reshape(-1)


def scratch(form: Windows, length: int) -> Scratch:
    codes = np.empty((2, form.symbols ** (form.memory - 1)), np.uint64)
    return Scratch(
        codes, aligned(form.initial.shape), np.empty(form.symbols), np.empty(length, np.int64), np.arange(length)
    )


def blank(form: Windows, length: int) -> Floats:
    """(2, L*size): the messages of a canvas without revealed tokens."""
    both = aligned((2, length, len(form.initial)))
    both[0, form.memory - 1], both[1, -form.memory] = form.initial, 1.0
    flat = both.reshape(2, -1)
    sweep(form, np.full(length, form.symbols), *flat, np.arange(length), scratch(form, length))
    return flat


@kernel(_nrt=False)
def sweep(form, tokens, forward, backward, changed, scratch):  # type: ignore[no-untyped-def]
    """Update both messages (L*size) from the changed positions (ascending). Return whether the context is possible."""
    return _sweep(form, form.ahead, int64(1), tokens, forward, changed, scratch) and _sweep(
        form, form.behind, int64(-1), tokens, backward, changed, scratch
    )


@inner
def _sweep(form, table, step, tokens, messages, changed, scratch):  # type: ignore[no-untyped-def]
    """`sweep` in one direction: step is 1 forwards, -1 backwards."""
    memory, length, count = form.memory, tokens.shape[0], changed.shape[0]
    first, last = (memory - 1, length - 1) if step > 0 else (length - memory, 0)
    i, j, reach = 0, first, first
    while i < count:
        at = changed[i] if step > 0 else changed[count - 1 - i]
        j = at if (at - first) * step > 0 else first
        while True:
            while i < count and ((changed[i] if step > 0 else changed[count - 1 - i]) - j) * step <= 0:
                reach = (changed[i] if step > 0 else changed[count - 1 - i]) + step * memory
                i += 1
            if j == last:
                if not _possible(form, tokens, j, step, messages, scratch):
                    return False
                break
            possible, agreed = carry(form, table, step, tokens, j, messages, scratch)
            if not possible:
                return False
            j += step
            if agreed and (j - reach) * step >= 0:
                break
    return True


@inner
def carry(form, table, step, tokens, j, messages, scratch):  # type: ignore[no-untyped-def]
    """Set message j + step from message j. Return (whether the context is possible, whether it agrees with the old)."""
    codes, there = scratch.codes, scratch.there
    summed, size = j - step * (form.memory - 1), uint64(there.shape[0])
    count = uint64(_agreeing(form, tokens, summed + step, step, codes))
    low, high = _range(form, tokens[summed])
    mass = _multiply(table, codes, count, low, high, messages, uint64(j) * size, there)
    if mass == 0.0:
        return False, False
    return True, _settle(there, codes, count, 1.0 / mass, messages, uint64(j + step) * size)


@inner(forceinline=True)
def _range(form, token):  # type: ignore[no-untyped-def]
    """The symbols low .. high - 1 that agree with a token."""
    low = uint64(token % form.symbols)
    return low, low + uint64(1) if token < form.symbols else uint64(form.symbols)


@inner
def _agreeing(form, tokens, first, step, codes):  # type: ignore[no-untyped-def]
    """Set codes (2, ..) for each string of m - 1 tokens from position `first` that agrees with the revealed tokens.

    These are its number in base V, and its offset in a message that has it last. Return how many there are.
    """
    n, block = 1, uint64(codes.shape[1] * LANES)
    codes[0, 0] = 0
    for c in range(form.memory - 1):
        low, high = _range(form, tokens[first + step * c])
        for i in range(n - 1, -1, -1):
            code, k = codes[0, i], uint64(i) * (high - low)
            for v in range(low, high):
                codes[0, k] = code * uint64(form.symbols) + v
                codes[1, k] = _offset(code, v, block)
                k += uint64(1)
        n *= int(high - low)
    return n


@inner(forceinline=True)
def _offset(string, last, block):  # type: ignore[no-untyped-def]
    """The index of an entry in a message: of a string of m - 1 tokens and its last token."""
    return last // uint64(LANES) * block + string * uint64(LANES) + last % uint64(LANES)


@inner
def _multiply(table, codes, count, low, high, messages, begin, there):  # type: ignore[no-untyped-def]
    """Set there (W/8, count, 8) = sum over x in low .. high - 1 of message(x r) q(. | x r). Return its sum."""
    lanes, size = uint64(LANES), uint64(there.shape[0])
    symbols, strings = uint64(table.shape[0]) // size, uint64(codes.shape[1])
    stride, out, sums = strings // symbols * lanes, uint64(0), splat(0.0)
    for tile in range(uint64(0), uint64(table.shape[0]), symbols * strings * lanes):
        for i in range(count):
            row, at = tile + (codes[0, i] * symbols + low) * lanes, begin + codes[1, i] + low * stride
            total, x = splat(0.0), low
            while x + uint64(4) <= high:  # sums of pairs hide the latency of an addition
                a = splat(messages[at]) * load(table, row)
                b = splat(messages[at + stride]) * load(table, row + lanes)
                a += splat(messages[at + uint64(2) * stride]) * load(table, row + uint64(2 * LANES))
                b += splat(messages[at + uint64(3) * stride]) * load(table, row + uint64(3 * LANES))
                total += a + b
                x, row, at = x + uint64(4), row + uint64(4 * LANES), at + uint64(4) * stride
            while x < high:
                total += splat(messages[at]) * load(table, row)
                x, row, at = x + uint64(1), row + lanes, at + stride
            store(there, out, total)
            sums += total
            out += lanes
    return sum_in_pairs(sums)


@inner
def _settle(there, codes, count, scale, messages, begin):  # type: ignore[no-untyped-def]
    """`messages.settle` for the computed entries. Return whether they agree with the old ones."""
    scales, floor, zero, one, tolerance = splat(scale), splat(FLOOR), splat(0.0), splat(1.0), splat(TOLERANCE)
    lanes, moved, out = uint64(LANES), zero, uint64(0)
    for tile in range(begin, begin + uint64(there.shape[0]), uint64(codes.shape[1]) * lanes):
        for i in range(count):
            mass, at = load(there, out), tile + codes[0, i] * lanes
            old, new = load(messages, at), mass * scales
            new = where_greater(mass, zero, where_greater(new, floor, new, floor), zero)
            store(messages, at, new)
            moved += where_greater(distance(new, old), old * tolerance, one, zero)
            out += lanes
    return sum_in_pairs(moved) == 0.0


@inner
def _possible(form, tokens, j, step, messages, scratch):  # type: ignore[no-untyped-def]
    """Whether some window of the last message agrees with all revealed tokens."""
    size, codes, total = uint64(scratch.there.shape[0]), scratch.codes, 0.0
    summed = j - step * (form.memory - 1)
    low, high = _range(form, tokens[summed])
    stride = uint64(codes.shape[1] * LANES) // uint64(form.symbols)
    for i in range(uint64(_agreeing(form, tokens, summed + step, step, codes))):
        for x in range(low, high):
            total += messages[uint64(j) * size + x * stride + codes[1, i]]
    return total > 0.0


@kernel(_nrt=False)
def marginal(form, tokens, j, forward, backward, out, scratch):  # type: ignore[no-untyped-def]
    """out (V): the marginal at position j, of which a revealed token is ignored."""
    token, tokens[j] = tokens[j], form.symbols
    codes, symbols, size = scratch.codes, uint64(form.symbols), uint64(scratch.there.shape[0])
    block = uint64(codes.shape[1] * LANES)
    last = max(j, form.memory - 1)
    first = last - form.memory + 1
    if token < form.symbols:  # the backward messages over j lack its other symbols
        for i in range(min(j, tokens.shape[0] - form.memory), first, -1):
            carry(form, form.behind, int64(-1), tokens, i, backward, scratch)
    n, place = 1, uint64(0)  # codes: the window without its last token, and its offset in backward
    codes[0, 0] = codes[1, 0] = 0
    for at in range(first, last):
        low, high = _range(form, tokens[at])
        for i in range(n - 1, -1, -1):
            ahead, behind, k = codes[0, i], codes[1, i], uint64(i) * (high - low)
            for v in range(low, high):
                codes[0, k] = ahead * symbols + v
                codes[1, k] = behind + (v * place if at > first else _offset(uint64(0), v, block))
                k += uint64(1)
        n *= int(high - low)
        place = max(place * symbols, uint64(LANES))
    for v in range(symbols):
        out[v] = 0.0
    total, shift = 0.0, symbols ** uint64(max(last - 1 - j, 0))
    low, high = _range(form, tokens[last])
    for k in range(uint64(n)):
        for z in range(low, high):
            mass = forward[uint64(last) * size + _offset(codes[0, k], z, block)]
            mass *= backward[uint64(first) * size + codes[1, k] + z * place]
            out[z if j == last else codes[0, k] // shift % symbols] += mass
            total += mass
    for v in range(symbols):
        out[v] /= total
    tokens[j] = token


@kernel(_nrt=False)
def fill(form, empty, spare, tokens, order, begins, rng, visits, probability, model_calls, impossible):  # type: ignore[no-untyped-def]
    """`messages.fill`. empty (2, L*size): `blank`; spare: messages (2, L*size) and scratch.

    Ends a row whose context becomes impossible. Sets begins (B): the index in its order from which each row goes on.
    """
    (steps, positions), length, (both, scratch) = order, tokens.shape[1], spare
    forward, backward = both[0], both[1]
    for b in range(tokens.shape[0]):
        begin = begins[b]
        for i in range(uint64(forward.shape[0])):
            forward[i] = empty[0, i]
            backward[i] = empty[1, i]
        changed = scratch.everywhere[: length * (begin > 0)]
        while begin < length and sweep(form, tokens[b], forward, backward, changed, scratch):
            end = step_end(steps[b], begin)
            changed = positions[b, begin:end]
            model_calls[b] += 1
            for i in range(begin, end):  # draws of one step do not see each other
                marginal(form, tokens[b], positions[b, i], forward, backward, scratch.distribution, scratch)
                scratch.drawn[i] = write(scratch.distribution, rng, b, positions[b, i], visits, probability)
            for i in range(begin, end):
                tokens[b, positions[b, i]] = scratch.drawn[i]
            begin = end
        begins[b] = begin


@kernel
def sweep_rows(form, tokens, forward, backward, possible, rows, starts, positions, scratch):  # type: ignore[no-untyped-def]
    """`messages.sweep_rows`; sets possible (B)."""
    for i in range(rows.shape[0]):
        b, changed = rows[i], positions[starts[i] : starts[i + 1]]
        possible[b] = sweep(form, tokens[b], forward[b].reshape(-1), backward[b].reshape(-1), changed, scratch)


@kernel
def marginals_at(form, tokens, forward, backward, rows, positions, out, scratch):  # type: ignore[no-untyped-def]
    """`messages.marginals_at`."""
    for k in range(rows.shape[0]):
        b = rows[k]
        ahead, behind = forward[b].reshape(-1), backward[b].reshape(-1)
        marginal(form, tokens[b], positions[k], ahead, behind, out[k], scratch)
