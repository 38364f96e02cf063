"""The metric of lemmas: what one says, held against the truth of many small cases, by enumeration or in closed form.

    lemma    cases, violations among them, and tightest: the truth nearest to its bound, as a share of it

What is checked stands in appendix_b.py and appendix_c.py.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from unmask.core.errors import unknown
from unmask.experiments.measures import appendix_b, appendix_c
from unmask.experiments.measures.catalogue import Arguments, Record, metric
from unmask.experiments.measures.checks import CHECKS
from unmask.experiments.measures.sources import record

if TYPE_CHECKING:
    from unmask.theory.statements import Statement

APPENDICES = (appendix_b, appendix_c)  # which fill CHECKS
SLACK = 1e-9  # rounding, of what is allowed
LEAST = 1e-6  # of a bound, below which its share is rounding


def _known(cells: Sequence[Arguments]) -> None:
    for cell in cells:
        if cell["lemma"] not in CHECKS:
            raise unknown("lemma", cell["lemma"], CHECKS)


@metric("lemma", check=_known)
def lemma(*, lemma: str, cases: int = 200, seed: int = 0) -> list[Record]:
    """How many cases there were, how many were otherwise, and how near the truth came to what is said."""
    import numpy as np

    from unmask.core.estimates import exactly

    count = violations = 0
    tightest = 0.0
    for truth, said in CHECKS[lemma](cases, np.random.default_rng(seed)):
        count += 1
        violations += not said.allows(truth, SLACK)
        tightest = max(tightest, _share(truth, said))
    found = {"cases": float(count), "violations": float(violations), "tightest": tightest}
    return [record(name, exactly(value, "exact: counted"), None) for name, value in found.items()]


def _share(truth: float, said: Statement) -> float:
    """Of an upper bound truth / bound, of a lower one the other way round; 1 is the bound itself."""
    small, large = (truth, said.value) if said.kind != "lower" else (said.value, truth)
    return small / large if large > LEAST and math.isfinite(large) else 0.0
