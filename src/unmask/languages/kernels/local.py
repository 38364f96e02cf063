"""Languages whose marginals need only the tokens themselves: first-order chains, and the interval language.

A hidden token of a chain depends only on its nearest revealed neighbours (theory.md 7.3):

    q(x_j = v | x_R) ~ P^a(x_{j-a}, v) P^b(v, x_{j+b})

Without a revealed token on the left, the first factor is the marginal mu_j; without one on the right, the second is 1.
If the product is zero everywhere, the first factor alone is the result, as with messages that restart. In the interval
language, revealed partners determine bits of a token, and its other bits are fair (theory.md 6).

Kernels of both get (chain, None) or (None, width): numba compiles only the branch that applies.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from unmask.core.chance import uniform_at
from unmask.core.compiled import inner, kernel
from unmask.languages.kernels.machine import Floats, Ints
from unmask.languages.kernels.messages import FLOOR, step_end, write

MAX_BYTES = 2**26
ALONE = (np.int64(-1),) * 3  # no position on the left is known; literals would be compiled once more


class Chain(NamedTuple):
    powers: Floats  # (D+1, V, V): P^0 .. P^D; later powers equal the last
    marginals: Floats  # (L, V): q(x_j)


def chain(initial: Floats, transition: Floats, length: int) -> Chain | None:
    """The tables for sequences of this length; None if they would be too large."""
    size = len(initial)
    if length * size * 8 > MAX_BYTES:
        return None

    powers = [np.eye(size), transition]
    while len(powers) <= length and not _same(powers[-1], powers[-2]):
        if len(powers) * size * size * 8 > MAX_BYTES:
            return None
        powers.append(_advance(powers[-1], transition))

    marginals = [initial]
    while len(marginals) < length:
        marginals.append(_advance(marginals[-1], transition))
    return Chain(np.stack(powers), np.stack(marginals))


def _advance(masses: Floats, transition: Floats) -> Floats:
    """masses @ transition, with possible entries raised to the floor."""
    following = masses @ transition
    possible = (masses > 0).astype(float) @ (transition > 0) > 0
    return np.where(possible, np.maximum(following, FLOOR), 0.0)


def _same(a: Floats, b: Floats) -> bool:
    return bool((np.abs(a - b) <= 1e-15 * b).all())


@inner
def _neighbours(tokens, hidden, j, near):  # type: ignore[no-untyped-def]
    """(j, i, k): the nearest revealed positions left and right of j; -1 and L without one.

    near: the result for a position on the left, which shortens the search, or ALONE."""
    before, i, k = near
    left = j - 1
    while left > before and tokens[left] == hidden:
        left -= 1
    if left >= 0 and tokens[left] != hidden:
        i = left

    if k <= j:
        k = j + 1
        while k < tokens.shape[0] and tokens[k] == hidden:
            k += 1
    return j, i, k


@inner
def chain_marginal(chain, row, j, near, out):  # type: ignore[no-untyped-def]
    """out (V): the marginal at hidden position j of row (L). Return j and its neighbours."""
    vocabulary = out.shape[0]
    most = chain.powers.shape[0] - 1
    _, i, k = near = _neighbours(row, vocabulary, j, near)

    total = 0.0
    for attempt in range(2):
        for v in range(vocabulary):
            mass = chain.marginals[j, v] if i < 0 else chain.powers[min(j - i, most), row[i], v]
            if attempt == 0 and k < row.shape[0]:
                mass *= chain.powers[min(k - j, most), v, row[k]]
            out[v] = mass
            total += mass
        if total > 0.0:
            break

    for v in range(vocabulary):
        out[v] /= total
    return near


@inner
def chain_contradicts(chain, row, j):  # type: ignore[no-untyped-def]
    """Whether the revealed token at position j of row (L) contradicts its nearest revealed neighbours."""
    vocabulary = chain.powers.shape[1]
    most = chain.powers.shape[0] - 1
    _, i, k = _neighbours(row, vocabulary, j, ALONE)
    before = chain.marginals[j, row[j]] if i < 0 else chain.powers[min(j - i, most), row[i], row[j]]
    after = chain.powers[min(k - j, most), row[j], row[k]] if k < row.shape[0] else 1.0
    return before == 0.0 or after == 0.0


@inner
def bit_index(own, partner):  # type: ignore[no-untyped-def]
    """The index of that bit within the token: there is none for the offset itself."""
    return partner - (own < partner)


@inner
def bit_of(token, own, partner):  # type: ignore[no-untyped-def]
    """The bit B that `token` at offset `own` of its block shares with offset `partner`; both count from 0."""
    return (token >> bit_index(own, partner)) & 1


@inner
def partners(width, tokens, j):  # type: ignore[no-untyped-def]
    """(known, value): the mask of the bits of position j that revealed partners determine, and their values."""
    hidden = 1 << (width - 1)
    own = j % width
    known, value = 0, 0
    for place in range(width):
        i = j - own + place
        if place != own and i < tokens.shape[0] and tokens[i] != hidden:
            index = bit_index(own, place)
            known |= 1 << index
            value |= bit_of(tokens[i], place, own) << index
    return known, value


@inner
def interval_marginal(width, row, j, out):  # type: ignore[no-untyped-def]
    """out (V): the marginal at position j of row (L) given the others: uniform over tokens with every known bit."""
    hidden = 1 << (width - 1)
    for v in range(hidden):
        out[v] = 0.0
    known, value = partners(width, row, j)
    free = width - 1
    for c in range(width - 1):
        free -= (known >> c) & 1
    mass = 0.5**free
    for v in range(hidden):
        if v & known == value:
            out[v] = mass


@inner
def interval_contradicts(width, row, j):  # type: ignore[no-untyped-def]
    """Whether the revealed token at position j of row (L) disagrees with a revealed partner."""
    hidden = 1 << (width - 1)
    own = j % width
    for place in range(width):
        i = j - own + place
        if place == own or i >= row.shape[0] or row[i] == hidden:
            continue
        if bit_of(row[i], place, own) != bit_of(row[j], own, place):
            return True
    return False


@kernel(_nrt=False)
def shown_bits(width, hidden, tokens, out):  # type: ignore[no-untyped-def]
    """out (B): the number of independent fair bits in the revealed tokens; inf if two of them contradict each other."""
    for b in range(tokens.shape[0]):
        bits = 0
        for j in range(tokens.shape[1]):
            token = tokens[b, j]
            if token == hidden:
                continue

            own = j % width
            bits += width - 1
            for i in range(j - own, j):
                if tokens[b, i] != hidden:
                    bits -= 1
                    if bit_of(token, own, i % width) != bit_of(tokens[b, i], i % width, own):
                        bits = 1 << 60
        out[b] = bits if bits < 1 << 40 else np.inf


@kernel(_nrt=False)
def sample_rows(width, seed, stream, row_ids, given, out):  # type: ignore[no-untyped-def]
    """Draw x ~ q(. | given): the bit of each pair from its given end, or else random, keyed by its earlier end."""
    hidden = 1 << (width - 1)
    for b in range(out.shape[0]):
        shared = min(b, given.shape[0] - 1)
        for j in range(out.shape[1]):
            if given[shared, j] != hidden:
                out[b, j] = given[shared, j]
                continue

            own = j % width
            known, value = partners(width, given[shared], j)

            token = 0
            for place in range(width):
                if place == own:
                    continue
                index = bit_index(own, place)
                bit = (value >> index) & 1
                if not (known >> index) & 1:
                    first, second = min(own, place), max(own, place)
                    bit = int(uniform_at(seed, stream, row_ids[b], j - own + first, second) < 0.5)
                token |= bit << index
            out[b, j] = token


@inner
def marginal(chain, width, row, j, near, out):  # type: ignore[no-untyped-def]
    """out (V): the marginal at position j of row (L) from the others. Return `near` for the next one on the right."""
    if chain is not None:
        near = chain_marginal(chain, row, j, near, out)
    if width is not None:
        interval_marginal(width, row, j, out)
    return near


@inner
def contradicts(chain, width, row, j):  # type: ignore[no-untyped-def]
    """Whether the revealed token at position j of row (L) contradicts the tokens revealed around it."""
    impossible = False
    if chain is not None:
        impossible = chain_contradicts(chain, row, j)
    if width is not None:
        impossible = interval_contradicts(width, row, j)
    return impossible


@kernel(_nrt=False)
def marginals_at(chain, width, tokens, rows, positions, out):  # type: ignore[no-untyped-def]
    """out (K, V): the marginals at K hidden positions of tokens (B, L)."""
    near = ALONE
    for k in range(rows.shape[0]):
        if near[0] >= positions[k] or rows[k] != rows[max(k - 1, 0)]:
            near = ALONE
        near = marginal(chain, width, tokens[rows[k]], positions[k], near, out[k])


@kernel(_nrt=False)
def contradictions(chain, width, tokens, rows, positions, dead):  # type: ignore[no-untyped-def]
    """Set dead (B) if a newly revealed token (K) contradicts the tokens around it."""
    for k in range(rows.shape[0]):
        if contradicts(chain, width, tokens[rows[k]], positions[k]):
            dead[rows[k]] = True


@kernel(_nrt=False)
def fill(chain, width, scratch, tokens, order, begins, rng, visits, probability, model_calls, impossible):  # type: ignore[no-untyped-def]
    """`messages.fill`. scratch: dead (B), which persists, a distribution (V), and tokens (L) of one step."""
    steps, positions = order
    dead, distribution, drawn = scratch
    length = tokens.shape[1]
    for b in range(tokens.shape[0]):
        row, at = tokens[b], positions[b]
        begin = begins[b]
        while begin < length:
            end = step_end(steps[b], begin)
            model_calls[b] += 1
            if dead[b] and impossible[b] == 0:
                impossible[b] = model_calls[b]

            # draws of one step do not see each other
            for i in range(begin, end):
                marginal(chain, width, row, at[i], ALONE, distribution)
                drawn[i] = write(distribution, rng, b, at[i], visits, probability)
            for i in range(begin, end):
                row[at[i]] = drawn[i]
            for i in range(begin, end):
                dead[b] |= contradicts(chain, width, row, at[i])

            begin = end


def posterior_rows(form: tuple[Chain | None, int | None], tokens: Ints, positions: Ints, out: Floats) -> None:
    """out (B, K, V): marginals at positions (B, K) of tokens (B, L), one-hot if revealed. form: (chain, width)."""
    shown = np.take_along_axis(tokens, positions, 1)
    rows, which = map(np.ascontiguousarray, np.nonzero(shown == out.shape[2]))  # compiled for one layout
    distributions = np.empty((len(rows), out.shape[2]))
    marginals_at(*form, tokens, rows, positions[rows, which], distributions)
    out[:] = shown[..., None] == np.arange(out.shape[2])
    out[rows, which] = distributions
