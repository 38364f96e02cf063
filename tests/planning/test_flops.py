"""The cost model against counts by hand, and against the figures of theory.md 9 and 1."""

from __future__ import annotations

from itertools import product

import pytest

from unmask.models.trained.shape import Shape
from unmask.planning.flops import autoregression, break_even, evaluation, model_calls
from unmask.samplers.schedules import deltas


@pytest.mark.parametrize(
    ("shape", "length", "ratio"),
    [
        (Shape("mdm", 8, 512), 512, 1.08),
        (Shape("mdm", 50257, 1024, 768, 12, 12), 1024, 1.07),
        (Shape("mdm", 128256, 4096, 4096, 32, 32), 256, 1.005),
    ],
    ids=["paper", "GPT-2 small", "8B"],
)
def test_one_evaluation_costs_a_little_more_than_autoregression(shape, length, ratio):
    assert 1 / break_even(shape, length) == pytest.approx(ratio, abs=0.006)
    assert 0.5 < break_even(shape, length) < 1


def test_autoregression_is_a_sum_over_tokens():
    v, d, n, length = 7, 6, 3, 5
    matrices = sum(n * (4 * 2 * d * d + 2 * 2 * d * 4 * d) + 2 * d * v for _ in range(length))
    attention = sum(n * 2 * 2 * d * seen for seen in range(1, length + 1))
    shape = Shape("ar", v, length, d, n, heads=1)
    assert autoregression(shape, length) == matrices + attention
    assert evaluation(shape, length) == matrices + n * 2 * 2 * d * length * length


@pytest.mark.parametrize("batch", [1, 2])
def test_evaluations_are_rounds_that_reveal_something(batch):
    delta, length = deltas([0.2, 0.0, 0.5, 0.3]), 3
    expected = 0.0
    for labels in product(range(4), repeat=length * batch):
        chance = 1.0
        for k in labels:
            chance *= float(delta[k])
        expected += chance * len(set(labels))
    assert model_calls(delta, length, batch) == pytest.approx(expected, abs=1e-12)


def test_the_clock_of_the_poster():
    """512 steps at three lengths took 3.1, 4.2, 4.7 s: what theory.md 1 makes of it."""
    found = [model_calls(deltas("linear", 512), length) for length in (512, 1024, 2048)]
    assert [round(count) for count in found] == [324, 443, 503]
