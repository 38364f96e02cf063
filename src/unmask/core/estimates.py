"""What every measured number is: a value with its interval, the sample size, and how it was obtained."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, replace
from statistics import NormalDist
from typing import Any

import torch
from torch import Tensor

LEVEL = 0.95


@dataclass(frozen=True)
class Estimate:
    value: float
    low: float
    high: float
    n: int
    level: float = LEVEL
    method: str = ""

    @property
    def exact(self) -> bool:
        return self.method.startswith("exact")

    @property
    def standard_error(self) -> float:
        """Half the interval in units of the normal quantile: what a normal approximation would have as sigma."""
        return 0.0 if self.exact else (self.high - self.low) / (2 * quantile(self.level))

    def map(self, monotone: Any) -> Estimate:
        """The same estimate on another scale, for a nondecreasing function: exponentiate last, not first."""
        return Estimate(monotone(self.value), monotone(self.low), monotone(self.high), self.n, self.level, self.method)

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    def __str__(self) -> str:
        if self.exact:
            return f"{self.value:.6g} (exact)"
        if self.value == 0.0 and self.method.startswith("clopper"):
            return f"< {self.high:.2g} (none in {self.n})"
        return f"{self.value:.4g} [{self.low:.4g}, {self.high:.4g}]"


def quantile(level: float = LEVEL) -> float:
    return NormalDist().inv_cdf(0.5 + level / 2)


def exactly(value: float, method: str = "exact") -> Estimate:
    value += 0.0  # no -0
    return Estimate(value, value, value, 0, 1.0, method)


def proportion(successes: int, n: int, level: float = LEVEL) -> Estimate:
    """Wilson's interval; at 0 and n Clopper and Pearson's, which are closed there (theory.md 2)."""
    value = successes / n
    tail = (1 - level) / 2
    if successes == 0:
        return Estimate(0.0, 0.0, 1 - tail ** (1 / n), n, level, "clopper-pearson")
    if successes == n:
        return Estimate(1.0, tail ** (1 / n), 1.0, n, level, "clopper-pearson")
    return Estimate(value, *_wilson(value, n, level), n, level, "wilson")


def share(events: Tensor, groups: Tensor | None = None, level: float = LEVEL) -> Estimate:
    """The probability of an event, from Bool (n), where rows of one group (n numbers) are not independent.

    Wilson's interval at n / deff independent rows, deff >= 1 being how much the groups widen the variance. Where none
    has happened, or all, each group counts once: P(none of m) <= P(not one), so that this is no less than the level.
    """
    n, successes = len(events), int(events.sum())
    if groups is None or (count := len(groups.unique())) in (1, n):
        return proportion(successes, n, level)
    return share_of_groups(successes, n, count, _variance(events.double(), groups), level)


def share_of_groups(successes: int, n: int, groups: int, variance: float, level: float = LEVEL) -> Estimate:
    """As `share`, where the groups are known by the variance that they give the mean."""
    if successes in (0, n):
        return replace(proportion(successes and groups, groups, level), method="clopper-pearson by prompt")
    value = successes / n
    widened = max(1.0, variance / (value * (1 - value) / n))
    return Estimate(value, *_wilson(value, n / widened, level), groups, level, "wilson by prompt")


def mean(samples: Tensor, level: float = LEVEL, method: str = "normal", groups: Tensor | None = None) -> Estimate:
    """The mean of samples (n) with its normal interval; of one sample the interval is the whole line.

    Samples are independent, or those of different groups (n numbers) are, and the interval is that of K groups.
    """
    n = len(samples)
    value = float(samples.double().mean())
    if groups is not None and 1 < (count := len(groups.unique())) < n:
        half = quantile(level) * math.sqrt(_variance(samples.double(), groups))
        return Estimate(value, value - half, value + half, count, level, f"{method} by prompt")
    half = quantile(level) * float(samples.double().std()) / math.sqrt(n) if n > 1 else math.inf
    return Estimate(value, value - half, value + half, n, level, method)


def _wilson(value: float, n: float, level: float) -> tuple[float, float]:
    z = quantile(level)
    centre = (value + z * z / (2 * n)) / (1 + z * z / n)
    half = z / (1 + z * z / n) * math.sqrt(value * (1 - value) / n + z * z / (4 * n * n))
    return centre - half, centre + half


def _variance(samples: Tensor, groups: Tensor) -> float:
    """Of the mean of samples (n) in K independent groups: K / (K-1) sum_k (sum_{i in k} (x_i - mean))^2 / n^2."""
    which = groups.unique(return_inverse=True)[1]
    count = int(which.max()) + 1
    sums = torch.zeros(count, dtype=torch.float64).index_add_(0, which, samples - samples.mean())
    return float((sums**2).sum()) * count / (count - 1) / len(samples) ** 2
