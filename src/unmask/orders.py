"""In which round each position is revealed: (B, L) rounds 1..N, 0 where a position was given (theory.md's tau)."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from unmask.chance import Luck, Stream
from unmask.errors import UnmaskError
from unmask.schedules import sizes


def independent(delta: Tensor, hidden: Tensor, luck: Luck) -> Tensor:
    """Each position draws its round from delta by itself: the law of ancestral sampling, POI(alpha, N)."""
    u = luck.grid(Stream.ORDER, hidden.shape[1])
    edges = delta.cumsum(0)
    last = int(delta.nonzero()[-1])
    return torch.where(hidden, torch.searchsorted(edges, u, right=True).clamp(max=last) + 1, 0)


def shuffled(delta: Tensor, hidden: Tensor, luck: Luck) -> Tensor:
    """Exactly `sizes` positions a round, uniformly chosen."""
    return by_rank(delta, hidden, luck.grid(Stream.ORDER, hidden.shape[1]))


def left_to_right(delta: Tensor, hidden: Tensor) -> Tensor:
    """Exactly `sizes` positions a round, the leftmost first."""
    return by_rank(delta, hidden, torch.arange(hidden.shape[1], device=hidden.device).double().expand(hidden.shape))


def by_rank(delta: Tensor, hidden: Tensor, priority: Tensor) -> Tensor:
    """The hidden positions in order of their priority (B, L), cut into the sizes of delta, row by row."""
    ranks = torch.where(hidden, priority, torch.inf).argsort(dim=1, stable=True).argsort(dim=1)
    rounds = torch.zeros_like(ranks)
    counts = hidden.sum(1)
    for count in counts.unique().tolist():
        rows = counts == count
        filled = sizes(delta, count).cumsum(0).to(ranks.device)
        rounds[rows] = torch.searchsorted(filled, ranks[rows], right=True) + 1
    return torch.where(hidden, rounds, 0)


def blocks(delta: Tensor, hidden: Tensor, luck: Luck, block_length: int) -> Tensor:
    """Blocks of positions from left to right, each shuffled; the rounds are split over the blocks like LLaDA's.

    A block holds the next `block_length` hidden positions; each gets an equal share of the rounds, at least one, so
    that there must be as many rounds as blocks. The schedule's shape applies within each block.
    """
    steps = len(delta)
    index = hidden.cumsum(1) - 1
    number = max(int(index.max()), 0) // block_length + 1
    if steps < number:
        raise UnmaskError(f"{number} blocks of {block_length} positions need at least {number} steps, not {steps}")
    shares = sizes(torch.full((number,), 1 / number, dtype=torch.float64), steps).tolist()
    order = torch.zeros_like(index)
    begun = 0
    for block, share in enumerate(shares):
        inside = hidden & (index // block_length == block)
        within = coarsen(delta, share)
        rounds = by_rank(within, inside, luck.grid(Stream.ORDER, hidden.shape[1]))
        order = torch.where(inside, rounds + begun, order)
        begun += share
    return order


def coarsen(delta: Tensor, steps: int) -> Tensor:
    """The same schedule in fewer rounds: each reveals what neighbouring rounds revealed together."""
    edges = torch.cat([delta.new_zeros(1), delta.cumsum(0)])
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


def rounds(order: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
    """(rows, positions) of each row's first non-empty round, then of each row's second, and so on.

    However many rounds there are, a row has at most L that are not empty; places come sorted by row and position.
    """
    rows, positions = (order > 0).nonzero(as_tuple=True)
    if not len(rows):
        return
    labels = order[rows, positions]
    by_row_and_round = torch.argsort(labels, stable=True)
    by_row_and_round = by_row_and_round[torch.argsort(rows[by_row_and_round], stable=True)]
    rows, positions, labels = (t[by_row_and_round] for t in (rows, positions, labels))
    opens = torch.ones_like(rows, dtype=torch.bool)
    opens[1:] = (rows[1:] != rows[:-1]) | (labels[1:] != labels[:-1])
    dense = opens.cumsum(0)
    first = torch.ones_like(opens)
    first[1:] = rows[1:] != rows[:-1]
    base = torch.where(first, dense, 0).cummax(0).values
    turn = dense - base  # 0, 1, 2 ..: the how-manieth non-empty round of its row
    by_turn = torch.argsort(turn, stable=True)
    counts = torch.bincount(turn).tolist()
    yield from zip(rows[by_turn].split(counts), positions[by_turn].split(counts), strict=True)
