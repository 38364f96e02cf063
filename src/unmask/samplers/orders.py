"""Orders: the step 1..N that reveals each position (B, L), 0 for given positions (theory.md's tau)."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import torch
from torch import Tensor

from unmask.core.chance import Randomness, Stream
from unmask.samplers.schedules import Schedule, sizes


def independent(delta: Tensor, hidden: Tensor, rng: Randomness) -> Tensor:
    """Draw the step of each position independently from delta, as in ancestral sampling: POI(alpha, N)."""
    u = rng.grid(Stream.ORDER, hidden.shape[1])
    edges = delta.cumsum(0)
    last = int(delta.nonzero()[-1])
    return torch.where(hidden, torch.searchsorted(edges, u, right=True).clamp(max=last) + 1, 0)


def shuffled(delta: Tensor, hidden: Tensor, rng: Randomness) -> Tensor:
    """Exactly `sizes` positions per step, uniformly chosen."""
    return by_rank(hidden, rng.grid(Stream.ORDER, hidden.shape[1]), lambda count: sizes(delta, count))


def one_by_one(hidden: Tensor, rng: Randomness) -> Tensor:
    """One position per step in a uniformly random order: the limit of `independent` for large N."""
    priority = rng.grid(Stream.ORDER, hidden.shape[1])
    return by_rank(hidden, priority, lambda count: torch.ones(count, dtype=torch.int64))


def left_to_right(delta: Tensor, hidden: Tensor) -> Tensor:
    """Exactly `sizes` positions per step, the leftmost first."""
    positions = torch.arange(hidden.shape[1], dtype=torch.float64, device=hidden.device)
    return by_rank(hidden, positions.expand(hidden.shape), lambda count: sizes(delta, count))


def by_rank(hidden: Tensor, priority: Tensor, cut: Callable[[int], Tensor]) -> Tensor:
    """Each row's hidden positions, lowest priority (B, L) first, cut into steps of cut(count) positions."""
    ranks = torch.where(hidden, priority, torch.inf).argsort(dim=1, stable=True).argsort(dim=1)
    steps = torch.zeros_like(ranks)
    counts = hidden.sum(1)
    for count in counts.unique().tolist():
        rows = counts == count
        filled = cut(count).cumsum(0).to(ranks.device)
        steps[rows] = torch.searchsorted(filled, ranks[rows], right=True) + 1
    return torch.where(hidden, steps, 0)


def coarsen(delta: Tensor, steps: int) -> Tensor:
    """The same schedule in fewer steps, each of which merges neighbouring ones."""
    edges = Schedule(delta).alpha
    at = torch.linspace(0, len(delta), steps + 1, dtype=torch.float64)
    low = at.floor().long().clamp(max=len(delta) - 1)
    grid = edges[low] + (at - low) * (edges[low + 1] - edges[low])
    return grid[1:] - grid[:-1]


def strided(steps: int, hidden: Tensor) -> Tensor:
    """Position j at step j mod N + 1: each step reveals every N-th position."""
    positions = torch.arange(hidden.shape[1], device=hidden.device)
    return torch.where(hidden, positions % steps + 1, 0)


def dyadic(steps: int, hidden: Tensor) -> Tensor:
    """Multiples of K = 2^(N-1) at step 1, then the midpoints between revealed positions (theory.md 7.6)."""
    positions = torch.arange(hidden.shape[1], device=hidden.device)
    halvings = torch.log2((positions & -positions).double()).long().clamp(min=0)  # the exponent of 2 in a position
    order = (steps - halvings).clamp(min=1)
    order[0] = 1
    return torch.where(hidden, order, 0)


def block_strided(steps: int, size: int, hidden: Tensor) -> Tensor:
    """Blocks of `size` neighbours in dyadic order, one position of each block per step: separates size-grams.

    Multiples of K = size 2^(N/size - 1) begin the first blocks. If N is less than the size, blocks have N positions.
    """
    size = min(size, steps)
    positions = torch.arange(hidden.shape[1], device=hidden.device)
    blocks = dyadic(steps // size, torch.ones_like(hidden))[:, positions // size]
    return torch.where(hidden, size * (blocks - 1) + positions % size + 1, 0)


def dilated(base: int, hidden: Tensor) -> Tensor:
    """Every B/a-th of a row's B hidden positions, then every B/a^2-th, and so on: ceil(log_a B) steps (DUS).

    The k-th of them is revealed in step R - v, but not before step 1; v is the number of times that a divides k.
    """
    index = (hidden.cumsum(1) - 1).clamp(min=0)
    count = hidden.sum(1, keepdim=True)
    needed, divided, stride = torch.zeros_like(count), torch.zeros_like(index), 1
    while stride < hidden.shape[1]:
        needed += stride < count
        stride *= base
        divided += index % stride == 0
    return torch.where(hidden, (needed - divided).clamp(min=1), 0)


def steps(order: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
    """(rows, positions) of each row's first non-empty step, then of each row's second, and so on.

    A row has at most L non-empty steps. Entries are sorted by row and position.
    """
    order = order.cpu()
    labels, positions = order.sort(dim=1, stable=True)
    opens = torch.ones_like(labels, dtype=torch.bool)
    opens[:, 1:] = labels[:, 1:] != labels[:, :-1]
    opens &= labels > 0
    numbers = torch.where(labels > 0, opens.cumsum(1), 0)  # 1, 2 ..: number of the step among the non-empty ones
    narrow = numbers.reshape(-1).numpy().astype(np.min_scalar_type(order.shape[1]))
    by_number = torch.from_numpy(narrow.argsort(kind="stable"))  # numpy sorts short integers by counting
    counts = torch.bincount(numbers.reshape(-1)).tolist()
    rows = by_number // order.shape[1]
    parts = zip(rows.split(counts), positions.reshape(-1)[by_number].split(counts), strict=True)
    next(parts)  # number 0: given positions
    yield from parts
