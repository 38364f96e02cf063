"""Sampling error and learning error: a planted learning error is told from what the schedule does.

The seeds are fixed; a bound of five standard errors raises a false alarm in 10^6.
"""

from __future__ import annotations

import math

import pytest

from unmask import languages, metrics
from unmask.denoisers import Ideal, Perturbed
from unmask.diagnosis.learning import blame, blame_ar, of_language
from unmask.samplers.schedules import deltas
from unmask.theory.known import curve
from unmask.theory.sampled import information_curve

LANGUAGE, LENGTH, STEPS = languages.load("paper-2gram"), 24, (4, 24)


def test_the_exact_denoiser_learns_nothing_and_the_schedule_has_all_the_blame():
    denoiser = Ideal(LANGUAGE)
    learning = of_language(denoiser, LANGUAGE, LENGTH, rows=20)
    for found, steps in zip(
        blame(denoiser, LANGUAGE, LENGTH, "linear", STEPS, learning=learning, rows=200), STEPS, strict=True
    ):
        assert found.steps == steps
        assert found.ser == found.ser_sampling
        assert found.ser_learning.value == 0
        assert found.ser_learning.low < 0 < found.ser_learning.high < 0.02  # no row of 200 has said more
        assert found.ter_learning.value == pytest.approx(1, abs=1e-9)
        nats = curve(LANGUAGE, LENGTH).divergence(deltas("linear", steps)).value
        assert found.ter_sampling.value == pytest.approx(math.exp(nats / LENGTH))


def test_a_planted_error_is_learning():
    epsilon = 0.02
    planted = Perturbed(LANGUAGE, "leak", epsilon)
    learning = of_language(planted, LANGUAGE, LENGTH, rows=20)
    for found in blame(planted, LANGUAGE, LENGTH, "linear", STEPS, learning=learning, rows=2000):
        assert found.ter_learning.value == pytest.approx(math.exp(epsilon), rel=1e-6)
        assert found.ser.value == pytest.approx(found.ser_sampling.value + found.ser_learning.value)
        assert found.ser_learning.low > 0
        bound = information_curve(LANGUAGE, LENGTH, rows=200, denoiser=planted).ter_upper("linear", found.steps)
        own = metrics.ter_autoregressive(LANGUAGE, LENGTH).value
        product = own * found.ter_sampling.value * found.ter_learning.value
        assert abs(product - bound.value) < 5 * (bound.high - bound.low) / 3.92


def test_all_that_an_ar_model_does_wrong_it_has_not_learned():
    epsilon = 0.02
    planted = Perturbed(LANGUAGE, "leak", epsilon)
    learning = of_language(planted, LANGUAGE, LENGTH, rows=20, causal=True)
    found = blame_ar(planted, LANGUAGE, LENGTH, learning=learning, rows=500)
    assert (found.steps, found.model_calls) == (None, LENGTH)
    assert found.ser_sampling.value == 0
    assert found.ser == found.ser_learning
    assert found.ser.low > 0
    assert found.ter_learning.value == pytest.approx(math.exp(epsilon), rel=1e-6)
