"""Isotonic regression: a measured curve made as monotone as the true one is known to be (theory.md 8)."""

from __future__ import annotations

import numpy as np
from numba import njit

from unmask.exact.machine import Floats


def non_increasing(values: Floats, weights: Floats | None = None) -> Floats:
    """The closest non-increasing sequence in weighted squares: neighbours that rise are pooled (PAVA)."""
    values = np.ascontiguousarray(values, np.float64)
    return np.asarray(_pool(values, np.ones(len(values)) if weights is None else weights))


@njit(cache=True, nogil=True)
def _pool(values, weights):  # type: ignore[no-untyped-def]
    means, masses, ends = np.empty(len(values)), np.empty(len(values)), np.empty(len(values), np.int64)
    pools = 0
    for i in range(len(values)):
        means[pools], masses[pools], ends[pools] = values[i], weights[i], i + 1
        pools += 1
        while pools > 1 and means[pools - 2] < means[pools - 1]:
            mass = masses[pools - 2] + masses[pools - 1]
            means[pools - 2] = (means[pools - 2] * masses[pools - 2] + means[pools - 1] * masses[pools - 1]) / mass
            masses[pools - 2], ends[pools - 2] = mass, ends[pools - 1]
            pools -= 1
    out, begin = np.empty(len(values)), 0
    for pool in range(pools):
        out[begin : ends[pool]] = means[pool]
        begin = ends[pool]
    return out
