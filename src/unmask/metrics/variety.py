"""The variety of sequences: how many are distinct, the entropy at a position, and the identity of two of them."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from unmask.core.estimates import Estimate, mean


@dataclass(frozen=True)
class Variety:
    distinct: int
    entropy: float  # nats, of the tokens at a position among the sequences, the mean over positions
    identity: Estimate  # fraction of equal tokens of two sequences, the mean over pairs


def variety(tokens: Tensor, counted: Tensor) -> Variety:
    """The variety of rows (n, L), of their tokens at counted positions, Bool (n, L).

    Entropies depend on n: compare equal numbers of rows."""
    tokens, entropies = torch.where(counted, tokens, -1), [0.0]
    for column in tokens.T[counted.any(0)]:
        p = column[column >= 0].unique(return_counts=True)[1].double()
        entropies.append(float(torch.special.entr(p / p.sum()).sum()))
    rows = zip(tokens, counted, strict=True)
    same = torch.stack(
        [((tokens == row) & there).sum(1) / (counted & there).sum(1).clamp(min=1) for row, there in rows]
    )
    each = (same.sum(1) - same.diagonal()).double() / max(len(tokens) - 1, 1)
    identity = mean(2 * each - each.mean())  # a mean over pairs varies as a mean of twice the deviations of rows
    return Variety(len(tokens.unique(dim=0)), sum(entropies) / max(len(entropies) - 1, 1), identity)
