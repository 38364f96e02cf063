"""Random contexts of sequences: several numbers of revealed positions per row (theory.md 8).

Each row has contexts with different numbers k of revealed positions, one k from each of several equal parts of 0..L-1.
The rows divide the values within a part evenly, so all k occur equally often.
"""

from __future__ import annotations

import torch
from torch import Tensor

from unmask.core import arguments
from unmask.core.chance import Randomness, Stream, check_seed
from unmask.core.memory import fits


def revealed_counts(rows: int, length: int, looks: int, seed: int) -> Tensor:
    """(rows, looks): number of revealed positions of each context; fewer than `looks` contexts if L is smaller."""
    arguments.whole("rows", rows)
    looks = min(arguments.whole("looks", looks), length)
    fits(rows, f"rows of {length} tokens", 16 * length)
    rng = Randomness(check_seed(seed), torch.arange(rows))
    shift = (torch.arange(rows) + rng.uniform(Stream.ORDER, torch.arange(rows), torch.tensor(0), 1)) / rows
    counts = (torch.arange(looks) + shift.unsqueeze(1)) * (length / looks)
    return counts.long().clamp(max=length - 1)


def hidden_places(revealed: Tensor, part: slice, length: int, seed: int) -> Tensor:
    """Bool (R looks, L): hidden positions of the contexts of some rows, from numbers of revealed positions."""
    looks = revealed.shape[1]
    rng = Randomness(seed, torch.arange(part.start, part.stop).repeat_interleave(looks))
    turn = torch.arange(looks).repeat(part.stop - part.start).unsqueeze(1)
    ranks = rng.grid(Stream.ORDER, length, 2 + turn).argsort(1).argsort(1)
    return ranks >= revealed[part].reshape(-1, 1)
