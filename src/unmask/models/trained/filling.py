"""A whole order filled in one call on the network's device; the host does not wait for it in between.

Steps, rows and columns follow from the order, and uniforms from the random seed, so all are known before the first
model call. Rows are sorted by their number of steps, largest first: the rows that have a step r are then the first
rows, and no row has to be moved.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from unmask.core.chance import Randomness, Stream, categorical
from unmask.denoisers.denoiser import layout
from unmask.models.trained.evaluation import Evaluator, probabilities
from unmask.samplers import orders


class Step(NamedTuple):
    """One step of the first R rows: K positions."""

    columns: Tensor  # (R, A): columns, padded
    valid: Tensor  # (K): indices in R x A that are not padding
    places: Tensor  # (K): in R x L


class Steps(NamedTuple):
    """An order (B, L), on the device."""

    rows: Tensor  # (R) of B: rows with at least one step, most steps first
    counts: Tensor  # (B): number of steps of each row
    uniforms: Tensor  # (R L)
    each: list[Step]

    @classmethod
    def of(cls, order: Tensor, rng: Randomness, visits: Tensor, device: torch.device) -> Steps:
        """Prepare an order; the visits (B, L) of revealed positions are increased."""
        counts = _counts(order)
        rows = counts.argsort(descending=True, stable=True)[: int((counts > 0).sum())]
        if not len(rows):
            return cls(rows, counts, torch.empty(0), [])
        uniforms = rng.uniform(Stream.TOKEN, rows.unsqueeze(1), torch.arange(order.shape[1]), visits[rows])
        visits += order > 0
        numbers: list[Tensor] = []
        for row, position in orders.steps(order[rows]):
            numbers += *layout(row, position), row * order.shape[1] + position
        sent = torch.cat([part.flatten() for part in numbers]).to(device, non_blocking=True)  # in one transfer
        parts = iter(sent.split([part.numel() for part in numbers]))
        each = [Step(next(parts).view_as(columns), next(parts), next(parts)) for columns in numbers[::3]]
        return cls(rows, counts, uniforms.flatten().to(device, non_blocking=True), each)


def fill(evaluator: Evaluator, steps: Steps, tokens: Tensor, below: Tensor) -> tuple[Tensor, Tensor]:
    """Filled tokens (R, L) and their probabilities (R, L), 1 elsewhere; `below` is that of the first step."""
    filled = tokens.to(evaluator.device, copy=True)
    flat = filled.view(-1)
    probability = torch.ones_like(flat, dtype=torch.float64)
    for index, (columns, valid, places) in enumerate(steps.each):
        if index:
            below = evaluator.below(filled[: len(columns)])
        states = evaluator.states(below, columns).flatten(0, 1).index_select(0, valid)
        chances = probabilities(evaluator.head(states))
        new = categorical(chances, steps.uniforms.index_select(0, places))
        flat.index_copy_(0, places, new)
        probability.index_copy_(0, places, chances.gather(1, new.unsqueeze(1)).squeeze(1).double())
    return filled.to(tokens.device), probability.view_as(filled).to(tokens.device)


def _counts(order: Tensor) -> Tensor:
    """(B): number of different steps in each row of an order (B, L), without 0."""
    labels = order.sort(dim=1).values
    return (labels[:, :1] > 0).sum(1) + (labels[:, 1:] != labels[:, :-1]).sum(1)
