"""In which round each row is: N rounds are shared out over its blocks, and each row goes through its own.

B rows, L positions; rows with blocks of the same sizes are of one kind, and have the same rounds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import torch
from torch import Tensor

from unmask.core.errors import UnmaskError
from unmask.samplers.contract import Pace
from unmask.schedules import orders, sizes


class Shares(NamedTuple):
    """The rounds of each kind of row, rows with blocks of the same sizes being of one kind."""

    kind: Tensor  # (B)
    sizes: Tensor  # (kinds, blocks): positions of each block
    deltas: list[list[Tensor]]  # the schedule of each block of each kind

    @classmethod
    def of(cls, blocks: Tensor, delta: Tensor, pace: Pace) -> Shares:
        """Of blocks (B, L), numbered from 0 in each row, -1 being in none."""
        number = max(int(blocks.max()) + 1, 1)
        counts = torch.zeros((len(blocks), number + 1), dtype=torch.int64)
        counts.scatter_add_(1, blocks + 1, torch.ones_like(blocks))
        counts = counts[:, 1:]
        if bool((counts == counts[0]).all()):  # as mostly, where nothing is given
            kinds, kind = counts[:1], torch.zeros(len(counts), dtype=torch.int64)
        else:
            kinds, kind = counts.unique(dim=0, return_inverse=True)
        return cls(kind, kinds, [_schedules(delta, int((of > 0).sum()), int(of[0]), pace) for of in kinds])


def _schedules(delta: Tensor, number: int, size: int, pace: Pace) -> list[Tensor]:
    """The schedule of each of so many blocks, the first of which has so many positions."""
    if number <= 1:
        return [delta]
    steps = len(delta)
    if steps < number and pace != "free":
        what = f"{number} blocks of {size} positions need at least {number} steps, not {steps}"
        raise UnmaskError(what)
    shares = sizes(torch.full((number,), 1 / number, dtype=torch.float64), steps).clamp(min=1).tolist()
    return [orders.coarsen(delta, share) for share in shares]


class Rounds(NamedTuple):
    """All rounds t = 0..N-1 of each kind of row, block after block; what is asked of a row is at (kind, t)."""

    block: Tensor  # (kinds, N): which block
    within: Tensor  # (kinds, N): 0.. within the block
    number: Tensor  # (kinds, N): rounds of the block
    share: Tensor  # (kinds, N): positions that the schedule gives to it
    alpha: Tensor  # (kinds, N) float64: share of the block revealed before it
    alpha_next: Tensor  # (kinds, N): and after it
    total: Tensor  # (kinds): N of this kind; behind it the last round stands again
    starts: Tensor  # (kinds, blocks): the first round of each block
    following: Tensor  # (kinds, N + 1): the first round from t on that has positions, N where none has

    @classmethod
    def of(cls, shares: Shares) -> Rounds:
        rows, starts, totals = [], [], []
        for counts, deltas in zip(shares.sizes.tolist(), shares.deltas, strict=True):
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
    """(width): the values, and the last one again and again."""
    return torch.cat([values, values[-1:].expand(width - len(values))])


class Turn(NamedTuple):
    """Where each row is, (B) each; what is said of a row that is not going means nothing."""

    going: Tensor  # Bool: rows that have a round now
    block: Tensor  # which block
    begins: Tensor  # Bool: whether this is its first round
    within: Tensor  # 0.. within the block
    rounds: Tensor  # of the block
    number: Tensor  # 1.. over all blocks
    share: Tensor  # positions that the schedule gives to it
    alpha: Tensor  # float64: share of the block revealed before it
    alpha_next: Tensor  # float64: and after it


def turns(pace: Pace, blocks: Tensor, shares: Shares, now: Callable[[], tuple[Tensor, Tensor]]) -> Iterator[Turn]:
    """Round after round, until no row has any.

    now(): what is hidden, Bool (B, L), and which rows are settled, Bool (B). By "counts" a row skips rounds without
    positions, by "rounds" it has all of them; a "free" one stays in a block as long as something is hidden there.
    """
    rounds, kind = Rounds.of(shares), shares.kind
    asked, width = (blocks >= 0).any(1), rounds.block.shape[1]
    before = (shares.sizes.cumsum(1) - shares.sizes)[kind]  # (B, blocks): positions of the blocks before
    t = torch.full((len(blocks),), -1)  # (B): the round by the schedule
    block, index = t.clone(), t.clone()
    while True:
        last, (hidden, settled) = block, now()
        if pace == "free":
            hidden = hidden & (blocks >= 0)
            going = hidden.any(1) & ~settled
            block = torch.where(hidden, blocks, len(before[0]) - 1).amin(1)
            index = torch.where(block == last, index + 1, 0)
            start = rounds.starts[kind, block]
            t = start + torch.minimum(index, rounds.number[kind, start] - 1)  # beyond the schedule its last round
            number = before.gather(1, block.unsqueeze(1)).squeeze(1) + index + 1
        else:
            t = t + 1 if pace == "rounds" else rounds.following[kind, t + 1]
            going = asked & (t < rounds.total[kind]) & ~settled
            t = torch.where(going, t, width - 1)
            block, index, number = rounds.block[kind, t], rounds.within[kind, t], t + 1
        if not bool(going.any()):
            return
        yield Turn(
            going,
            block,
            going & (block != last),
            index,
            rounds.number[kind, t],
            number,
            torch.where(going, rounds.share[kind, t], 0),
            rounds.alpha[kind, t],
            rounds.alpha_next[kind, t],
        )
