"""Two settings on the same items: which is better, by how much, or how many items would decide.

The difference is the mean over items of the differences of the two accuracies, with Gaffke's interval. The verdict is
the side of 0 of the interval. With one sample per item this is McNemar's exact test. If b items are right only with the
first setting and c only with the second, the lower end is above 0 if P(Bin(b + c, 1/2) >= b) is below half the level.
The exact two-sided p of that test is reported, too.

    better, worse            at a level of 0.05
    not distinguishable      with the number of items for a power of 0.8 at the measured difference:
                             n = ((z_.975 sqrt(s) + z_.8 sqrt(s - d^2)) / d)^2, d: difference, s: fraction that differs
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch

from unmask.core.errors import UnmaskError
from unmask.core.estimates import Estimate, bounded_mean
from unmask.core.search import sample_size
from unmask.tasks.sample import Sample

LEVEL = 0.05


class Comparison(NamedTuple):
    items: int
    first: float  # accuracies on these items
    second: float
    difference: Estimate  # first minus second
    first_alone: int  # items right only with the first; with several samples, right more often
    second_alone: int
    p: float | None  # None if an item has several samples
    verdict: str
    enough: int | None  # larger number of items that would decide; None if unknown

    def to_dict(self) -> dict[str, Any]:
        return self._asdict() | {"difference": self.difference.to_dict()}

    def sentence(self, first: str, second: str, unit: str = "items") -> str:
        by = self.difference.points
        if self.verdict != "not distinguishable":
            return f"{first} is {self.verdict} than {second}: {by} on {self.items} {unit}"
        more = "" if self.enough is None else f"; about {self.enough} {unit} would decide"
        return f"{first} and {second} are not distinguishable in {self.items} {unit}: {by}{more}"


def compare(first: Sequence[Sample], second: Sequence[Sample]) -> Comparison:
    """Compare the common items; other items do not count."""
    one, other = _fractions(first), _fractions(second)
    common = [name for name in one if name in other]
    if not common:
        raise UnmaskError("they have no items in common; compare results of the same task")
    return compare_shares([(one[name], other[name]) for name in common])


def compare_shares(pairs: Sequence[tuple[float, float]]) -> Comparison:
    """Compare pairs of accuracies, one pair per item: all 0 or 1 if each side has one sample of it."""
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
    needed = None if decided else sample_size(spread, float(differences.mean()), LEVEL)
    enough = needed if needed and needed > n else None  # exact intervals are wider than in the formula
    return Comparison(n, a, b, difference, ahead, behind, p, verdict, enough)


def mcnemar(b: int, c: int) -> float:
    """The exact two-sided p."""
    from scipy.special import bdtr

    return min(2 * float(bdtr(min(b, c), b + c, 0.5)), 1.0) if b + c else 1.0


def _fractions(samples: Sequence[Sample]) -> dict[str, float]:
    """The fraction of right samples of each item."""
    verdicts: dict[str, list[bool]] = {}
    for sample in samples:
        if sample.right is None and sample.answered:
            why = f": {sample.why}" if sample.why else ""
            raise UnmaskError(f"item {sample.item} has no verdict{why}; nothing can be compared")
        verdicts.setdefault(sample.item, []).append(bool(sample.right))
    return {name: sum(own) / len(own) for name, own in verdicts.items()}
