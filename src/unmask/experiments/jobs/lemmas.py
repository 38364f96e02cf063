"""The job of lemmas: each lemma is compared with many small cases, by enumeration or in closed form.

    lemma    cases, violations, and tightest: the truth closest to its bound, as a fraction of it

appendix.py has the checks.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from unmask.core.errors import unknown
from unmask.experiments.jobs.catalogue import JOBS, Job, Record
from unmask.experiments.jobs.sources import record

if TYPE_CHECKING:
    from unmask.experiments.jobs.appendix import Check
    from unmask.theory.statements import Statement

SLACK = 1e-9  # allowed rounding error
LEAST = 1e-6  # smaller bounds are rounding errors


def _checks() -> Mapping[str, Check]:
    """All checks by name, imported late: they need torch and scipy."""
    from unmask.experiments.jobs.appendix import CHECKS

    return CHECKS


@JOBS.register("lemma")
@dataclass(frozen=True, kw_only=True)
class Lemma(Job):
    """Check a lemma on random small cases: number of cases, violations, and tightness."""

    lemma: str
    cases: int = 200
    seed: int = 0

    def check(self) -> None:
        if self.lemma not in _checks():
            raise unknown("lemma", self.lemma, _checks())

    def measure(self) -> list[Record]:
        import numpy as np

        from unmask.core.estimates import exactly

        count = violations = 0
        tightest = 0.0
        for truth, bound in _checks()[self.lemma](self.cases, np.random.default_rng(self.seed)):
            count += 1
            violations += not bound.allows(truth, SLACK)
            tightest = max(tightest, _fraction(truth, bound))
        counted = {"cases": float(count), "violations": float(violations), "tightest": tightest}
        return [record(name, exactly(value, "exact: counted"), None) for name, value in counted.items()]


def _fraction(truth: float, bound: Statement) -> float:
    """truth / bound for an upper bound, bound / truth for a lower one; 1 is equality."""
    small, large = (truth, bound.value) if bound.kind != "lower" else (bound.value, truth)
    return small / large if large > LEAST and math.isfinite(large) else 0.0
