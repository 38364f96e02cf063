"""Whether one sampler's cost-quality curve is above another's, on sequences that both wrote with the same randomness.

The cost of a budget is its mean number of model calls e. A(e) is the fraction of sequences that are right at the most
expensive budget that costs at most e, and 0 below the first budget. With L tokens the difference is

    D = 1/log2(L) * integral from 0 to log2(L) of A(2^x) - B(2^x) dx

which is the difference of two accuracies under parallelism (measures.py): a board and a comparison use one number.

Budgets of A and B rarely cost the same, and nothing was measured between two budgets. Between its budgets a sampler is
at least as good as at the previous one and, if more calls do no harm, at most as good as at the next one. Above its
last budget it may always be right. The interval of D includes both: its lower end takes A as measured and B at its
maximum. Costs within 2% count as equal. So different lists of budgets do not make equal samplers different.

Level: D errs in LEVEL / 2 of comparisons, the band over all costs together in LEVEL / 2 (Bonferroni), each interval by
Gaffke's bound (core/estimates.py). A verdict needs an interval of D without 0. It is withdrawn where the band is
without 0 on the other side at some cost, or where two seeds are on different sides of 0 beyond their intervals.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import pairwise
from typing import Any, Literal, NamedTuple, Protocol

import torch
from torch import Tensor

from unmask.core.errors import UnmaskError
from unmask.core.estimates import Estimate, bounded_mean
from unmask.core.search import sample_size
from unmask.experiments.board.measures import area_weights, sum_of

LEVEL = 0.05
EQUAL = 1.02  # the ratio up to which two costs count as equal
ENDS = (-1.0, 1.0)
METHOD = "gaffke, paired"

Verdict = Literal["better", "worse", "not conclusive"]


class Curve(Protocol):
    """Budgets by model calls: a curve of the board, or of other records with a result for each row."""

    @property
    def length(self) -> int: ...

    @property
    def model_calls(self) -> Sequence[float]: ...

    @property
    def right(self) -> Sequence[Tensor]:
        """(rows) for each budget, from 0 to 1; the rows of all seeds."""

    @property
    def sizes(self) -> Sequence[int]:
        """The rows of each seed."""


class Rows(NamedTuple):
    """The difference for each sequence (rows of all seeds): measured, minimum and maximum (see above)."""

    measured: Tensor
    least: Tensor
    most: Tensor

    def estimate(self, level: float) -> Estimate:
        """The mean; the interval misses the mean of `least` or of `most` with probability `level`."""
        value = float(self.measured.mean())
        low = high = bounded_mean(self.least, ENDS, 1 - level)
        if not torch.equal(self.least, self.most):
            high = bounded_mean(self.most, ENDS, 1 - level)
        return Estimate(value, min(low.low, value), max(high.high, value), low.n, 1 - level, METHOD)

    def split(self, sizes: Sequence[int]) -> list[Rows]:
        return [Rows(*parts) for parts in zip(*(rows.split(list(sizes)) for rows in self), strict=True)]


class Budget(NamedTuple):
    """The difference at one cost; the intervals of a band hold simultaneously."""

    calls: float
    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Difference:
    """The first sampler minus the second: fractions of right sequences, from -1 to 1."""

    verdict: Verdict
    mean: Estimate
    band: tuple[Budget, ...]
    by_seed: tuple[float, ...]
    why: str  # the reason if not conclusive

    def to_dict(self) -> dict[str, Any]:
        return asdict(self) | {"band": [budget._asdict() for budget in self.band]}


def difference(one: Curve, other: Curve) -> Difference:
    """The difference of two curves on the same sequences; fails if their ranges of cost do not overlap."""
    check_overlap(one, other)
    rows, at = _rows(one, other)
    return judge(rows, _band(one, other, at), one.sizes)


def pooled(pairs: Sequence[tuple[Curve, Curve]]) -> Difference:
    """The difference over several languages, a pair of curves for each; no band, since costs differ by language."""
    each = [_rows(*pair)[0] for pair in pairs]
    rows = Rows(*(torch.cat(parts) for parts in zip(*each, strict=True)))
    return replace(judge(rows, (), [len(part.measured) for part in each], "languages"), by_seed=())


def judge(rows: Rows, band: Sequence[Budget], sizes: Sequence[int], parts_are: str = "seeds") -> Difference:
    """The verdict. sizes: the rows of each seed, or of each other part."""
    mean = rows.estimate(LEVEL / 2)
    side = _side(mean)
    parts = rows.split(sizes)
    why = ""
    if not side:
        why = _undecided(rows, mean)
    elif any(_side(budget) == -side for budget in band):
        why = "budgets disagree"
    elif {1, -1} <= {_side(part.estimate(LEVEL / len(parts))) for part in parts}:
        why = f"{parts_are} disagree"
    verdict: Verdict = "not conclusive" if why else "better" if side > 0 else "worse"
    return Difference(verdict, mean, tuple(band), tuple(float(part.measured.mean()) for part in parts), why)


def _side(mean: Estimate | Budget) -> int:
    """On which side of 0 the interval is; 0 where it includes 0."""
    return (mean.low > 0) - (mean.high < 0)


def check_overlap(one: Curve, other: Curve) -> None:
    spans = [(curve.model_calls[0], curve.model_calls[-1]) for curve in (one, other)]
    if max(low for low, _ in spans) > EQUAL * min(high for _, high in spans):
        costs = " and ".join(f"{low:.4g}" if low == high else f"{low:.4g} to {high:.4g}" for low, high in spans)
        raise UnmaskError(f"the samplers take {costs} model calls. Two curves need costs in common. Compare others")


def _rows(one: Curve, other: Curve) -> tuple[Rows, dict[float, Rows]]:
    """Over the whole range, and at each cost that either has."""
    at = {cost: _at(one, other, cost) for cost in sorted({*one.model_calls, *other.model_calls})}
    weights = area_weights(list(at), one.length)
    return Rows(*(sum_of(weights, parts) for parts in zip(*at.values(), strict=True))), at


def _at(one: Curve, other: Curve, cost: float) -> Rows:
    """The difference at one cost."""
    (low, high), (other_low, other_high) = _between(one, cost), _between(other, cost)
    return Rows(low - other_low, low - other_high, high - other_low)


def _between(curve: Curve, cost: float) -> tuple[Tensor, Tensor]:
    """(rows): the minimum and maximum of correctness at this cost."""
    right = curve.right
    below = [index for index, calls in enumerate(curve.model_calls) if calls <= cost]
    low = right[below[-1]] if below else torch.zeros_like(right[0])
    equal = [index for index, calls in enumerate(curve.model_calls) if cost / EQUAL <= calls <= cost * EQUAL]
    if equal:
        return low, right[equal[-1]]
    following = len(below)
    high = right[following] if following < len(right) else torch.ones_like(low)
    return low, high if high.mean() > low.mean() else low


def _band(one: Curve, other: Curve, at: Mapping[float, Rows]) -> list[Budget]:
    """The band at costs in the range of both curves; of costs that count as equal, the last one."""
    first = max(one.model_calls[0], other.model_calls[0])
    last = EQUAL * min(one.model_calls[-1], other.model_calls[-1])
    costs = [cost for cost, later in pairwise([*at, math.inf]) if later > EQUAL * cost and first <= cost <= last]
    means = [at[cost].estimate(LEVEL / 2 / len(costs)) for cost in costs]
    return [Budget(cost, mean.value, mean.low, mean.high) for cost, mean in zip(costs, means, strict=True)]


def _undecided(rows: Rows, mean: Estimate) -> str:
    alone = bounded_mean(rows.measured, ENDS, mean.level, METHOD)
    if _side(alone):
        return "their budgets are too far apart in cost"
    enough = sample_size(float((rows.measured**2).mean()), mean.value, LEVEL)
    return f"about {enough} sequences would decide" if enough and enough > mean.n else "the interval includes 0"
