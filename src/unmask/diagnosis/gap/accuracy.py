"""How much accuracy parallel decoding costs, without decoding again: a covariance.

A score f of each row, from 0 to 1, and the gap of each row by the full chain. With w = exp(-gap), whose mean is 1,

    accuracy of the model one token at a time - accuracy of the rows = Cov(f, w)

The rest of the errors, one minus the accuracy one token at a time, is the model's own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from torch import Tensor

from unmask.core.estimates import Estimate, mean, ratio


@dataclass(frozen=True)
class Accuracy:
    """Mean scores of parallel decoding, and of the same model one token at a time."""

    parallel: Estimate
    sequential: Estimate  # by weights exp(-gap) that are normalized to mean 1
    lost: Estimate  # sequential - parallel
    effective: float  # effective fraction of the rows, (sum w)^2 / (B sum w^2)

    def to_dict(self) -> dict[str, Any]:
        each = {name: getattr(self, name).to_dict() for name in ("parallel", "sequential", "lost")}
        return each | {"effective": self.effective}


def accuracy(gap: Tensor, score: Tensor, groups: Tensor | None = None) -> Accuracy:
    """gap (B) nats of each row, infinite where one token at a time cannot write it. groups (B): rows of one prompt."""
    weight, score = (-gap).exp(), score.double()
    sequential = ratio(weight * score, weight, "t, weighted", groups)
    own = mean(score, groups=groups)
    errors = weight * (score - sequential.value) / weight.mean() - (score - own.value)  # linearized
    return Accuracy(
        parallel=own,
        sequential=sequential,
        lost=mean(errors, method="t, weighted", groups=groups).map(lambda error: sequential.value - own.value + error),
        effective=float(weight.sum() ** 2 / (len(weight) * (weight**2).sum())),
    )
