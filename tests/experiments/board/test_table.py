"""Interpolation, areas and paired differences against brute force."""

from __future__ import annotations

import math
from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from unmask.core.estimates import bounded_mean, proportion
from unmask.experiments.board.compare import area_weights, weighted
from unmask.experiments.board.curve import Point
from unmask.experiments.board.run import Measured
from unmask.experiments.board.settings import Settings
from unmask.experiments.board.table import crossing, need, of_curve


def scanned(model_calls, values, target):
    """The first e of a fine grid at which the interpolated values are at most the target."""
    fine = np.exp(np.linspace(math.log(model_calls[0]), math.log(model_calls[-1]), 5001))
    fine = np.sort(np.concatenate([fine, model_calls]))
    shifted = np.interp(np.log(fine), np.log(model_calls), np.log(np.array(values) + target))
    for i, (before, after) in enumerate(pairwise(values)):
        if before > 1.5 * target and after < before / 20:  # too steep to say what lies between
            shifted[(fine > model_calls[i]) & (fine < model_calls[i + 1])] = np.inf
    below = np.flatnonzero(shifted <= math.log(2 * target) + 1e-12)
    return fine[below[0]] if len(below) else None


@given(
    st.lists(st.tuples(st.integers(1, 50), st.integers(0, 20)), min_size=2, max_size=6),
    st.integers(1, 19),
)
def test_crossing_is_the_first_place_on_the_interpolated_curve(points, target):
    model_calls = np.cumsum([step for step, _ in points]).astype(float)
    values, target = [value / 20 for _, value in points], target / 20
    found, expected = crossing(list(model_calls), values, target), scanned(model_calls, values, target)
    assert (found is None) == (expected is None)
    if found is not None:
        assert found == pytest.approx(expected, rel=2e-3)


def test_a_power_law_is_interpolated_well():
    """c/e, between budgets that are four times apart; a straight line over log e would be further off."""
    points = [4.0, 16.0, 64.0, 256.0]
    values = [40 / e for e in points]
    for target in (0.3, 1.2, 4.0):
        ours = crossing(points, values, target)
        line = math.exp(np.interp(-target, [-v for v in values], np.log(points)))
        assert abs(ours * target / 40 - 1) < 0.13
        assert abs(ours * target / 40 - 1) < abs(line * target / 40 - 1)


def test_what_is_known_where_nothing_crosses():
    points = [4.0, 16.0]
    met = need(points, [proportion(0, 400), proportion(0, 400)], 0.1)
    assert (met.how, met.value, met.low, met.high) == ("at most", 4.0, None, 4.0)
    unsure = need(points, [proportion(0, 100), proportion(0, 100)], 0.01)  # none in 100 does not show 1%
    assert (unsure.how, unsure.high) == ("at most", None)
    missed = need(points, [proportion(90, 100), proportion(40, 100)], 0.1)
    assert (missed.how, missed.value, missed.high) == ("not reached", None, None)
    assert (missed.best, missed.at) == (0.4, 16.0)


def test_a_fall_from_nothing_to_everything_is_not_interpolated():
    points, estimates = [4.0, 5.0, 16.0], [proportion(k, 200) for k in (200, 0, 0)]
    found = need(points, estimates, 0.5)
    assert (found.how, found.value, found.low, found.high) == ("jump", 5.0, 4.0, 5.0)
    assert need(points, estimates, 0.01).high is None  # none in 200 does not show 1%


def test_the_interval_is_the_inverted_band():
    points, estimates = [4.0, 16.0, 64.0], [proportion(k, 200) for k in (190, 110, 10)]
    found = need(points, estimates, 0.5)
    assert found.how == "crossed"
    assert found.low < found.value < found.high
    for end in ("low", "value", "high"):
        assert getattr(found, end) == crossing(points, [getattr(e, end) for e in estimates], 0.5)


@given(st.lists(st.tuples(st.floats(0.5, 40), st.floats(0, 1)), min_size=1, max_size=6))
def test_the_area_by_numbers(points):
    length = 64
    model_calls = np.sort([e for e, _ in points])
    right = np.array([value for _, value in points])
    x = (np.arange(100_000) + 0.5) / 100_000
    places = np.clip(np.log2(model_calls) / 6, 0, 1)
    shown = np.searchsorted(places, x, side="right") - 1  # the dearest that costs no more
    coming = np.minimum(np.searchsorted(places, x), len(places) - 1)  # the next one, or the last
    for early, at in ((False, np.where(shown < 0, 0.0, right[shown])), (True, right[coming])):
        weights = area_weights(list(model_calls), length, early)
        assert sum(weights) == pytest.approx(1 if early else 1 - places[0])
        assert float(np.dot(weights, right)) == pytest.approx(float(at.mean()), abs=1e-4 * len(points))


def test_areas_that_are_known():
    assert area_weights([64.0], 64) == [0.0]  # AR has no parallelism
    assert area_weights([1.0], 64) == [1.0]
    assert area_weights([8.0], 64) == [0.5]  # right with the square root of L: half of the way
    assert area_weights([200.0], 64) == [0.0]  # dearer than AR is worth no more


@pytest.mark.parametrize("before", [[], [1.0], [1.0, 1.5], [1.0, 1.2, 1.9]])
def test_the_area_does_not_depend_on_what_else_was_measured(before):
    """Right from 2 model calls on, and wrong before; and right at L alone: whatever stands on the grid besides."""
    wrong = [point(e, [[1, 1]], 128) for e in before]
    early = accuracy([*wrong, point(2.0, [[0, 0]], 128), point(64.0, [[0, 0]], 128)])
    assert early["value"] == pytest.approx(6 / 7)
    assert early["most"] >= early["value"]
    points = [*wrong, point(2.0, [[1, 1]], 128), point(128.0, [[0, 0]], 128)]
    assert accuracy(points)["value"] == pytest.approx(0)
    assert accuracy(points)["most"] == pytest.approx(6 / 7)  # nothing is known between 2 and 128
    more = accuracy([*points, *(point(e, [[1, 1]], 128) for e in (32.0, 127.0))])
    assert more["most"] == pytest.approx(1 - math.log2(127) / 7)


def point(model_calls, wrong, length=64):
    seeds = [torch.tensor(rows).double() for rows in wrong]
    values = [{"ser": rows, "model_calls": torch.full((len(rows),), model_calls)} for rows in seeds]
    about = {"divergence": torch.zeros(0), "unbounded": "why"}
    return Point(None, [SimpleNamespace(values=own, **about) for own in values], length)


def measured(points):
    return Measured("", points[0].length, None, sorted(points, key=lambda one: one.model_calls))


def accuracy(points):
    found = of_curve(measured(points), Settings(), None)
    return next(r for r in found if r["measure"] == "accuracy_under_parallelism")


def test_a_curve_row_by_row():
    points = [point(8.0, [[1, 1, 0], [1, 0, 0]]), point(2.0, [[1, 1, 1], [1, 1, 0]])]
    low, high = area_weights([2.0, 8.0], 64)
    rows = [high * (1 - b) + low * (1 - a) for a, b in zip([1, 1, 1, 1, 1, 0], [1, 1, 0, 1, 0, 0], strict=True)]
    assert weighted([low, high], measured(points).right).tolist() == pytest.approx(rows)
    found = accuracy(points)
    assert found["value"] == pytest.approx(low * 1 / 6 + high * 3 / 6)
    assert found["by_seed"] == pytest.approx([sum(rows[:3]) / 3, sum(rows[3:]) / 3])
    assert found["low"] == bounded_mean(torch.tensor(rows, dtype=torch.float64)).low
