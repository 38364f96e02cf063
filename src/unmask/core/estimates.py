"""A measured number: a value with its confidence interval, sample size and method. Bounds by Gaffke: gaffke.py."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from statistics import NormalDist
from typing import Any

import numpy as np
import torch
from torch import Tensor

from unmask.core.errors import UnmaskError, plural, shown
from unmask.core.gaffke import gaffke_end

LEVEL = 0.95
NEAR = 1e-10  # of the width between two ends
BY_GROUP = " by prompt"  # end of the method of an interval over groups of rows
LEAST = 20  # independent rows of an unbounded quantity: fewer have no interval


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
    def none_seen(self) -> bool:
        """Whether it is an upper limit: the event did not occur."""
        return self.value == self.low == 0.0 < self.high

    @property
    def open(self) -> bool:
        """Whether there are too few rows for an interval."""
        return math.isinf(self.low) or math.isinf(self.high)

    @property
    def points(self) -> str:
        """A difference of two fractions in percentage points, with its interval."""
        return f"{100 * self.value:+.1f} percentage points [{100 * self.low:+.1f}, {100 * self.high:+.1f}]"

    @property
    def standard_error(self) -> float:
        """Half the interval in units of the normal quantile: sigma of a normal approximation.

        It is 0 if the interval is certain: an exact value, or one between two bounds, has no noise.
        """
        return (self.high - self.low) / (2 * quantile(self.level))

    def map(self, monotone: Any) -> Estimate:
        """The estimate on another scale, by a nondecreasing function: exponentiate last, not first."""
        return Estimate(monotone(self.value), monotone(self.low), monotone(self.high), self.n, self.level, self.method)

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def of_record(cls, record: Mapping[str, Any]) -> Estimate:
        """The estimate of a record that has its fields among others; null ends of JSON are open."""
        ends = {name: record[name] for name in cls.__dataclass_fields__ if name in record}
        if missing := cls.__dataclass_fields__.keys() - ends.keys():
            problem = (
                f"a record of {shown(record.get('measure', 'a number'))} has no {' and no '.join(sorted(missing))}"
            )
            raise UnmaskError(f"{problem}; expected {', '.join(cls.__dataclass_fields__)}. Measure it again.")
        for end, nothing in (("low", -math.inf), ("high", math.inf)):
            if ends[end] is None:
                ends[end] = nothing
        return cls(**ends)

    def __str__(self) -> str:
        if self.exact:
            return f"{self.value:.6g} (exact)"
        if self.none_seen:
            return f"< {self.high:.2g} (none in {self._counted})"
        if self.open:
            few = math.isfinite(self.value) and self.n < LEAST
            counted = plural(self.n, "group" if self._grouped else "value")
            reason = f"only {counted}; {LEAST} needed" if few else self.method
            return f"{self.value:.4g} (no interval: {reason})"
        return f"{self.value:.4g} [{self.low:.4g}, {self.high:.4g}]{self._alone}"

    @property
    def percent(self) -> str:
        """A fraction as a percentage with its interval: 49.5% [47.3%, 51.7%]."""
        if self.none_seen:
            return f"0% (none in {self._counted}; at most {self.high:.2%})"
        return str(self) if self.open else f"{self.value:.1%} [{self.low:.1%}, {self.high:.1%}]{self._alone}"

    @property
    def _grouped(self) -> bool:
        """Whether n is a number of groups of rows."""
        return self.method.endswith(BY_GROUP)

    @property
    def _counted(self) -> str:
        return plural(self.n, "group") if self._grouped else str(self.n)

    @property
    def _alone(self) -> str:
        """The reason of a wide interval, in words."""
        return " (one group of dependent rows)" if self._grouped and self.n == 1 else ""


def quantile(level: float = LEVEL) -> float:
    """Number of standard deviations to each side; infinite at level 1."""
    return NormalDist().inv_cdf(0.5 + level / 2) if level < 1 else math.inf


def exactly(value: float, method: str = "exact") -> Estimate:
    value += 0.0  # no -0
    return Estimate(value, value, value, 0, 1.0, method)


def proportion(successes: int, n: int, level: float = LEVEL) -> Estimate:
    """Clopper and Pearson's interval, which has at least the coverage `level` for all p and n (theory.md 2)."""
    from scipy.special import betaincinv

    tail = (1 - level) / 2
    low = float(betaincinv(successes, n - successes + 1, tail)) if successes else 0.0
    high = float(betaincinv(successes + 1, n - successes, 1 - tail)) if successes < n else 1.0
    return Estimate(successes / n, low, high, n, level, "clopper-pearson")


def share(events: Tensor, groups: Tensor | None = None, level: float = LEVEL) -> Estimate:
    """The probability of an event, from Bool (n); rows of one group (n numbers) are not independent."""
    if groups is None or len(groups.unique()) == len(events):
        return proportion(int(events.sum()), len(events), level)
    return bounded_mean(events.double(), groups=groups, level=level, method="gaffke")


def all_or_nothing(scores: Tensor) -> bool:
    """Whether each score is 0 or 1, so that their mean is the probability of an event."""
    return bool(((scores == 0) | (scores == 1)).all())


def bounded_mean(
    samples: Tensor,
    ends: tuple[float, float] = (0.0, 1.0),
    level: float = LEVEL,
    method: str = "gaffke",
    groups: Tensor | None = None,
) -> Estimate:
    """The mean of samples (n) within the ends, with Gaffke's interval (core/gaffke.py).

    Samples of one group (n numbers) are not independent: then the interval is that of the K group means. With one group
    it is that of one number: almost the whole width.
    """
    samples = samples.double()
    value = float(samples.mean())

    if groups is not None and len(groups.unique()) < len(samples):
        samples = independent(samples, groups)
        method = f"{method}{BY_GROUP}"

    atoms, counts = samples.unique(return_counts=True)
    return within(value, atoms, counts, ends, level, method)


def within(
    value: float, atoms: Tensor, counts: Tensor, ends: tuple[float, float], level: float, method: str
) -> Estimate:
    """`bounded_mean` from the distinct values and their counts."""
    bottom = ends[0]
    width = ends[1] - bottom
    numbers = counts.double().numpy()
    values = ((atoms.double() - bottom) / width).clamp(0, 1).numpy()

    # nearer to an end than a root is found: at the end
    values = np.where(values < NEAR, 0.0, np.where(values > 1 - NEAR, 1.0, values))
    tail = (1 - level) / 2
    low = bottom + width * gaffke_end(values, numbers, tail, -1)
    high = bottom + width * gaffke_end(values, numbers, tail, 1)
    return Estimate(value, min(low, value), max(high, value), int(numbers.sum()), level, method)


def passes(right: Tensor, groups: Tensor, level: float = LEVEL) -> dict[int, Estimate]:
    """pass@k from Bool (n): the probability that one of k samples of a group is right, for k = 2, 4, .. and all.

    Of n samples of an item with c right ones, 1 - C(n-c, k) / C(n, k) is unbiased (arXiv 2107.03374). The interval is
    that of its mean over items. It is empty if a group has one sample, and pass@1 is the mean of `right`.
    """
    totals, sizes = by_group(right.double(), groups)
    missed = torch.ones_like(totals)
    least = int(sizes.min())
    by_k: dict[int, Estimate] = {}
    for k in range(1, least + 1):
        missed *= ((sizes - totals - k + 1) / (sizes - k + 1)).clamp(min=0.0)
        if k > 1 and (k == least or k & (k - 1) == 0):
            certain = bool(((missed == 0) | (missed == 1)).all())
            by_k[k] = share(missed == 0, level=level) if certain else bounded_mean(1 - missed, level=level)
    return by_k


def independent(samples: Tensor, groups: Tensor | None) -> Tensor:
    """(K): the mean of each group, or the samples themselves."""
    if groups is None:
        return samples
    totals, sizes = by_group(samples.double(), groups)
    return totals / sizes


def by_group(samples: Tensor, groups: Tensor) -> tuple[Tensor, Tensor]:
    """(K), (K): the sum over each group, and its size."""
    which = groups.unique(return_inverse=True)[1]
    sizes = which.bincount()
    return torch.zeros(len(sizes), dtype=torch.float64).index_add_(0, which, samples), sizes
