"""Two ways of writing on the same items: which is better, and by how much, or how many items would tell.

The difference is the mean over items of the differences of the two accuracies, with Gaffke's interval; the verdict is
on which side of 0 the interval is. Where each side has one sample of an item this is McNemar's exact test: if b items
are right with the first alone and c with the second alone, the lower end is above 0 where P(Bin(b + c, 1/2) >= b) is
below half the level. The exact two-sided p of that test is given, too.

    better, worse            at a level of 0.05
    not distinguishable      with the number of items at which differences as large would be seen four times in five:
                             n = ((z_.975 sqrt(s) + z_.8 sqrt(s - d^2)) / d)^2, s the share that differs, d by how much
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import NormalDist
from typing import Any, NamedTuple

import torch

from unmask.core.errors import UnmaskError
from unmask.core.estimates import Estimate, bounded_mean
from unmask.tasks.sample import Sample

LEVEL = 0.05
POWER = 0.8


class Comparison(NamedTuple):
    items: int
    first: float  # accuracies on them
    second: float
    difference: Estimate  # of the first above the second
    first_alone: int  # items on which the first alone was right; with several samples, more often right
    second_alone: int
    p: float | None  # None where an item has several samples
    verdict: str
    enough: int | None  # items that would decide, more than these; None where that is not known

    def to_dict(self) -> dict[str, Any]:
        return self._asdict() | {"difference": self.difference.to_dict()}

    def sentence(self, first: str, second: str, unit: str = "items") -> str:
        by = f"{self.difference.value:+.1%} [{self.difference.low:+.1%}, {self.difference.high:+.1%}]"
        if self.verdict != "not distinguishable":
            return f"{first} is {self.verdict} than {second}: {by} on {self.items} {unit}"
        more = "" if self.enough is None else f"; about {self.enough} {unit} would decide"
        return f"{first} and {second} are not distinguishable in {self.items} {unit}: {by}{more}"


def compare(first: Sequence[Sample], second: Sequence[Sample]) -> Comparison:
    """On the items that both have; those of one side alone say nothing."""
    one, other = _shares(first), _shares(second)
    common = [name for name in one if name in other]
    if not common:
        raise UnmaskError("they have no items in common; compare evaluations of the same task")
    return compare_shares([(one[name], other[name]) for name in common])


def compare_shares(pairs: Sequence[tuple[float, float]]) -> Comparison:
    """Of pairs of accuracies, an item each: all 0 or 1 where each side has one sample of it."""
    n = len(pairs)
    differences = torch.tensor([a - b for a, b in pairs], dtype=torch.float64)
    ahead, behind = int((differences > 0).sum()), int((differences < 0).sum())
    single = all(accuracy in (0.0, 1.0) for pair in pairs for accuracy in pair)
    p = mcnemar(ahead, behind) if single else None
    difference = bounded_mean(differences, (-1.0, 1.0), 1 - LEVEL)
    decided = difference.low > 0 or difference.high < 0
    verdict = "not distinguishable" if not decided else "better" if difference.value > 0 else "worse"
    a, b = (sum(pair[side] for pair in pairs) / n for side in (0, 1))
    spread = float((differences**2).mean())
    wanted = None if decided else _enough(spread, float(differences.mean()))
    enough = wanted if wanted and wanted > n else None  # the exact intervals are wider than the formula knows
    return Comparison(n, a, b, difference, ahead, behind, p, verdict, enough)


def mcnemar(b: int, c: int) -> float:
    """The exact two-sided p."""
    from scipy.special import bdtr

    return min(2 * float(bdtr(min(b, c), b + c, 0.5)), 1.0) if b + c else 1.0


def _enough(spread: float, difference: float) -> int | None:
    """None where there is no difference to be seen."""
    if difference == 0:
        return None
    alpha, beta = NormalDist().inv_cdf(1 - LEVEL / 2), NormalDist().inv_cdf(POWER)
    rest = max(spread - difference**2, 0.0)
    return math.ceil(((alpha * math.sqrt(spread) + beta * math.sqrt(rest)) / difference) ** 2)


def _shares(samples: Sequence[Sample]) -> dict[str, float]:
    """Each item's share of right samples."""
    found: dict[str, list[bool]] = {}
    for sample in samples:
        if sample.right is None:
            why = f": {sample.why}" if sample.why else ""
            raise UnmaskError(f"item {sample.item} has no verdict{why}; nothing can be compared")
        found.setdefault(sample.item, []).append(sample.right)
    return {name: sum(own) / len(own) for name, own in found.items()}
