"""Weighted sums over sets M of hidden positions, with x without M as the context: most published surrogates.

    s(x) = sum_M c_M sum_{i in M} log p(x_i | x without M)

Each has its expected weights, (2^L - 1) in the order of `nelbo.every`, and random sets with their weights. With K
model calls a draw has K sets, pairs of them, or triples; at least one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from unmask.diagnosis.nelbo import every, random_sets

Sets = tuple[Tensor, Tensor]  # hidden, Bool (B, M, L), and weights (B, M)
RANGE = 0.2, 0.8  # of t in DiffuCoder
POINTS = 2  # nodes of GDPO


def logs(model: Any, x: Tensor, hidden: Tensor) -> Tensor:
    """(B, M, L): log p(x_i | x without M) for i in M, 0 elsewhere, of x (B, L) and sets, Bool (B, M, L)."""
    whole = x.unsqueeze(1).expand(hidden.shape)
    contexts = torch.where(hidden, model.vocabulary, whole).flatten(0, 1)
    log = model(contexts).gather(2, whole.flatten(0, 1).unsqueeze(2)).view(hidden.shape)
    return torch.where(hidden, log, 0.0)


def chances(length: int) -> tuple[Tensor, Tensor]:
    """(sizes (2^L - 1), 1 / C(L, m)) of every set."""
    sets = every(length)
    return sets.hidden.sum(1), sets.weights * length


def one_step_mean(length: int) -> Tensor:
    return (chances(length)[0] == length).double()


def one_step_draw(rows: int, length: int, calls: int, generator: torch.Generator) -> Sets:
    return torch.ones((rows, 1, length), dtype=torch.bool), torch.ones((rows, 1), dtype=torch.float64)


def elbo_mean(length: int) -> Tensor:
    sizes, chance = chances(length)
    return chance / sizes


def elbo_draw(rows: int, length: int, calls: int, generator: torch.Generator) -> Sets:
    return _sized(torch.rand((rows, calls), generator=generator, dtype=torch.float64), length, generator)


def stratified_draw(rows: int, length: int, calls: int, generator: torch.Generator) -> Sets:
    u = torch.rand((rows, calls), generator=generator, dtype=torch.float64)
    return _sized((torch.arange(calls) + u) / calls, length, generator)


def _sized(quantiles: Tensor, length: int, generator: torch.Generator) -> Sets:
    sizes = 1 + (quantiles * length).long().clamp(max=length - 1)
    return random_sets(sizes, length, generator), length / sizes.double() / sizes.shape[1]


def antithetic_draw(rows: int, length: int, calls: int, generator: torch.Generator) -> Sets:
    pairs = max(calls // 2, 1)
    sizes = torch.randint(0, length + 1, (rows, pairs), generator=generator)
    hidden = random_sets(sizes, length, generator)
    counts = torch.cat([sizes, length - sizes], 1).double()
    return torch.cat([hidden, ~hidden], 1), (length + 1) / counts.clamp(min=1) / 2 / pairs


def coupled_mean(length: int) -> Tensor:
    """Half of the full set, and c_m = E t^(m-1) (1 - t)^(L-m) of both halves of a pair."""
    nodes, weights = gauss(length, *RANGE)
    sizes = chances(length)[0].double().unsqueeze(1)
    powers = nodes ** (sizes - 1) * (1 - nodes) ** (length - sizes)
    return powers @ weights / (RANGE[1] - RANGE[0]) + one_step_mean(length) / 2


def coupled_draw(rows: int, length: int, calls: int, generator: torch.Generator) -> Sets:
    pairs = max(calls // 3, 1)
    t = RANGE[0] + (RANGE[1] - RANGE[0]) * torch.rand((rows, pairs), generator=generator, dtype=torch.float64)
    hidden = torch.rand((rows, pairs, length), generator=generator, dtype=torch.float64) < t.unsqueeze(2)
    all_hidden = torch.ones((rows, 1, length), dtype=torch.bool)
    weights = torch.cat([1 / t / 2 / pairs, 1 / (1 - t) / 2 / pairs, torch.full((rows, 1), 0.5)], 1)
    return torch.cat([hidden, ~hidden, all_hidden], 1), weights


def gauss(points: int, low: float = 0.0, high: float = 1.0) -> tuple[Tensor, Tensor]:
    """Nodes and weights of the Gauss-Legendre rule on an interval."""
    nodes, weights = map(torch.from_numpy, np.polynomial.legendre.leggauss(points))
    return low + (high - low) * (nodes + 1) / 2, weights * (high - low) / 2


def gdpo_mean(length: int) -> Tensor:
    sizes, chance = chances(length)
    nodes, weights = gauss(POINTS)
    counts = (nodes * length).long()  # none at the first node if L < 5, as the authors' code has it
    return ((sizes.unsqueeze(1) == counts) * weights / nodes).sum(1) * chance


def gdpo_draw(rows: int, length: int, calls: int, generator: torch.Generator) -> Sets:
    each = max(calls // POINTS, 1)
    nodes, weights = gauss(POINTS)
    counts = (nodes * length).long().repeat_interleave(each).expand(rows, -1)
    return random_sets(counts, length, generator), (weights / nodes / each).repeat_interleave(each).expand(rows, -1)


@dataclass(frozen=True)
class Linear:
    """A weighted sum over sets: its expected weights (2^L - 1) at a length, and random sets."""

    mean: Callable[[int], Tensor]
    draw: Callable[[int, int, int, torch.Generator], Sets]

    def sets(self, generator: torch.Generator | None, calls: int, rows: int, length: int) -> Sets:
        """Those of each row; without a generator all sets."""
        if generator is not None:
            return self.draw(rows, length, calls, generator)
        return every(length).hidden.expand(rows, -1, -1), self.mean(length).expand(rows, -1)

    def __call__(self, model: Any, x: Tensor, generator: torch.Generator | None, calls: int = 1) -> Tensor:
        """(B): s(x) of x (B, L); without a generator its expectation."""
        hidden, weights = self.sets(generator, calls, *x.shape)
        return (logs(model, x, hidden).sum(2) * weights).sum(1)
