"""The crossover of masked diffusion and AR: its limit, its inverse, and where there is none."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unmask import UnmaskError
from unmask.languages import load
from unmask.samplers.schedules import deltas
from unmask.theory import correctness
from unmask.theory.known import error_curve


@pytest.mark.parametrize("ser", [0.1, 0.5, 0.9])
def test_the_crossover_law_is_the_limit(ser):
    """Of the interval language, whose SER is known for any L and N: model calls until it is at most this, over L."""
    interval, length = load("interval-5"), 51_000
    form = interval.closed_form
    constant = error_curve(interval, 510).constant.value / 510
    assert constant == pytest.approx(1.0, abs=0.01)  # (l-1)/4
    steps = round(length / -math.log1p(-ser))
    reached = form.ser(length, deltas("linear", steps))
    model_calls = steps * -math.expm1(length * math.log1p(-1 / steps))
    assert model_calls / length == pytest.approx(
        correctness.model_calls_per_token(1.0, reached), rel=0.05 * ser + 0.005
    )


@given(st.floats(1e-6, 1 - 1e-6), st.floats(1e-3, 10))
@settings(derandomize=True, deadline=None)
def test_both_take_as_long_where_they_cross(ratio, constant):
    x = correctness.crossing(ratio)
    assert correctness.calls_per_token(x) == pytest.approx(ratio, rel=1e-9)
    ser = correctness.ser_at(constant, ratio)
    if 1e-9 < ser < 1 - 1e-9:
        assert correctness.model_calls_per_token(constant, ser) == pytest.approx(ratio, rel=1e-5)


def test_where_there_is_no_crossing():
    assert correctness.ser_at(0.1, 1.0) == 0.0
    assert correctness.ser_at(0.0, 0.5) == 0.0
    for wrong in (0.0, 1.0):
        with pytest.raises(UnmaskError, match="ser is"):
            correctness.model_calls_per_token(1.0, wrong)
    with pytest.raises(UnmaskError, match=r"ratio is 1\.5"):
        correctness.crossing(1.5)
    with pytest.raises(UnmaskError, match="constant is -1"):
        correctness.ser_at(-1, 0.5)
