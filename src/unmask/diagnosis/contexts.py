"""Contexts of sequences: some numbers of positions revealed in each, at random places (theory.md 8).

Each row is looked at with a few different numbers k revealed, one from each of as many equal parts of 0..L-1, and the
rows share out the places inside the parts: all k are met equally often.
"""

from __future__ import annotations

import torch
from torch import Tensor

from unmask.core import arguments
from unmask.core.chance import Luck, Stream, check_seed
from unmask.core.memory import fits


def revealed_counts(rows: int, length: int, looks: int, seed: int) -> Tensor:
    """(rows, looks), or fewer looks where there are not so many k: how many positions each look has revealed."""
    arguments.whole("rows", rows)
    looks = min(arguments.whole("looks", looks), length)
    fits(rows, f"rows of {length} tokens", 16 * length)
    luck = Luck(check_seed(seed), torch.arange(rows))
    shift = (torch.arange(rows) + luck.uniform(Stream.ORDER, torch.arange(rows), torch.tensor(0), 1)) / rows
    counts = (torch.arange(looks) + shift.unsqueeze(1)) * (length / looks)
    return counts.long().clamp(max=length - 1)


def hidden_places(revealed: Tensor, part: slice, length: int, seed: int) -> Tensor:
    """Bool (R looks, L) of the rows in a part, look after look: what is hidden where so many (rows, looks) are not."""
    looks = revealed.shape[1]
    luck = Luck(seed, torch.arange(part.start, part.stop).repeat_interleave(looks))
    turn = torch.arange(looks).repeat(part.stop - part.start).unsqueeze(1)
    ranks = luck.grid(Stream.ORDER, length, 2 + turn).argsort(1).argsort(1)
    return ranks >= revealed[part].reshape(-1, 1)
