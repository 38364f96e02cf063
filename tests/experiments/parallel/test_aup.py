"""AUP of d3LLM: published values, the rule of 5 percentage points, and intervals by simulation."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from unmask.core.errors import UnmaskError
from unmask.experiments.parallel import aup as aup_module
from unmask.experiments.parallel.aup import TOLERANCE, aup, of_accuracies, of_items
from unmask.experiments.parallel.published.d3llm import rows


@pytest.mark.parametrize(
    ("points", "best", "expected"),
    [
        ([(1, 74.02), (9.11, 73.09)], 74.98, 637.7),
        ([(1, 74.02), (9.11, 73.09)], 90.3, 416.1),
        ([(9, 73), (1, 74)], 74.98, 628.4),
        ([(1, 74), (5, 70), (9, 73)], 74.98, 580.6),  # another point lowers the area
        ([(2, 50)], 80, 100),  # the first part has no weight
    ],
)
def test_values(points, best, expected):
    assert aup(points, best).value == pytest.approx(expected, abs=0.05)


def test_points_far_below_the_first_are_dropped():
    kept = aup([(1, 80), (3, 75), (4, 78)], 80)
    assert kept.dropped == ()
    assert kept.value == pytest.approx(289.4478)  # 5 points below is not more than 5
    dropped = aup([(1, 80), (3, 74.9), (4, 78)], 80)
    assert dropped.dropped == ((3, 74.9),)
    assert dropped.value == aup([(1, 80), (4, 78)], 80).value
    with pytest.raises(UnmaskError, match=r"falls from 80% to 74.9%.*allows 5 percentage points"):
        aup([(1, 80), (4, 74.9)], 80)


def test_published_methods():
    """The tables of d3LLM: y_max is the best accuracy of any method, and chance decides about one point."""
    every = {(row.family, row.task, row.method): row for row in rows()}
    best = every["llada", "gsm8k", "d3LLM"]
    assert best.aup.value == pytest.approx(637.7, abs=0.05)
    assert (best.best, best.aup.best) == ("D2F", 74.98)
    near = every["dream", "gsm8k", "Fast-dLLM"].aup
    assert near.dropped == ()
    assert near.drops is not None
    assert 0.3 < near.drops < 0.5  # the distance to the rule is 0.2 standard errors of the difference
    assert every["dream", "math", "d3LLM"].aup.interval is None


TRUE = ((1.0, 70.0), (3.0, 69.5), (6.0, 69.0))
STEEP = ((1.0, 40.0), (2.0, 39.0), (6.0, 37.0))


@pytest.mark.rotates(4)
@pytest.mark.parametrize(
    ("true", "items", "shared"),
    [(TRUE, 3000, False), (TRUE, 3000, True), (STEEP, 1000, False), (STEEP, 1000, True)],
)
def test_coverage_from_accuracies(true, items, shared, monkeypatch):
    """At both extremes: fewer than 93 of 100 at a level of 97% have probability 1%, of a fixed seed.

    The interval of one extreme alone, the wider one, contains 88% on the steep curve.
    """
    monkeypatch.setattr(aup_module, "DRAWS", 200)
    random = np.random.default_rng(0)
    best = max(y for _, y in true) + 5
    truth = aup(true, best).value
    inside = made = 0
    while made < 100:
        ranks = random.random(items) if shared else random.random((len(true), items))
        right = ranks < np.array([[y / 100] for _, y in true])
        measured = [(r, 100 * float(own.mean())) for (r, _), own in zip(true, right, strict=True)]
        if measured[-1][1] < measured[0][1] - TOLERANCE:
            continue  # AUP refuses it
        interval = of_accuracies(measured, best, items).interval
        assert interval is not None
        inside += interval.low <= truth <= interval.high
        made += 1
    assert inside >= 93


def test_interval_from_resamples_is_their_quantiles():
    scores = torch.tensor([[70.0, 68.0]] + [[70.0 + shift, 68.0 + shift] for shift in range(-5, 6)])
    speeds = torch.tensor([[1.0, 4.0]]).expand_as(scores)
    interval = of_items(speeds, scores, 75).interval
    assert interval is not None
    low, high = (aup([(1, 70 + shift), (4, 68 + shift)], 75).value for shift in (-5, 5))
    assert low < interval.low < interval.value < interval.high < high
