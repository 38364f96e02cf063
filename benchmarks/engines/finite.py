"""A race with noise of a few bits, exactly: every value of the noise is enumerated, so nothing is drawn.

Published rollouts take argmax_v exp(l_v) / (-log u_v)^T with u of `torch.rand(.., dtype)`. On a CPU this is a uniform
number of 24 bits, rounded to the type; 1 becomes 0. So in bfloat16 no u lies between 1 - 2^-8 and 1, and no -log u
between 0 and .0039. All operations round to that type, and of equal quotients the first token wins. Here the same
operations are applied to each value of u once.
"""

from __future__ import annotations

from functools import cache

import torch
from torch import Tensor

from benchmarks.engines.networks import Network


@cache
def noise(dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """The values of u, and their probabilities."""
    u = (torch.arange(2**24) / 2**24).to(dtype)
    values, counts = torch.where(u == 1, 0, u.double()).unique(return_counts=True)
    return values.to(dtype), counts.double() / 2**24


def race(p: Tensor, dtype: torch.dtype, temperature: float = 1.0, last: int = 1) -> Tensor:
    """(V): probability of each token of p (V); the last entry is shared by `last` equal tokens.

    P(v) = sum_q P(q_v = q) prod_(w<v) P(q_w < q) prod_(w>v) P(q_w <= q).
    """
    u, chances = noise(dtype)
    each = p.clone()
    each[-1] = each[-1] / last
    weights = each.log().clamp(min=-1e4).float().to(dtype).exp().unsqueeze(1)
    q, order = (weights / (-torch.log(u)) ** temperature).nan_to_num(-1.0).double().sort(1)
    below = torch.cat([torch.zeros(len(p), 1).double(), chances[order].cumsum(1)], 1)
    found = []
    for v in range(len(p) - 1):
        chance = chances[order[v]]
        for w in set(range(len(p))) - {v}:
            rank = below[w][torch.searchsorted(q[w], q[v], right=w > v)]
            chance = chance * rank ** (last if w == len(p) - 1 else 1)
        found.append(chance.sum())
    return torch.stack([*found, 1 - sum(found)])


class Coarse(Network):
    """The tiny network as such a race draws from it."""

    def __init__(self, inner: Network, dtype: torch.dtype, temperature: float = 1.0) -> None:
        super().__init__(inner.vocabulary)
        self.inner, self.kind, self.heat = inner, dtype, temperature

    def answers(self, ids: Tensor, level: float | None) -> Tensor:
        exact = self.inner.answers(ids, level)
        rows, which = exact.flatten(0, -2).unique(dim=0, return_inverse=True)
        return torch.stack([race(row, self.kind, self.heat) for row in rows])[which].view(exact.shape)
