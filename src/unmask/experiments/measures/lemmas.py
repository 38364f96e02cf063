"""The metric of lemmas: each compared with the truth of many small cases, by enumeration or in closed form.

    lemma    cases, violations among them, and tightest: the truth closest to its bound, as a fraction of it

appendix_b.py and appendix_c.py have the checks.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING

from unmask.core.errors import unknown
from unmask.experiments.measures.catalogue import Arguments, Record, metric
from unmask.experiments.measures.sources import record

if TYPE_CHECKING:
    from unmask.experiments.measures.checks import Check
    from unmask.theory.statements import Statement

SLACK = 1e-9  # rounding that is allowed
LEAST = 1e-6  # below this fraction of a bound, the rest is rounding


def _checks() -> Mapping[str, Check]:
    """All checks by name; they import torch and scipy, so only when a lemma is measured."""
    for appendix in ("appendix_b", "appendix_c"):
        import_module(f"unmask.experiments.measures.{appendix}")
    from unmask.experiments.measures.checks import CHECKS

    return CHECKS


def _known(cells: Sequence[Arguments]) -> None:
    for cell in cells:
        if cell["lemma"] not in _checks():
            raise unknown("lemma", cell["lemma"], _checks())


@metric("lemma", check=_known)
def lemma(*, lemma: str, cases: int = 200, seed: int = 0) -> list[Record]:
    """Checks a lemma on random small cases: number of cases, violations, and tightness."""
    import numpy as np

    from unmask.core.estimates import exactly

    count = violations = 0
    tightest = 0.0
    for truth, bound in _checks()[lemma](cases, np.random.default_rng(seed)):
        count += 1
        violations += not bound.allows(truth, SLACK)
        tightest = max(tightest, _fraction(truth, bound))
    found = {"cases": float(count), "violations": float(violations), "tightest": tightest}
    return [record(name, exactly(value, "exact: counted"), None) for name, value in found.items()]


def _fraction(truth: float, bound: Statement) -> float:
    """truth / bound for an upper bound, bound / truth for a lower one; 1 is equality."""
    small, large = (truth, bound.value) if bound.kind != "lower" else (bound.value, truth)
    return small / large if large > LEAST and math.isfinite(large) else 0.0
