"""Exact tests of counts, by simulation: two samples of one distribution, or one sample of a known one.

With the statistic G = 2 sum O log(O / E) of observed and expected counts, and M draws G* under the hypothesis,

    p = (1 + #{G* >= G}) / (1 + M)    is an exact p-value (Besag & Clifford 1989), however small the counts are.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

DRAWS = 9_999
Counts = Mapping[str, int]
Array = NDArray[np.float64]


def two_samples(first: Counts, second: Counts) -> float:
    """p-value of two samples under one distribution; given all counts, the first is multivariate hypergeometric."""
    names = sorted({*first, *second})
    a = np.array([first.get(name, 0) for name in names])
    b = np.array([second.get(name, 0) for name in names])
    if len(names) < 2 or not a.sum() or not b.sum():
        return 1.0

    drawn = np.random.default_rng(0).multivariate_hypergeometric(a + b, int(a.sum()), size=DRAWS)
    means = (a + b) * a.sum() / (a.sum() + b.sum()), (a + b) * b.sum() / (a.sum() + b.sum())
    return _p(_g(drawn, means[0]) + _g(a + b - drawn, means[1]), float(_g(a, means[0]) + _g(b, means[1])))


def one_sample(counts: Counts, probabilities: Mapping[str, float]) -> float:
    """p-value of counts under a distribution; the rest of the probability is one more category."""
    known = [counts.get(name, 0) for name in probabilities]
    observed = np.array([*known, sum(counts.values()) - sum(known)])
    odds = np.array([*probabilities.values(), max(1 - sum(probabilities.values()), 0.0)])
    odds = odds / odds.sum()
    if observed[odds == 0].any():
        return 0.0

    drawn = np.random.default_rng(0).multinomial(int(observed.sum()), odds, size=DRAWS)
    means = observed.sum() * odds
    return _p(_g(drawn, means), float(_g(observed, means)))


def _g(counts: NDArray[np.int64], means: Array) -> Array:
    """G of each row (.., K); an empty cell adds 0."""
    ratio = np.where(counts > 0, counts / np.where(means > 0, means, 1.0), 1.0)
    return np.asarray(2 * np.sum(counts * np.log(ratio), axis=-1), np.float64)


def _p(drawn: Array, value: float) -> float:
    return float((1 + (drawn >= value - 1e-9).sum()) / (1 + DRAWS))
