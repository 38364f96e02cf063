"""Marginals of earlier steps: stored in `view.memory`, cleared where a block begins.

    divergence  KL(p_t || p_t-1) nats between the present marginals and those of the step before
    agreement   number of consecutive steps, including this one, with the same most likely symbol

A position without an earlier marginal has infinite divergence, and agreement 1. Call each once per step.
"""

from __future__ import annotations

import torch
from torch import Tensor

from unmask.samplers.view import View


def numbered(view: View) -> Tensor:
    """(B, L): index of a position in the view's marginals, from 1; 0 if it has none."""
    numbers = torch.zeros(view.hidden.shape, dtype=torch.int64)
    numbers[view.places] = torch.arange(1, len(view.places[0]) + 1)
    return numbers


def divergence(view: View, where: Tensor) -> Tensor:
    """(B, L) nats from the marginals of the step before, at positions `where`, Bool (B, L); inf elsewhere."""
    out = torch.full(view.hidden.shape, torch.inf, dtype=torch.float64)
    now, before, earlier = numbered(view), view.memory.get("numbers"), view.memory.get("marginals")
    if before is not None and earlier is not None:
        known = (where & (now > 0) & (before > 0)).nonzero(as_tuple=True)
        if len(known[0]):
            out[known] = view.marginals[now[known] - 1].divergence(earlier[before[known] - 1])
    view.memory.update(numbers=now, marginals=view.marginals)
    return out


def agreement(view: View) -> Tensor:
    """(B, L): consecutive steps, including this one, with the same most likely symbol; 0 where not hidden."""
    nothing = torch.zeros_like(view.tokens)
    best = torch.where(view.hidden, view.best + 1, 0)  # 0: no marginal
    same = (best == view.memory.get("best", nothing)) & view.hidden
    agreed = torch.where(same, view.memory.get("agreed", nothing) + 1, view.hidden.long())
    view.memory.update(best=best, agreed=agreed)
    return agreed
