"""The schedule optimal-ser against a grid of all schedules, and against the others; where it is not known."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from unmask.core.errors import UnmaskError
from unmask.languages import Interval, NGram, load, random_ngram
from unmask.samplers.schedules import Fit, deltas
from unmask.theory import known
from unmask.theory.partitions import partitions

AWAY = NGram(3, [0.5, 0.25, 0.25, 0], [[1, 0], [0, 1], [0, 1], [0, 1]])


def test_the_least_ser_is_the_least_of_a_grid():
    """fewest-pairs is not: of this 3-gram in two steps linear and optimal have less."""
    every, fit = partitions(AWAY, 4), Fit(AWAY, 4)
    found = {name: every.ser(deltas(name, 2, fit)) for name in ("linear", "optimal", "fewest-pairs", "optimal-ser")}
    rounded = {name: round(ser, 5) for name, ser in found.items()}
    assert rounded == {"linear": 0.40039, "optimal": 0.39693, "fewest-pairs": 0.40414, "optimal-ser": 0.39613}
    grid = [every.ser(torch.tensor([p, 1 - p], dtype=torch.float64)) for p in np.linspace(0, 1, 401)]
    assert found["optimal-ser"] <= min(grid) + 1e-12
    three = every.ser(deltas("optimal-ser", 3, fit))
    shares = [(a, b, 1 - a - b) for a in np.linspace(0, 1, 41) for b in np.linspace(0, 1 - a, 41)]
    assert three <= min(every.ser(torch.tensor(share, dtype=torch.float64)) for share in shares) + 1e-12


@pytest.mark.parametrize("seed", range(4))
def test_the_least_ser_is_no_more_than_that_of_any_other(seed):
    """Of chains, by the recursion on gaps; of intervals linear."""
    chain, length, steps = random_ngram(2, 3, 2.0, 0.15, seed=seed), 9, 3
    fit = Fit(chain, length)

    def ser(name):
        return known.exact(chain, length, deltas(name, steps, fit)).ser

    least = ser("optimal-ser")
    assert all(least <= ser(name) + 1e-12 for name in ("linear", "cosine", "optimal", "fewest-pairs"))
    assert deltas("optimal-ser", 4, Fit(Interval(5), 30)).tolist() == [0.25] * 4


@pytest.mark.parametrize(
    ("fit", "message"),
    [
        (Fit(load("sparse-hmm"), 64), "SER of hmm at length 64 in 8 steps has no exact value"),
        (Fit(AWAY, 4, fixed_size=True), "Use fewest-pairs for fixed sizes"),
    ],
)
def test_where_the_least_ser_is_not_known(fit, message):
    with pytest.raises(UnmaskError, match=message):
        deltas("optimal-ser", 8, fit)
