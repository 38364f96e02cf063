"""Whether one sampler's cost-quality curve is above another's, on sequences that both wrote with the same randomness.

The cost of a budget is its mean number of model calls e. A(e) is the fraction of sequences that are right at the most
expensive budget that costs at most e, and 0 below the first budget. Accuracy under parallelism is its mean over log2 e
from one model call to L:

    AUP = 1/log2(L) * integral from 0 to log2(L) of A(2^x) dx

It is 0 for AR, which has no parallelism, and x for a sampler that is always right with L^(1-x) model calls. It is
linear in the correctness of each row, so each row has an accuracy, and two samplers have a paired difference D, the
same integral of A - B. (Qian et al., arXiv 2601.07568, proposed an area under the accuracy against tokens per forward
pass, which has no upper end; this formula is different.)

Budgets of A and B rarely cost the same, and nothing was measured between two budgets. Between its budgets a sampler is
at least as good as at the previous one and, if more calls do no harm, at most as good as at the next one. Above its
last budget it may always be right. The interval of D includes both: its lower end takes A as measured and B at its
maximum. Costs within 2% count as equal. So different lists of budgets do not make equal samplers different.

Level: D errs in LEVEL / 2 of comparisons, the band over all costs together in LEVEL / 2 (Bonferroni), each interval by
Gaffke's bound (core/gaffke.py). A verdict needs an interval of D without 0. It is withdrawn where the band is
without 0 on the other side at some cost, or where two seeds are on different sides of 0 beyond their intervals.
"""

from __future__ import annotations

import bisect
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal, NamedTuple, Protocol

import torch
from torch import Tensor

from unmask.core.entries import column, picked
from unmask.core.errors import UnmaskError
from unmask.core.estimates import Estimate, bounded_mean
from unmask.core.targets import sample_size
from unmask.experiments.board.curve import means_of
from unmask.experiments.board.families import lists_budgets
from unmask.experiments.board.run import Measured, measured, recipe
from unmask.experiments.board.settings import Settings
from unmask.experiments.run import sweep

LEVEL = 0.05
EQUAL = 1.02  # the ratio up to which two costs count as equal
ENDS = (-1.0, 1.0)
METHOD = "gaffke, paired"
ALL = "all languages"

Verdict = Literal["better", "worse", "not conclusive"]


class Costed(Protocol):
    """Budgets by model calls, with a result for each row: a curve of the board, or one of other records."""

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


@dataclass(frozen=True)
class Budget:
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


def difference(one: Costed, other: Costed) -> Difference:
    """The difference of two curves on the same sequences; fails if their ranges of cost do not overlap."""
    check_overlap(one, other)
    at = _at_costs(one, other)
    first = max(one.model_calls[0], other.model_calls[0])
    last = EQUAL * min(one.model_calls[-1], other.model_calls[-1])

    # The band is at costs in the range of both curves; of costs that count as equal, at the last one.
    costs = [cost for cost, later in pairwise([*at, math.inf]) if later > EQUAL * cost and first <= cost <= last]

    means = [at[cost].estimate(LEVEL / 2 / len(costs)) for cost in costs]
    band = [Budget(cost, mean.value, mean.low, mean.high) for cost, mean in zip(costs, means, strict=True)]
    return _judged(_area(one, at), band, one.sizes)


def pooled(pairs: Sequence[tuple[Costed, Costed]]) -> Difference:
    """The difference over several languages, a pair of curves for each; no band, since costs differ by language."""
    each = [_area(pair[0], _at_costs(*pair)) for pair in pairs]
    rows = Rows(*map(torch.cat, zip(*each, strict=True)))
    return replace(_judged(rows, (), list(map(len, column(each, "measured"))), "languages"), by_seed=())


def _judged(rows: Rows, band: Sequence[Budget], sizes: Sequence[int], parts_are: str = "seeds") -> Difference:
    """The verdict. sizes: the rows of each seed, or of each other part."""
    mean = rows.estimate(LEVEL / 2)
    parts = list(map(Rows, *(one.split(list(sizes)) for one in rows)))
    side, why = _side(mean), ""

    if not side:
        enough = sample_size(float((rows.measured**2).mean()), mean.value, LEVEL)
        why = f"about {enough} sequences would decide" if enough and enough > mean.n else "the interval includes 0"
        # what was measured would decide: only the unknown between two budgets keeps it open
        if _side(bounded_mean(rows.measured, ENDS, mean.level, METHOD)):
            why = "their budgets are too far apart in cost"
    elif -side in map(_side, band):
        why = "budgets disagree"
    elif {1, -1} <= {_side(part.estimate(LEVEL / len(parts))) for part in parts}:
        why = f"{parts_are} disagree"

    verdict: Verdict = "better" if side > 0 else "worse"
    if why:
        verdict = "not conclusive"
    return Difference(verdict, mean, tuple(band), tuple(means_of(rows.measured, sizes)), why)


def _side(mean: Estimate | Budget) -> int:
    """On which side of 0 the interval is; 0 where it includes 0."""
    return (mean.low > 0) - (mean.high < 0)


def check_overlap(one: Costed, other: Costed) -> None:
    first, last = one.model_calls, other.model_calls
    if max(first[0], last[0]) > EQUAL * min(first[-1], last[-1]):
        raise UnmaskError(
            f"the samplers take {span(one)} and {span(other)} model calls. Two curves need costs in common",
            "Compare others",
        )


def span(curve: Costed) -> str:
    """The range of its costs."""
    low, high = curve.model_calls[0], curve.model_calls[-1]
    return f"{low:.4g}" if low == high else f"{low:.4g} to {high:.4g}"


def _at_costs(one: Costed, other: Costed) -> dict[float, Rows]:
    """The difference at each cost that either has."""
    at = {}
    for cost in sorted({*one.model_calls, *other.model_calls}):
        low, high = _between(one, cost)
        other_low, other_high = _between(other, cost)
        at[cost] = Rows(low - other_low, low - other_high, high - other_low)
    return at


def _area(one: Costed, at: dict[float, Rows]) -> Rows:
    """The difference over the whole range."""
    weights = area_weights(list(at), one.length)
    return Rows(*(weighted(weights, parts) for parts in zip(*at.values(), strict=True)))


def _between(curve: Costed, cost: float) -> tuple[Tensor, Tensor]:
    """(rows): the minimum and maximum of correctness at this cost."""
    none, calls = torch.zeros_like(curve.right[0]), curve.model_calls
    right = [none, *curve.right, torch.ones_like(none)]  # below the first budget, and above the last
    following = bisect.bisect_right(calls, cost)
    low, high = right[following], right[following + 1]

    # a budget that costs as much as this one tells the maximum
    equal = bisect.bisect_right(calls, cost * EQUAL)
    if equal and calls[equal - 1] >= cost / EQUAL:
        return low, right[equal]
    return low, max(low, high, key=torch.mean)


def area_weights(model_calls: Sequence[float], length: int, early: bool = False) -> list[float]:
    """The part of log2 e from 1 to L for each point: from its budget to the next, for the last point to the end.

    early: from the previous budget, or from 1, to its own; for the last point also to the end. If more model calls do
    no harm, the accuracy of these weights is the most that it can be between the budgets.
    """
    places = [min(max(math.log2(e) / math.log2(max(length, 2)), 0.0), 1.0) for e in model_calls]
    steps = [b - a for a, b in pairwise([0.0, *places, 1.0])]
    return [*steps[:-2], steps[-2] + steps[-1]] if early else steps[1:]


def weighted(weights: Sequence[float], parts: Sequence[Tensor]) -> Tensor:
    return (torch.tensor(weights, dtype=parts[0].dtype).unsqueeze(1) * torch.stack(list(parts))).sum(0)


@dataclass(frozen=True)
class Versus:
    """The comparison on one language, or on all; without a difference `note` gives the reason."""

    language: str
    length: int | None
    budgets: tuple[str, str] | None  # of each sampler; None for all languages
    difference: Difference | None
    note: str = ""
    costs: tuple[str, str] | None = None  # the measured range of model calls of each sampler

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    def sentence(self, first: str, second: str) -> str:
        """The verdict, then its number, and the range that was compared."""
        result = self.difference
        if result is None:
            return f"{self.language}: not comparable: {self.note}."

        verdict = f"not conclusive: {result.why}" if result.why else f"{first} is {result.verdict} than {second}"
        over = "" if self.length is None else f" from 1 to {self.length}"
        number = f"Fraction correct, mean over log2 of model calls{over}: {result.mean.points}"
        ranges = "" if self.costs is None else f"; measured at {self.costs[0]} and at {self.costs[1]} model calls"
        return f"{self.language}: {verdict}. {number}, {result.mean.n} sequences{ranges}."


def versus(first: str, second: str, settings: Settings, *, store: str | Path, engine: str = "local") -> list[Versus]:
    """The verdict on each language of the settings and, if there are several, on all sequences together.

    Both samplers have the usual budgets of the board, so the choice of budgets decides nothing.
    """
    ones, others = _curves(first, settings, store, engine), _curves(second, settings, store, engine)
    results, pairs = [], []
    for place, one in picked(ones, others).items():
        other = others[place]
        about = *place, (_budgets(one), _budgets(other))

        # curves whose costs do not overlap are named, and the others go on
        try:
            result = difference(one, other)
            results.append(Versus(*about, result, costs=(span(one), span(other))))
            pairs.append((one, other))
        except UnmaskError as error:
            results.append(Versus(*about, None, note=str(error)))

    if not pairs:
        raise UnmaskError(next(iter(column(results, "note")), f"{first} and {second} have no language in common"))
    if len(pairs) > 1:
        results.append(Versus(ALL, None, None, pooled(pairs)))
    return results


def _curves(name: str, settings: Settings, store: str | Path, engine: str) -> dict[tuple[str, int], Measured]:
    """By language and length."""
    if lists_budgets(name):
        raise UnmaskError(f"{name} sets its budgets. A comparison has fixed budgets. Leave them out")
    plan = recipe(replace(settings, samplers=(name,), steps=(), quick=False, against=Settings.against))
    curves, failures = measured(sweep(plan, store=store, engine=engine, fresh=True))
    if not curves:
        reason = next(iter(column(failures, "message")), "it has no budget")
        raise UnmaskError(f"{name} could not be measured: {reason}")
    return {(one.language, one.length): one for one in curves}


def _budgets(one: Measured) -> str:
    return f"{one.family.knob} {', '.join(map(_shown, one.family.values))}"


def _shown(value: object) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)
