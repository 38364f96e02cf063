"""The noise of the difference of two sets of rows: over rows, which are independent."""

from __future__ import annotations

import torch
from torch import Tensor

from unmask.diagnosis.audit.statistics import EXPECTED, Rows

ROUNDING = 1e-9  # of floats; a statistic that varies by less does not vary
NEGLIGIBLE = 1e-6  # of the largest eigenvalue of a correlation: statistics that are sums of others


class Noise:
    """The covariance of the difference of two means, in the directions in which there is any.

    pooled = ((n-1) S_1 + (m-1) S_2) / (n+m-2),   Cov = pooled (1/n + 1/m)           (Hotelling)
    """

    def __init__(self, first: Rows, second: Rows, dense: bool = False) -> None:
        n, m = len(first), len(second)
        pooled = (first.scatter + second.scatter) / (n + m - 2)
        size = 1 + torch.maximum(first.mean.abs(), second.mean.abs())
        self.used = pooled.diagonal() > (ROUNDING * size) ** 2
        self.apart = bool((~self.used & ((first.mean - second.mean).abs() > ROUNDING * size)).any())  # beyond all doubt
        if dense:
            mean = (n * first.mean + m * second.mean) / (n + m)
            counted = torch.arange(len(mean)) < first.counted
            self.used &= ~counted | (n * mean >= EXPECTED)
            last = first.counted - 1  # whether a row is invalid: rare validity is as far from normal
            self.used[last] &= bool(n * (1 - mean[last]) >= EXPECTED)
        pooled = pooled[self.used][:, self.used] * (1 / n + 1 / m)
        self.scale = pooled.diagonal().sqrt()
        values, vectors = torch.linalg.eigh(pooled / self.scale / self.scale.unsqueeze(1))
        kept = values > NEGLIGIBLE * values.max() if len(values) else values > 0
        self.whiten = vectors[:, kept] / values[kept].sqrt()
        self.degrees = int(kept.sum())

    def white(self, difference: Tensor) -> Tensor:
        """A difference of means (D) in coordinates (degrees) whose noise is standard normal."""
        return (difference[..., self.used] / self.scale) @ self.whiten
