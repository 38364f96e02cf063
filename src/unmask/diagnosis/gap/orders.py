"""How much the order alone changes the model's probability of the same tokens: its inconsistency.

    circ(A; i, j) = log c(x_i | x_A) + log c(x_j | x_A, x_i) - log c(x_j | x_A) - log c(x_i | x_A, x_j)

is zero for all A, i, j if and only if every order gives the same joint distribution. To turn left-to-right into
right-to-left takes one swap of each pair i < j of a step, next to the tokens between them, so with x_R and these as A

    log c_left(x_S | x_R) - log c_right(x_S | x_R) = sum_{i<j} circ(between; i, j)

Its mean over the rows is the difference between the gaps of the two orders: a smaller gap does not show a loss.
"""

from __future__ import annotations

import torch
from torch import Tensor

from unmask.denoisers.marginals import EXACT
from unmask.diagnosis.gap.reader import Reader

CALLS = 3  # of a pair: at A, with i, and with j


def circulation(reader: Reader, steps: Tensor, first: Tensor, second: Tensor) -> Tensor:
    """(C): circ of one pair of entries first < second (C) of each step (C), given those between them."""
    parts = []
    for part in reader.batches(steps, CALLS, torch.full((len(steps),), 4)):
        parts.append(_circulation(reader, steps[part], first[part], second[part]))
    return torch.cat(parts) if parts else torch.zeros(0, dtype=torch.float64)


def _circulation(reader: Reader, steps: Tensor, first: Tensor, second: Tensor) -> Tensor:
    count = len(steps)
    owner, entry = reader.entries(steps)
    between = (entry > first[owner]) & (entry < second[owner])
    each = torch.arange(count)
    # contexts: A, then A with i, then A with j
    shown = (
        torch.cat([owner[between], owner[between] + count, owner[between] + 2 * count, each + count, each + 2 * count]),
        torch.cat([entry[between], entry[between], entry[between], first, second]),
    )
    wanted = (
        torch.cat([each.repeat_interleave(2), each + count, each + 2 * count]),
        torch.cat([torch.stack([first, second], 1).flatten(), second, first]),
    )
    marginals, dead = reader.at(steps.repeat(CALLS), shown, wanted)
    logs = reader.drawn(marginals).of(reader.path.token[wanted[1]]).log()
    alone, after = logs[: 2 * count].view(count, 2), logs[2 * count :]
    circ = alone[:, 0] + after[:count] - alone[:, 1] - after[count:]
    circ = torch.where(circ.abs() < EXACT, 0.0, circ)
    return torch.where(dead.view(CALLS, count).any(0), torch.nan, circ)


def pairs(sizes: Tensor, rng: torch.Generator) -> tuple[Tensor, Tensor]:
    """(C), (C): two of the numbers 0 .. size - 1 of each step (C), the lower one first."""
    one = (torch.rand(len(sizes), generator=rng, dtype=torch.float64) * sizes).long()
    other = (torch.rand(len(sizes), generator=rng, dtype=torch.float64) * (sizes - 1)).long()
    other += other >= one
    return torch.minimum(one, other), torch.maximum(one, other)
