"""Which steps and rows are measured, within a number of model calls."""

from __future__ import annotations

from typing import Literal, cast, get_args

import torch
from torch import Tensor

from unmask.core import arguments

Estimator = Literal["one", "pair", "chain"]


def check_calls(calls: object) -> Estimator | int | None:
    """Check an estimator, a number of model calls per row, or None."""
    if calls is None:
        return None
    if isinstance(calls, str):
        return cast(Estimator, arguments.word("calls", calls, get_args(Estimator)))
    return arguments.whole("calls", calls)


def chosen(weight: Tensor, row: Tensor, most: int, rng: torch.Generator) -> tuple[Tensor, Tensor]:
    """Draw at most `most` steps of each row, in proportion to their weights (K); no step with weight 0.

    Return the steps (C), and the probability (C) of each to be drawn: dividing by it keeps sums unbiased. The draw is
    systematic, so every row has the same number of steps."""
    rows = int(row.max()) + 1 if len(row) else 0

    def per_row(values: Tensor) -> Tensor:
        return torch.zeros(rows, dtype=torch.float64).index_add_(0, row, values.double())

    sure = torch.zeros(len(row), dtype=torch.bool)
    while True:
        rest = weight.double().masked_fill(sure, 0)
        left = most - per_row(sure)
        probability = left[row] * rest / per_row(rest)[row].clamp(min=1e-300)
        more = (probability >= 1) & ~sure
        if not bool(more.any()):
            break
        sure |= more
    total = probability.cumsum(0)
    before = torch.cat([total.new_zeros(1), total[:-1]])
    starts = torch.full((rows,), torch.inf, dtype=torch.float64).scatter_reduce(0, row, before, "amin")
    shift = torch.rand(rows, generator=rng, dtype=torch.float64)[row] - starts[row]
    taken = sure | ((total + shift).floor() > (before + shift).floor())
    steps = taken.nonzero().squeeze(1)
    return steps, torch.where(sure, 1.0, probability)[steps]


def evenly(rows: int, most: int) -> Tensor:
    """At most `most` of the rows, evenly spaced."""
    most = min(rows, most)
    return torch.arange(most) * rows // max(most, 1)
