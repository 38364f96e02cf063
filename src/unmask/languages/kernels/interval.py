"""The interval language in bits: the bits of a token that its revealed partners determine (theory.md 6)."""

from __future__ import annotations

import numpy as np

from unmask.core.chance import uniform_at
from unmask.core.compiled import kernel


@kernel(_nrt=False)
def bit_of(token, own, partner):  # type: ignore[no-untyped-def]
    """The bit B that `token` at offset `own` of its block shares with offset `partner`; both count from 0."""
    return (token >> (partner - 1 if own < partner else partner)) & 1


@kernel(_nrt=False)
def partners(width, tokens, j):  # type: ignore[no-untyped-def]
    """(known, value): the mask of the bits of position j that revealed partners determine, and their values."""
    hidden = 1 << (width - 1)
    own = j % width
    known, value = 0, 0
    for place in range(width):
        i = j - own + place
        if place != own and i < tokens.shape[0] and tokens[i] != hidden:
            index = place - 1 if own < place else place
            known |= 1 << index
            value |= bit_of(tokens[i], place, own) << index
    return known, value


@kernel(_nrt=False)
def marginal(width, row, j, out):  # type: ignore[no-untyped-def]
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


@kernel(_nrt=False)
def contradicts(width, row, j):  # type: ignore[no-untyped-def]
    """Whether the revealed token at position j of row (L) disagrees with a revealed partner."""
    hidden, own = 1 << (width - 1), j % width
    for place in range(width):
        i = j - own + place
        if place == own or i >= row.shape[0] or row[i] == hidden:
            continue
        if bit_of(row[i], place, own) != bit_of(row[j], own, place):
            return True
    return False


@kernel(_nrt=False)
def marginals_at(width, tokens, rows, positions, out):  # type: ignore[no-untyped-def]
    """out (K, V): the marginals at K positions of tokens (B, L)."""
    for k in range(rows.shape[0]):
        marginal(width, tokens[rows[k]], positions[k], out[k])


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
        shared = b if given.shape[0] > 1 else 0
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
                index = place - 1 if own < place else place
                if (known >> index) & 1:
                    bit = (value >> index) & 1
                else:
                    first, second = min(own, place), max(own, place)
                    u = uniform_at(seed, stream, row_ids[b], j - own + first, second)
                    bit = 1 if u < 0.5 else 0
                token |= bit << index
            out[b, j] = token
