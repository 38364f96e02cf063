"""Orders: the step 1..N that reveals each position (B, L), 0 for given positions (theory.md's tau).

The samplers of fixed orders are in rules/fixed_orders.py. Here are orders by rank, the steps of an order, and the steps
of samplers that choose: each row counts its own. B rows, L positions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from unmask.samplers.contract import Pace
from unmask.samplers.schedules import BlockSchedules, Schedule, sizes


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

    # sorted by number, with each step's rows and positions together
    narrow = numbers.reshape(-1).numpy().astype(np.min_scalar_type(order.shape[1]))
    by_number = torch.from_numpy(narrow.argsort(kind="stable"))  # numpy sorts short integers by counting
    counts = torch.bincount(numbers.reshape(-1)).tolist()
    rows = by_number // order.shape[1]

    parts = zip(rows.split(counts), positions.reshape(-1)[by_number].split(counts), strict=True)
    next(parts)  # number 0: given positions
    yield from parts


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
        numbers = torch.tensor(list(map(len, deltas)))
        edges = [Schedule(delta).alpha for delta in deltas]
        rows.append(
            (
                torch.arange(len(deltas)).repeat_interleave(numbers),
                torch.cat(list(map(torch.arange, numbers.tolist()))),
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
    plan, total, starts, following = _plans(schedules)
    kind = schedules.kind
    width = plan.block.shape[1]
    used = (blocks >= 0).any(1)
    before = (schedules.sizes.cumsum(1) - schedules.sizes)[kind]  # (B, blocks): positions of the earlier blocks
    t = torch.full((len(blocks),), -1)  # (B): the step of the schedule
    block = index = t

    while True:
        last = block
        hidden, settled = now()
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
            block, index = plan.block[kind, t], plan.within[kind, t]
            number = t + 1

        if not bool(going.any()):
            return

        positions = torch.where(going, plan.positions[kind, t], 0)
        current = Plan._make(part[kind, t] for part in plan)._replace(block=block, within=index, positions=positions)
        yield current, number, going, going & (block != last)
