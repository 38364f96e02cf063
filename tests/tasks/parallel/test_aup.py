"""AUP of d3LLM: published values, the rule of 5 percentage points, and the interval of resampled items."""

from __future__ import annotations

import pytest
import torch

from unmask.core.errors import UnmaskError
from unmask.tasks.parallel.aup import aup, of_items


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


def test_interval_from_resamples_is_their_quantiles():
    scores = torch.tensor([[70.0, 68.0]] + [[70.0 + shift, 68.0 + shift] for shift in range(-5, 6)])
    speeds = torch.tensor([[1.0, 4.0]]).expand_as(scores)
    interval = of_items(speeds, scores, 75).interval
    assert interval is not None
    low, high = (aup([(1, 70 + shift), (4, 68 + shift)], 75).value for shift in (-5, 5))
    assert low < interval.low < interval.value < interval.high < high
