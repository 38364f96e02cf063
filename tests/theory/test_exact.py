"""The one door: the right way for each language, the same numbers by every way, and notes where there is none."""

from __future__ import annotations

import json
import math
import re
from dataclasses import fields

import numpy as np
import pytest

from reproduction.intervals import as_hmm, as_ngram
from tests.brute import SHARP
from tests.theory.small import CHAINS, SMALL, relabelled
from unmask.languages import HMM, Interval, NGram, load, random_hmm, random_ngram
from unmask.samplers.schedules import deltas
from unmask.theory import known as door
from unmask.theory.known import Values, curve, error_curve, exact
from unmask.theory.partitions import partitions

NUMBERS = [field.name for field in fields(Values) if field.name not in ("method", "notes")]
SPARSE = random_ngram(2, 4, **SHARP, seed=4)


def known(values):
    return {name for name in NUMBERS if getattr(values, name) is not None}


def test_the_interval_language():
    values = exact(Interval(5), 510, deltas("linear", 737))
    assert values.ser == pytest.approx(0.49966, abs=5e-6)
    assert exact(Interval(5), 510, deltas("linear", 736)).ser == pytest.approx(0.50013, abs=5e-6)
    assert known(values) == set(NUMBERS)
    assert values.notes == []
    assert values.divergence_nats == pytest.approx(-math.log(1 - values.ser))
    assert values.ter_bits_per_token == pytest.approx(2 + values.divergence_nats / 510 / math.log(2))
    assert values.generative_nll_bits_per_token == values.entropy_bits_per_token == 2
    assert values.expected_plan_divergence_nats == pytest.approx(1020 * math.log(2) / 737)


@pytest.mark.parametrize("width", [2, 3])
@pytest.mark.parametrize(("schedule", "steps"), [("linear", 2), ("cosine", 5)])
def test_the_closed_form_and_partitions_agree(width, schedule, steps):
    """An HMM with the distribution of the interval language takes the other way to each number."""
    delta, length = deltas(schedule, steps), 5 if width == 2 else 4
    ours, theirs = exact(Interval(width), length, delta), exact(as_hmm(Interval(width)), length, delta)
    for name in NUMBERS:
        assert getattr(ours, name) == pytest.approx(getattr(theirs, name), abs=1e-10), name
    assert set(theirs.method.values()) == {"ordered set partitions"}


@pytest.mark.parametrize("name", ["2-gram, pruned", "relabelled", "2-gram", "2-gram, 4 tokens"])
def test_gaps_and_partitions_agree(name, monkeypatch):
    language, length = CHAINS[name]
    delta = deltas("cosine", 4)
    theirs = exact(language, length, delta)
    monkeypatch.setattr(door, "tiny", lambda *case: False)
    ours = exact(language, length, delta)
    assert known(ours) == set(NUMBERS) - {"divergence_nats", "ter_bits_per_token"}
    for name in known(ours):
        assert getattr(ours, name) == pytest.approx(getattr(theirs, name), abs=1e-10), name
    assert "recursion on gaps" in ours.method.values()
    assert "sampled.information_curve" in ours.notes[0]


@pytest.mark.parametrize("name", SMALL)
def test_tiny_languages_of_any_kind_are_known_in_full(name):
    language, length = SMALL[name]
    values = exact(language, length, deltas("linear", 3))
    assert known(values) == set(NUMBERS)
    assert set(values.method) == set(NUMBERS)
    assert json.loads(json.dumps(values.to_dict())) == values.to_dict()
    assert values.divergence_nats <= values.expected_plan_divergence_nats + 1e-12
    assert values.ser <= -math.expm1(-values.divergence_nats) + 1e-12


def test_long_chains_follow_the_exponential_law():
    values = exact(SPARSE, 300, deltas("linear", 40))
    assert values.method["ser"].startswith("exponential fit of lengths")
    assert ", error " in values.method["ser"]
    gaps = exact(SPARSE, 40, deltas("linear", 40))
    assert gaps.method["ser"] == gaps.method["generative_nll_bits_per_token"] == "recursion on gaps"
    monkey = exact(relabelled(SPARSE), 300, deltas("linear", 40))
    assert monkey.ser == pytest.approx(values.ser, abs=1e-12)
    assert 0 < gaps.ser < values.ser < 1


def test_the_two_ways_meet_at_one_length(monkeypatch):
    delta = deltas("cosine", 20)
    gaps = exact(SPARSE, 45, delta)
    monkeypatch.setattr(door, "LONGEST", 44)
    distribution = exact(SPARSE, 45, delta)
    assert gaps.method["ser"] != distribution.method["ser"]
    assert distribution.ser == pytest.approx(gaps.ser, abs=1e-5)
    assert distribution.generative_nll_bits_per_token == pytest.approx(gaps.generative_nll_bits_per_token, abs=1e-5)


def test_a_full_support_makes_no_errors():
    values = exact(random_ngram(2, 4), 100, deltas("linear", 3))
    assert (values.ser, values.method["ser"]) == (0, "every sequence is possible")
    assert values.generative_nll_bits_per_token > values.entropy_bits_per_token


@pytest.mark.parametrize(
    ("language", "expected", "note"),
    [
        (random_hmm(4, 4), set(), "SER, TER and generative NLL of hmm are unknown: .* metrics.score"),
        (random_ngram(3, 4), {"entropy_bits_per_token"}, "E KL over orders is unknown"),
        (
            as_ngram(Interval(2)),
            {"entropy_bits_per_token", "expected_plan_divergence_nats"},
            "a primitive chain.*theory.recursion.ser_by_orders",
        ),
        (
            NGram(2, [1, 0], [[0.5, 0.5], [0.0005, 0.9995]]),
            {"entropy_bits_per_token", "expected_plan_divergence_nats", "ser", "generative_nll_bits_per_token"},
            "KL.q .. p. and TER are unknown",
        ),
        (
            NGram(2, [0.5, 0.5, 0], [[0.999, 0, 0.001], [0, 0.999, 0.001], [0.5, 0.5, 0]]),
            {"entropy_bits_per_token", "expected_plan_divergence_nats"},
            "not yet linear in the length, .* Estimate: theory.recursion.ser_by_orders",
        ),
        (
            HMM([1, 0, 0], np.roll(np.eye(3), 1, 1) / 2 + 0.5 / 3, np.eye(3), end=2),
            {"expected_plan_divergence_nats", "ser"},
            "hmm varies in length: bits per token are unknown",
        ),
    ],
    ids=["hidden", "3-gram", "period 2", "slow, but possible", "slow", "ends"],
)
def test_what_is_not_known_is_explained(language, expected, note):
    values = exact(language, 200, deltas("linear", 3))
    assert known(values) == set(values.method) == expected
    assert any(re.search(note, line) for line in values.notes), values.notes


def test_too_many_symbols_for_a_recursion(monkeypatch):
    monkeypatch.setattr(door, "MOST_WORK", 10)
    values = exact(SPARSE, 30, deltas("linear", 4))
    assert values.ser is None
    assert "4 symbols and 4 steps take too long. Estimate: theory.recursion.ser_by_orders" in values.notes[-1]


@pytest.mark.parametrize(
    ("language", "length", "method", "error_method"),
    [
        (Interval(5), 300, "closed form of the interval language", "closed form of the interval language"),
        (load("paper-2gram"), 64, "closed form of a first-order chain", "closed form of a first-order chain"),
        (CHAINS["2-gram"][0], 4, "closed form of a first-order chain", "closed form of a first-order chain"),
        (random_hmm(3, 3), 4, "enumeration", "enumeration"),
        (random_hmm(3, 3), 30, "monte carlo", "monte carlo"),
    ],
)
def test_the_curves_come_the_shortest_way(language, length, method, error_method):
    ours, errors = curve(language, length, rows=5), error_curve(language, length, rows=5)
    assert (ours.method, errors.method) == (method, error_method)
    assert (ours.length, errors.length) == (length, length)
    assert (ours.terms is None) == (errors.terms is None) == (method != "monte carlo")


@pytest.mark.parametrize("name", ["2-gram, pruned", "relabelled", "pairs"])
def test_every_way_to_a_curve_is_the_same(name):
    language, length = CHAINS[name]
    every = partitions(language, length)
    np.testing.assert_allclose(curve(language, length).f, every.information_curve().f, atol=1e-12)
    np.testing.assert_allclose(error_curve(language, length).g, every.error_curve().g, atol=1e-12)


def test_every_named_schedule():
    for name in ("linear", "cosine", "cosine-squared", "polynomial", "geometric", "theorem-4.2"):
        values = exact(Interval(3), 9, deltas(name, 6))
        assert values.ser == pytest.approx(Interval(3).closed_form.ser(9, deltas(name, 6)))
