"""What every measured number is: a value with its interval, the sample size, and how it was obtained."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from statistics import NormalDist
from typing import Any

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
    z = quantile(level)
    centre = (value + z * z / (2 * n)) / (1 + z * z / n)
    half = z / (1 + z * z / n) * math.sqrt(value * (1 - value) / n + z * z / (4 * n * n))
    return Estimate(value, centre - half, centre + half, n, level, "wilson")


def mean(samples: Tensor, level: float = LEVEL, method: str = "normal") -> Estimate:
    """The mean of independent samples (n) with its normal interval; of one sample the interval is the whole line."""
    n = len(samples)
    value = float(samples.double().mean())
    half = quantile(level) * float(samples.double().std()) / math.sqrt(n) if n > 1 else math.inf
    return Estimate(value, value - half, value + half, n, level, method)
