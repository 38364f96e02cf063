"""Orders: the step 1..N that reveals each position (B, L), 0 for given positions (theory.md's tau).

N steps are divided among the blocks of a row, and each row counts its own. B rows, L positions; rows with blocks of
equal sizes are of one kind, and have equal steps.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from unmask.core.chance import Randomness, Stream
from unmask.core.errors import UnmaskError
from unmask.samplers.contract import Pace
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


class BlockSchedules(NamedTuple):
    """The schedules of the blocks of each kind of row."""

    kind: Tensor  # (B)
    sizes: Tensor  # (kinds, blocks): positions of each block
    deltas: list[list[Tensor]]  # for each kind the schedule of each block

    @classmethod
    def of(cls, blocks: Tensor, delta: Tensor, pace: Pace) -> BlockSchedules:
        """For blocks (B, L), numbered from 0 in each row; -1 is in no block."""
        number = max(int(blocks.max()) + 1, 1)
        counts = torch.zeros((len(blocks), number + 1), dtype=torch.int64)
        counts.scatter_add_(1, blocks + 1, torch.ones_like(blocks))
        counts = counts[:, 1:]
        if bool((counts == counts[0]).all()):  # the usual case: no given tokens
            kinds, kind = counts[:1], torch.zeros(len(counts), dtype=torch.int64)
        else:
            kinds, kind = counts.unique(dim=0, return_inverse=True)
        return cls(kind, kinds, [_schedules(delta, int((of > 0).sum()), int(of[0]), pace) for of in kinds])


def _schedules(delta: Tensor, number: int, size: int, pace: Pace) -> list[Tensor]:
    """The schedule of each block: `number` blocks, the first with `size` positions."""
    if number <= 1:
        return [delta]
    steps = len(delta)
    if steps < number and pace != "free":
        raise UnmaskError(f"steps is {steps} for {number} blocks of {size} positions; expected at least {number} steps")
    parts = sizes(torch.full((number,), 1 / number, dtype=torch.float64), steps).clamp(min=1).tolist()
    return [coarsen(delta, part) for part in parts]


class Plan(NamedTuple):
    """Steps of a schedule: (B), the current one of each row; or (kinds, N), all of each kind, block after block."""

    block: Tensor  # index of the block
    within: Tensor  # step within the block, from 0
    steps: Tensor  # steps of the block
    positions: Tensor  # number that the schedule reveals
    alpha: Tensor  # float64: fraction of the block revealed before the step
    alpha_next: Tensor  # float64: and after it


def _plans(schedules: BlockSchedules) -> tuple[Plan, Tensor, Tensor, Tensor]:
    """All steps t = 0..N-1 of each kind, the last one repeated after its N; N (kinds); the first step of each block
    (kinds, blocks); and the first step from t on that reveals positions (kinds, N + 1), N if there is none."""
    rows, starts, totals = [], [], []
    for counts, deltas in zip(schedules.sizes.tolist(), schedules.deltas, strict=True):
        numbers = torch.tensor([len(delta) for delta in deltas])
        edges = [torch.cat([delta.new_zeros(1), delta.cumsum(0)]) for delta in deltas]
        rows.append(
            (
                torch.arange(len(deltas)).repeat_interleave(numbers),
                torch.cat([torch.arange(number) for number in numbers.tolist()]),
                numbers.repeat_interleave(numbers),
                torch.cat([sizes(delta, count) for delta, count in zip(deltas, counts, strict=False)]),
                torch.cat([edge[:-1] for edge in edges]),
                torch.cat([edge[1:] for edge in edges]),
            )
        )
        totals.append(int(numbers.sum()))
        starts.append(_padded(numbers.cumsum(0) - numbers, len(counts)))
    width = max(totals)
    plan = Plan._make(torch.stack([_padded(part, width) for part in parts]) for parts in zip(*rows, strict=True))
    total = torch.tensor(totals)
    filled = (plan.positions > 0) & (torch.arange(width) < total.unsqueeze(1))
    first = torch.where(filled, torch.arange(width), width).flip(1).cummin(1).values.flip(1)
    return plan, total, torch.stack(starts), torch.nn.functional.pad(first, (0, 1), value=width)


def _padded(values: Tensor, width: int) -> Tensor:
    """(width): the values, then the last one repeated."""
    return torch.cat([values, values[-1:].expand(width - len(values))])


def turns(
    pace: Pace, blocks: Tensor, schedules: BlockSchedules, now: Callable[[], tuple[Tensor, Tensor]]
) -> Iterator[tuple[Plan, Tensor, Tensor, Tensor]]:
    """Yield step after step, until no row has another: its plan; its number over all blocks, from 1 (B); the rows that
    have a step now, Bool (B), as other entries have no meaning; and those whose block begins, Bool (B).

    now(): hidden positions, Bool (B, L), and settled rows, Bool (B). With pace "counts" a row skips steps without
    positions, with `"steps"` it has all steps; with "free" it stays in a block as long as a position is hidden there.
    """
    (plan, total, starts, following), kind = _plans(schedules), schedules.kind
    used, width = (blocks >= 0).any(1), plan.block.shape[1]
    before = (schedules.sizes.cumsum(1) - schedules.sizes)[kind]  # (B, blocks): positions of the earlier blocks
    t = torch.full((len(blocks),), -1)  # (B): the step of the schedule
    block, index = t.clone(), t.clone()
    while True:
        last, (hidden, settled) = block, now()
        if pace == "free":
            hidden = hidden & (blocks >= 0)
            going = hidden.any(1) & ~settled
            block = torch.where(hidden, blocks, len(before[0]) - 1).amin(1)
            index = torch.where(block == last, index + 1, 0)
            start = starts[kind, block]
            t = start + torch.minimum(index, plan.steps[kind, start] - 1)  # after the schedule its last step
            number = before.gather(1, block.unsqueeze(1)).squeeze(1) + index + 1
        else:
            t = t + 1 if pace == "steps" else following[kind, t + 1]
            going = used & (t < total[kind]) & ~settled
            t = torch.where(going, t, width - 1)
            block, index, number = plan.block[kind, t], plan.within[kind, t], t + 1
        if not bool(going.any()):
            return
        positions = torch.where(going, plan.positions[kind, t], 0)
        current = Plan._make(part[kind, t] for part in plan)._replace(block=block, within=index, positions=positions)
        yield current, number, going, going & (block != last)
