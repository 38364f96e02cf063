"""What earlier rounds said of a place: kept in `view.memory`, forgotten where a block begins.

    divergence  KL(p_t || p_t-1) nats between what is said now and what was said a round ago
    agreement   for how many rounds in a row, this one counted, the most likely symbol has been the same

A place of which nothing was said before diverges without bound, and agrees once. Each is asked once a round.
"""

from __future__ import annotations

import torch
from torch import Tensor

from unmask.samplers.view import View


def numbered(view: View) -> Tensor:
    """(B, L): which of the view's marginals a place has, from 1; 0 where it has none."""
    numbers = torch.zeros(view.hidden.shape, dtype=torch.int64)
    numbers[view.places] = torch.arange(1, len(view.places[0]) + 1)
    return numbers


def divergence(view: View, where: Tensor) -> Tensor:
    """(B, L) nats from what was said a round ago, at the places that are asked for, Bool (B, L); inf elsewhere."""
    out = torch.full(view.hidden.shape, torch.inf, dtype=torch.float64)
    now, before, said = numbered(view), view.memory.get("numbers"), view.memory.get("said")
    if before is not None and said is not None:
        known = (where & (now > 0) & (before > 0)).nonzero(as_tuple=True)
        if len(known[0]):
            out[known] = view.marginals[now[known] - 1].divergence(said[before[known] - 1])
    view.memory.update(numbers=now, said=view.marginals)
    return out


def agreement(view: View) -> Tensor:
    """(B, L): rounds in a row, this one counted, with the same most likely symbol; 0 where nothing may be revealed."""
    nothing = torch.zeros_like(view.tokens)
    best = torch.where(view.hidden, view.best + 1, 0)  # 0: nothing was said
    same = (best == view.memory.get("best", nothing)) & view.hidden
    held = torch.where(same, view.memory.get("held", nothing) + 1, view.hidden.long())
    view.memory.update(best=best, held=held)
    return held
