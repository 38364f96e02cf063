"""The best positions of each row by a score, with ties that float noise does not decide."""

from __future__ import annotations

import torch
from torch import Tensor

RESOLUTION = 1e-9


def best(scores: Tensor, hidden: Tensor, count: Tensor, ties: Tensor | None) -> Tensor:
    """Bool (B, W): the count (B) hidden positions of each row with the highest scores (B, W).

    Scores closer than the resolution are equal; then the lower of `ties` (B, W) comes first, or the lower position.
    Each row chooses by itself: rows never trade positions.
    """
    rounded = torch.where(hidden, torch.round(scores.double() / RESOLUTION), -torch.inf)
    first = torch.arange(scores.shape[1]).expand(scores.shape) if ties is None else ties.argsort(dim=1)
    second = rounded.gather(1, first).argsort(dim=1, descending=True, stable=True)
    ranks = first.gather(1, second).argsort(dim=1)
    return hidden & (ranks < count.unsqueeze(1))
