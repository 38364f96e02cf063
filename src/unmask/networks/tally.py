"""The attention of a first block, kept up to date while a canvas is filled: O(L) for a token instead of O(L^2).

The first block knows no more of a place than its symbol, and rotary scores depend on distances, so that with a = x_i
and c = x_j the weight of j for i is a table w(a, c, i - j). A place attends to each symbol as a whole,

    n_i(c) = sum_{j: x_j = c} w(a, c, i - j),        what attention adds at i = sum_c n_i(c) u_c / sum_c n_i(c),

u_c being the value of c behind the output map. A token that changes at j changes two of these sums at every i, and all
of them at j. They are sums of whole numbers, so that what was added goes away without a trace and n is a function of
the tokens alone; their quanta are 2^-53 L of the largest weight, hence the limit on how far weights may be apart.
"""

from __future__ import annotations

import math

import numpy as np
import torch
from numba import njit
from torch import Tensor

from unmask.networks.trunk import Block, Trunk

MOST_BYTES = 2**25  # of a table; the sums may take eight times as much
MOST_NATS = 22.0  # between the largest and the least weight of a symbol: relative errors stay below 1e-6


class Tally:
    """n (B, L, V+1, heads) of the rows of a canvas; a row that has not been asked for hides everything."""

    def __init__(self, weights: Tensor, values: Tensor, rows: int, length: int) -> None:
        self.weights = weights.numpy()  # (V+1, V+1, 2L-1, heads)
        self.values = values  # ((V+1) heads, hidden)
        mask = len(self.weights) - 1
        hidden = self.weights[mask, mask].cumsum(0)  # of distances from 1-L up
        start = np.zeros((length, *self.weights.shape[1::2]), np.int64)
        start[:, mask] = hidden[length - 1 :]
        start[1:, mask] -= hidden[: length - 1]
        self.sums = np.tile(start, (rows, 1, 1, 1))
        self.tokens = np.full((rows, length), mask)

    @classmethod
    def of(cls, trunk: Trunk, rows: int, length: int) -> Tally | None:
        """None where it cannot be or would not pay: one block, a clock, a device, many symbols or rows, far apart."""
        shape, symbols = trunk.shape, trunk.shape.vocabulary + 1
        if shape.layers < 2 or not shape.time_free or trunk.device.type != "cpu" or trunk.dtype != torch.float32:
            return None
        if (
            16 * symbols**2 * length * shape.heads > MOST_BYTES
            or 8 * rows * length * symbols * shape.heads > 8 * MOST_BYTES
        ):
            return None
        block = trunk.blocks[0]
        assert isinstance(block, Block)
        query, key, value = (
            block.qkv(block.before(trunk.embed.weight)).double().view(symbols, 3, shape.heads, -1).unbind(1)
        )
        log_weights = _scores(query, key, trunk.rates.double(), length)  # (V+1, V+1, 2L-1, heads)
        log_weights = log_weights - log_weights.amax((1, 2), keepdim=True)
        if float(log_weights.min()) < -MOST_NATS:
            return None
        weights = (log_weights.exp() * 2.0 ** (62 - math.ceil(math.log2(length)))).round().long()
        out = block.out.weight.double().view(shape.hidden, shape.heads, -1)
        values = torch.einsum("xhd,chd->chx", out, value).flatten(0, 1).float()
        return cls(weights.contiguous(), values, rows, length)

    def mixed(self, rows: Tensor, tokens: Tensor) -> Tensor:
        """What attention adds (R, L, hidden) to rows (R), whose tokens (R, L) are now these."""
        shares = torch.empty((*tokens.shape, *self.sums.shape[2:]))
        _update(self.weights, self.sums, self.tokens, rows.numpy(), tokens.numpy(), shares.numpy())
        return shares.flatten(2) @ self.values


def _scores(query: Tensor, key: Tensor, rates: Tensor, length: int) -> Tensor:
    """q_a k_c / sqrt(D) at distances 1-L..L-1 (S, S, 2L-1, heads), of queries and keys (S, heads, D) before turning.

    Turned by the angle of its place, a pair is multiplied by e^(i angle): Re sum_f q_f conj(k_f) e^(i rate_f (i - j)).
    """
    half = query.shape[-1] // 2
    pairs = [torch.complex(x[..., :half].contiguous(), x[..., half:].contiguous()) for x in (query, key)]
    products = torch.einsum("ahf,chf->achf", pairs[0], pairs[1].conj())
    distances = torch.arange(1 - length, length, dtype=torch.float64)
    angles = distances.unsqueeze(1) * rates
    turns = torch.polar(torch.ones_like(angles), angles)
    return torch.einsum("achf,df->acdh", products, turns).real / math.sqrt(2 * half)


@njit(cache=True, nogil=True)
def _update(weights, sums, tokens, rows, now, shares):  # type: ignore[no-untyped-def]
    length, symbols, heads = sums.shape[1:]
    total, scale = np.empty(heads, np.int64), np.empty(heads)
    for r in range(len(rows)):
        mine, held = sums[rows[r]], tokens[rows[r]]
        for j in range(length):
            if held[j] != now[r, j]:
                _change(weights, mine, held, j, now[r, j])
        for i in range(length):
            total[:] = 0
            for c in range(symbols):
                some = mine[i, c]
                for h in range(heads):
                    total[h] += some[h]
            for h in range(heads):
                scale[h] = 1.0 / total[h]
            for c in range(symbols):
                some, share = mine[i, c], shares[r, i, c]
                for h in range(heads):
                    share[h] = some[h] * scale[h]


@njit(cache=True, nogil=True)
def _change(weights, sums, tokens, place, new):  # type: ignore[no-untyped-def]
    length, old = len(tokens), tokens[place]
    for i in range(length):
        gone, come = weights[tokens[i], old, i - place + length - 1], weights[tokens[i], new, i - place + length - 1]
        for h in range(len(gone)):
            sums[i, old, h] -= gone[h]
            sums[i, new, h] += come[h]
    tokens[place] = new
    sums[place] = 0
    for j in range(length):
        weight = weights[new, tokens[j], place - j + length - 1]
        for h in range(len(weight)):
            sums[place, tokens[j], h] += weight[h]
