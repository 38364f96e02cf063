"""The step of each row: N steps are divided among the blocks of a row, and each row counts its own.

B rows, L positions; rows with blocks of equal sizes are of one kind, and have equal steps.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import torch
from torch import Tensor

from unmask.core.errors import UnmaskError
from unmask.samplers import orders
from unmask.samplers.contract import Pace
from unmask.samplers.schedules import sizes


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
    return [orders.coarsen(delta, part) for part in parts]


class Steps(NamedTuple):
    """All steps t = 0..N-1 of each kind of row, block after block; entry (kind, t) describes one step."""

    block: Tensor  # (kinds, N): index of the block
    within: Tensor  # (kinds, N): step within the block, from 0
    number: Tensor  # (kinds, N): steps of the block
    positions: Tensor  # (kinds, N): number that the schedule reveals
    alpha: Tensor  # (kinds, N) float64: fraction of the block revealed before the step
    alpha_next: Tensor  # (kinds, N): and after it
    total: Tensor  # (kinds): N of this kind; the last step is repeated after it
    starts: Tensor  # (kinds, blocks): the first step of each block
    following: Tensor  # (kinds, N + 1): the first step from t on that reveals positions, N if there is none

    @classmethod
    def of(cls, schedules: BlockSchedules) -> Steps:
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
        padded = [torch.stack([_padded(part, width) for part in parts]) for parts in zip(*rows, strict=True)]
        total = torch.tensor(totals)
        filled = (padded[3] > 0) & (torch.arange(width) < total.unsqueeze(1))
        first = torch.where(filled, torch.arange(width), width).flip(1).cummin(1).values.flip(1)
        following = torch.nn.functional.pad(first, (0, 1), value=width)
        return cls._make([*padded, total, torch.stack(starts), following])


def _padded(values: Tensor, width: int) -> Tensor:
    """(width): the values, then the last one repeated."""
    return torch.cat([values, values[-1:].expand(width - len(values))])


class Turn(NamedTuple):
    """The current step of each row, (B) each; entries of rows that are not going have no meaning."""

    going: Tensor  # Bool: rows that have a step now
    block: Tensor  # index of the block
    begins: Tensor  # Bool: whether this is the first step of the block
    within: Tensor  # step within the block, from 0
    steps: Tensor  # steps of the block
    number: Tensor  # step over all blocks, from 1
    positions: Tensor  # number that the schedule reveals
    alpha: Tensor  # float64: fraction of the block revealed before the step
    alpha_next: Tensor  # float64: and after it


def turns(
    pace: Pace, blocks: Tensor, schedules: BlockSchedules, now: Callable[[], tuple[Tensor, Tensor]]
) -> Iterator[Turn]:
    """Yield step after step, until no row has another.

    now(): hidden positions, Bool (B, L), and settled rows, Bool (B). With pace "counts" a row skips steps without
    positions, with `"steps"` it has all steps; with "free" it stays in a block as long as a position is hidden there.
    """
    steps, kind = Steps.of(schedules), schedules.kind
    used, width = (blocks >= 0).any(1), steps.block.shape[1]
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
            start = steps.starts[kind, block]
            t = start + torch.minimum(index, steps.number[kind, start] - 1)  # after the schedule its last step
            number = before.gather(1, block.unsqueeze(1)).squeeze(1) + index + 1
        else:
            t = t + 1 if pace == "steps" else steps.following[kind, t + 1]
            going = used & (t < steps.total[kind]) & ~settled
            t = torch.where(going, t, width - 1)
            block, index, number = steps.block[kind, t], steps.within[kind, t], t + 1
        if not bool(going.any()):
            return
        yield Turn(
            going,
            block,
            going & (block != last),
            index,
            steps.number[kind, t],
            number,
            torch.where(going, steps.positions[kind, t], 0),
            steps.alpha[kind, t],
            steps.alpha_next[kind, t],
        )
