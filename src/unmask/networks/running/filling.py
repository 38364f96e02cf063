"""A whole order filled in one call, on the network's device, which the host never waits for on the way.

Rounds, rows and columns follow from the order, and uniforms from the luck, so that all of them are there before the
first evaluation. Rows stand in the order of how many rounds they have, most first: those that have a round r are then
the first ones, and none has to be moved.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from unmask.core.chance import Luck, Stream, categorical
from unmask.denoisers.stateless import layout
from unmask.networks.running.evaluation import Evaluator, probabilities
from unmask.schedules import orders


class Round(NamedTuple):
    """One round of the first R rows: K positions."""

    asked: Tensor  # (R, A): columns, padded
    valid: Tensor  # (K): which of the R x A count
    places: Tensor  # (K): in R x L


class Rounds(NamedTuple):
    """An order (B, L), ready for a device."""

    rows: Tensor  # (R) of B: those that have a round, most rounds first
    counts: Tensor  # (B): how many rounds each row has
    uniforms: Tensor  # (R L)
    each: list[Round]

    @classmethod
    def of(cls, order: Tensor, luck: Luck, visits: Tensor, device: torch.device) -> Rounds:
        """The visits (B, L) of each place are counted up."""
        counts = _counts(order)
        rows = counts.argsort(descending=True, stable=True)[: int((counts > 0).sum())]
        if not len(rows):
            return cls(rows, counts, torch.empty(0), [])
        uniforms = luck.uniform(Stream.TOKEN, rows.unsqueeze(1), torch.arange(order.shape[1]), visits[rows])
        visits += order > 0
        numbers: list[Tensor] = []
        for row, position in orders.rounds(order[rows]):
            numbers += *layout(row, position), row * order.shape[1] + position
        sent = torch.cat([part.flatten() for part in numbers]).to(device, non_blocking=True)  # in one transfer
        parts = iter(sent.split([part.numel() for part in numbers]))
        each = [Round(next(parts).view_as(asked), next(parts), next(parts)) for asked in numbers[::3]]
        return cls(rows, counts, uniforms.flatten().to(device, non_blocking=True), each)


def fill(evaluator: Evaluator, rounds: Rounds, tokens: Tensor, below: Tensor) -> tuple[Tensor, Tensor]:
    """Tokens (R, L) filled, and the probability (R, L) of each, 1 elsewhere; below: what the first round looks at."""
    filled = tokens.to(evaluator.device, copy=True)
    flat = filled.view(-1)
    probability = torch.ones_like(flat, dtype=torch.float64)
    for index, (asked, valid, places) in enumerate(rounds.each):
        if index:
            below = evaluator.below(filled[: len(asked)])
        states = evaluator.states(below, asked).flatten(0, 1).index_select(0, valid)
        chances = probabilities(evaluator.head(states))
        new = categorical(chances, rounds.uniforms.index_select(0, places))
        flat.index_copy_(0, places, new)
        probability.index_copy_(0, places, chances.gather(1, new.unsqueeze(1)).squeeze(1).double())
    return filled.to(tokens.device), probability.view_as(filled).to(tokens.device)


def _counts(order: Tensor) -> Tensor:
    """(B): how many different rounds each row of an order (B, L) has, not counting 0."""
    labels = order.sort(dim=1).values
    return (labels[:, :1] > 0).sum(1) + (labels[:, 1:] != labels[:, :-1]).sum(1)
