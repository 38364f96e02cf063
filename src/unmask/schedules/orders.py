"""In which round each position is revealed: (B, L) rounds 1..N, 0 where a position was given (theory.md's tau)."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import torch
from torch import Tensor

from unmask.core.chance import Luck, Stream
from unmask.schedules import Schedule, sizes


def independent(delta: Tensor, hidden: Tensor, luck: Luck) -> Tensor:
    """Each position draws its round from delta by itself: the law of ancestral sampling, POI(alpha, N)."""
    u = luck.grid(Stream.ORDER, hidden.shape[1])
    edges = delta.cumsum(0)
    last = int(delta.nonzero()[-1])
    return torch.where(hidden, torch.searchsorted(edges, u, right=True).clamp(max=last) + 1, 0)


def shuffled(delta: Tensor, hidden: Tensor, luck: Luck) -> Tensor:
    """Exactly `sizes` positions a round, uniformly chosen."""
    return by_rank(hidden, luck.grid(Stream.ORDER, hidden.shape[1]), lambda count: sizes(delta, count))


def one_by_one(hidden: Tensor, luck: Luck) -> Tensor:
    """One position a round in a uniformly random order: the one in which `independent` meets them as N grows."""
    priority = luck.grid(Stream.ORDER, hidden.shape[1])
    return by_rank(hidden, priority, lambda count: torch.ones(count, dtype=torch.int64))


def left_to_right(delta: Tensor, hidden: Tensor) -> Tensor:
    """Exactly `sizes` positions a round, the leftmost first."""
    places = torch.arange(hidden.shape[1], dtype=torch.float64, device=hidden.device)
    return by_rank(hidden, places.expand(hidden.shape), lambda count: sizes(delta, count))


def by_rank(hidden: Tensor, priority: Tensor, cut: Callable[[int], Tensor]) -> Tensor:
    """Each row's hidden positions, lowest priority (B, L) first, cut into rounds; cut(count) says how many in each."""
    ranks = torch.where(hidden, priority, torch.inf).argsort(dim=1, stable=True).argsort(dim=1)
    rounds = torch.zeros_like(ranks)
    counts = hidden.sum(1)
    for count in counts.unique().tolist():
        rows = counts == count
        filled = cut(count).cumsum(0).to(ranks.device)
        rounds[rows] = torch.searchsorted(filled, ranks[rows], right=True) + 1
    return torch.where(hidden, rounds, 0)


def coarsen(delta: Tensor, steps: int) -> Tensor:
    """The same schedule in fewer rounds: each reveals what neighbouring rounds revealed together."""
    edges = Schedule(delta).alpha
    at = torch.linspace(0, len(delta), steps + 1, dtype=torch.float64)
    low = at.floor().long().clamp(max=len(delta) - 1)
    grid = edges[low] + (at - low) * (edges[low + 1] - edges[low])
    return grid[1:] - grid[:-1]


def strided(steps: int, hidden: Tensor) -> Tensor:
    """Position j at round j mod N + 1: each round reveals every N-th position."""
    positions = torch.arange(hidden.shape[1], device=hidden.device)
    return torch.where(hidden, positions % steps + 1, 0)


def dyadic(steps: int, hidden: Tensor) -> Tensor:
    """Multiples of K = 2^(N-1) at round 1, then the midpoints between what is revealed, halving (theory.md 7.6)."""
    positions = torch.arange(hidden.shape[1], device=hidden.device)
    halvings = torch.log2((positions & -positions).double()).long().clamp(min=0)  # how often 2 divides a position
    order = (steps - halvings).clamp(min=1)
    order[0] = 1
    return torch.where(hidden, order, 0)


def block_strided(steps: int, size: int, hidden: Tensor) -> Tensor:
    """Blocks of `size` neighbours in dyadic order, a place of each block a round: what separates an order-size n-gram.

    Multiples of K = size 2^(N/size - 1) begin the first blocks. Where N is less than the size, blocks have N places.
    """
    size = min(size, steps)
    positions = torch.arange(hidden.shape[1], device=hidden.device)
    blocks = dyadic(steps // size, torch.ones_like(hidden))[:, positions // size]
    return torch.where(hidden, size * (blocks - 1) + positions % size + 1, 0)


def dilated(base: int, hidden: Tensor) -> Tensor:
    """Every B/a-th of a row's B hidden positions, then every B/a^2-th, and so on: ceil(log_a B) rounds (DUS).

    The k-th of them is revealed in round R - v, v the number of times that a divides k, and not before round 1.
    """
    index = (hidden.cumsum(1) - 1).clamp(min=0)
    count = hidden.sum(1, keepdim=True)
    needed, divided, stride = torch.zeros_like(count), torch.zeros_like(index), 1
    while stride < hidden.shape[1]:
        needed += stride < count
        stride *= base
        divided += index % stride == 0
    return torch.where(hidden, (needed - divided).clamp(min=1), 0)


def rounds(order: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
    """(rows, positions) of each row's first non-empty round, then of each row's second, and so on.

    However many rounds there are, a row has at most L that are not empty; places come sorted by row and position.
    """
    order = order.cpu()
    labels, positions = order.sort(dim=1, stable=True)
    opens = torch.ones_like(labels, dtype=torch.bool)
    opens[:, 1:] = labels[:, 1:] != labels[:, :-1]
    opens &= labels > 0
    turns = torch.where(labels > 0, opens.cumsum(1), 0)  # 1, 2 ..: the how-manieth non-empty round of its row
    narrow = turns.reshape(-1).numpy().astype(np.min_scalar_type(order.shape[1]))
    by_turn = torch.from_numpy(narrow.argsort(kind="stable"))  # numpy sorts short integers by counting
    counts = torch.bincount(turns.reshape(-1)).tolist()
    rows = by_turn // order.shape[1]
    parts = zip(rows.split(counts), positions.reshape(-1)[by_turn].split(counts), strict=True)
    next(parts)  # turn 0: what was given
    yield from parts
