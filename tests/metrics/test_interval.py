"""The interval language in closed form, against enumeration, the theory's table, and sampling.

Sampled means have fixed seeds and are compared within 4 or 5 standard errors: false alarms below 1e-4 each.
"""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import torch

from tests.brute import distribution, sequences
from unmask import generate
from unmask.core.chance import Randomness
from unmask.denoisers import Ideal
from unmask.languages import Interval
from unmask.languages.closed_form import agreement
from unmask.metrics import output_distribution, score, ter
from unmask.samplers.rules.fixed_orders import Ancestral
from unmask.samplers.schedules import deltas

ENUMERATED = [(2, length) for length in range(1, 7)] + [(3, length) for length in range(1, 6)] + [(4, 3), (4, 4)]
UNEVEN = [("linear", 1), ("linear", 3), ("cosine", 4), ([0.2, 0.0, 0.8], None)]


def pairs(order, width):
    """How many pairs of one interval share a step, by looking at every pair; 0 stands for a given position."""
    couples = itertools.combinations(range(len(order)), 2)
    return sum(order[a] == order[b] > 0 and a // width == b // width for a, b in couples)


@pytest.mark.parametrize("places", [1, 2, 3, 5])
@pytest.mark.parametrize(("schedule", "steps"), UNEVEN)
def test_agreement_is_the_mean_over_all_labels(places, schedule, steps):
    delta = deltas(schedule, steps).numpy()
    labels = sequences(len(delta), places)
    expected = delta[labels].prod(1) @ [2.0 ** -pairs(row, places) for row in (labels + 1).tolist()]
    assert agreement(places, torch.from_numpy(delta)) == pytest.approx(float(expected), abs=1e-12)


@pytest.mark.sampled(4)
@pytest.mark.parametrize(("width", "length"), ENUMERATED)
@pytest.mark.parametrize(("schedule", "steps"), UNEVEN)
def test_ser_ter_and_divergence_are_those_of_the_enumerated_law(width, length, schedule, steps):
    """On its support p is (1 - SER) q, and so KL(q || p) = -log(1 - SER)."""
    language, delta = Interval(width), deltas(schedule, steps)
    q, p = distribution(language, length), output_distribution(Ideal(language), length, delta).numpy()
    q, p = q[q > 0], p[q > 0]
    ser = language.closed_form.ser(length, delta)
    assert ser == pytest.approx(1 - p.sum(), abs=1e-12)
    assert p.tolist() == pytest.approx(((1 - ser) * q).tolist(), rel=1e-10)
    assert float(q @ np.log(q / p)) == pytest.approx(-math.log(1 - ser), abs=1e-10)
    expected = 2 ** float(-q @ np.log2(p) / length)
    assert ter(language, length, schedule, steps).value == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize(
    ("length", "steps"),
    [(5, 8), (10, 15), (20, 30), (50, 73), (100, 145), (200, 290), (510, 737), (1000, 1444), (10**5, 144_271)],
)
def test_the_fewest_steps_with_an_error_rate_of_a_half(length, steps):
    """The table of theory.md 6 for l = 5: about 1.44 L."""
    language = Interval(5)
    assert language.closed_form.ser(length, deltas("linear", steps)) <= 0.5
    assert language.closed_form.ser(length, deltas("linear", steps - 1)) > 0.5


@pytest.mark.parametrize("length", [512, 10**5])
@pytest.mark.parametrize("steps", [1, 4, 64])
def test_fluency_is_finite_where_hardly_anything_is_valid(length, steps):
    """1 - SER may be below the smallest number; the bits a token that it costs are at most (l-1)/(2N) in any case."""
    language = Interval(5)
    ours = math.log2(ter(language, length, "linear", steps).value) - language.closed_form.bits(length) / length
    assert 0 < ours <= 2 / steps + 1e-9
    assert language.closed_form.ser(length, deltas("linear", steps)) == pytest.approx(1, abs=0.1)


@pytest.mark.parametrize("width", [2, 3, 5])
def test_rao_blackwell_counts_the_pairs_of_each_order(width):
    order = torch.randint(0, 5, (200, 11), generator=torch.Generator().manual_seed(width))
    expected = [1 - 2.0 ** -pairs(row, width) for row in order.tolist()]
    ours = Interval(width).closed_form.ser_of_orders(order)
    assert ours.value == pytest.approx(math.fsum(expected) / 200, abs=1e-12)
    assert ours.standard_error == pytest.approx(np.std(expected, ddof=1) / math.sqrt(200), rel=0.1)
    assert (ours.n, ours.method) == (200, "rao-blackwell")


@pytest.mark.parametrize(("schedule", "steps"), UNEVEN[1:])
@pytest.mark.parametrize(("width", "length"), [(2, 7), (3, 8), (5, 12)])
def test_rao_blackwell_is_unbiased_and_better_than_counting(width, length, schedule, steps):
    language, delta = Interval(width), deltas(schedule, steps)
    rows = 20_000
    rng = Randomness(3, torch.arange(rows))
    ours = language.closed_form.ser_of_orders(Ancestral().order(delta, torch.ones(rows, length, dtype=torch.bool), rng))
    ser = language.closed_form.ser(length, delta)
    assert abs(ours.value - ser) < 5 * ours.standard_error
    assert ours.standard_error < math.sqrt(ser * (1 - ser) / rows)


def test_sampled_sequences_have_the_exact_error_rate():
    language = Interval(5)
    made = generate(language, steps=737, length=510, rows=2000, seed=4)
    ser = language.closed_form.ser(510, deltas("linear", 737))
    ours = score(made, language)
    assert abs(ours.ser.value - ser) < 4 * math.sqrt(ser * (1 - ser) / 2000)
    assert abs(ours.ser_rao_blackwell.value - ser) < 4 * ours.ser_rao_blackwell.standard_error
