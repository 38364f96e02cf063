"""First-order chains in closed form: a hidden token depends only on its nearest revealed neighbours.

    q(x_j = v | x_R) ~ P^a(x_{j-a}, v) P^b(v, x_{j+b})                                             (theory.md 7.3)

Without a revealed token on the left, the first factor is the marginal mu_j; without one on the right, the second is 1.
If the product is zero everywhere, the first factor alone is the result, as with messages that restart.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from unmask.core.compiled import kernel
from unmask.languages.kernels.machine import Floats
from unmask.languages.kernels.messages import FLOOR

MAX_BYTES = 2**26


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


@kernel(_nrt=False)
def _neighbours(tokens, hidden, j):  # type: ignore[no-untyped-def]
    """(i, k): the nearest revealed positions left and right of j; -1 and L without one."""
    i, k = j - 1, j + 1
    while i >= 0 and tokens[i] == hidden:
        i -= 1
    while k < tokens.shape[0] and tokens[k] == hidden:
        k += 1
    return i, k


@kernel(_nrt=False)
def marginal(chain, row, j, out):  # type: ignore[no-untyped-def]
    """out (V): the marginal at hidden position j of row (L)."""
    vocabulary, most = out.shape[0], chain.powers.shape[0] - 1
    i, k = _neighbours(row, vocabulary, j)
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


@kernel(_nrt=False)
def contradicts(chain, row, j):  # type: ignore[no-untyped-def]
    """Whether the revealed token at position j of row (L) contradicts its nearest revealed neighbours."""
    vocabulary, most = chain.powers.shape[1], chain.powers.shape[0] - 1
    i, k = _neighbours(row, vocabulary, j)
    before = chain.marginals[j, row[j]] if i < 0 else chain.powers[min(j - i, most), row[i], row[j]]
    after = chain.powers[min(k - j, most), row[j], row[k]] if k < row.shape[0] else 1.0
    return before == 0.0 or after == 0.0
