"""Estimates against enumeration and closed forms, within 6 standard errors at fixed seeds (false alarms below 1e-6)."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tests.brute import SHARP, distribution, entropy
from tests.metrics.small import by_rank, conditional_entropies
from tests.theory.small import SMALL, TINY, contradictions
from unmask.core.errors import UnmaskError
from unmask.languages import Interval, random_hmm, random_ngram
from unmask.samplers.schedules import deltas
from unmask.theory import exponential, sampled
from unmask.theory.chains import first_order
from unmask.theory.curves import bernstein
from unmask.theory.known import error_curve as any_error_curve
from unmask.theory.partitions import partitions

ROWS = 1000


def within(estimate, value, tolerance=1e-9):
    return abs(estimate.value - value) <= 6 * estimate.standard_error + tolerance


def near(ours, expected, errors):
    return bool((np.abs(ours - expected) <= 6 * errors + 1e-9).all())


def error(terms, factor, u):
    """Standard error of a curve at u, from the rows behind it."""
    values = factor * np.array([bernstein(row, u) for row in terms])
    return values.std(0, ddof=1) / math.sqrt(len(values))


@pytest.mark.parametrize("name", ["hmm, sparse", "3-gram, pruned", "interval 3", "brackets, 1 kind, stop"])
def test_the_information_curve(name):
    language, length = SMALL[name]
    curve = sampled.information_curve(language, length, rows=ROWS, seed=3)
    f = by_rank(conditional_entropies(name))
    u = np.linspace(0, 1, 5)
    expected = partitions(language, length).information_curve()
    assert near(curve.f, f, curve.terms.std(0) / math.sqrt(ROWS))
    assert near(curve.h(u), expected.h(u), error(curve.terms, curve.length, u))
    assert within(curve.entropy, entropy(distribution(language, length)))
    assert within(curve.divergence(deltas("cosine", 3)), expected.divergence(deltas("cosine", 3)).value)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", ["hmm, sparse", "2-gram, pruned", "3-gram, pruned", "interval 3", "two tokens"])
def test_the_error_curve(name):
    language, length = TINY[name]
    curve = sampled.error_curve(language, length, rows=ROWS, seed=4)
    expected = contradictions(name)
    assert near(curve.g, expected, curve.terms.std(0) / math.sqrt(ROWS))
    assert within(curve.constant, length / 2 * expected.sum())
    assert curve.constant.standard_error < 0.2 * curve.constant.value


def test_where_there_are_more_sizes_than_looks():
    """L = 150: each look stands for two or three sizes; a chain and the interval language have exact curves."""
    chain, u = random_ngram(2, 4, **SHARP, seed=4), np.linspace(0, 1, 5)
    for language, expected in (
        (chain, exponential.error_curve(first_order(chain), 150)),
        (Interval(3), any_error_curve(Interval(3), 150)),
    ):
        curve = sampled.error_curve(language, 150, rows=60, seed=2)
        assert near(curve.e(u), expected.e(u), error(curve.terms, curve.pairs, u) + 1e-3 * expected.e(u))
        assert within(curve.constant, expected.constant.value)
        assert within(curve.ser(deltas("linear", 500)), expected.ser(deltas("linear", 500)).value)


def test_full_support_makes_no_errors():
    assert sampled.error_curve(random_hmm(3, 3), 9, rows=5).g.tolist() == [0] * 8
    assert sampled.error_curve(random_ngram(2, 3), 1, rows=5).g.tolist() == []


def test_refusals():
    with pytest.raises(UnmaskError, match="rows is 1"):
        sampled.error_curve(random_hmm(3, 3), 5, rows=1)


def test_one_contradiction_in_three_that_is_missed_is_caught(monkeypatch):
    """Mutant: the token that is written too early is revealed one position further on."""
    name = "2-gram, pruned"
    language, length = TINY[name]
    right = sampled.categorical
    monkeypatch.setattr(sampled, "categorical", lambda masses, u: (right(masses, u) + 1) % language.vocabulary)
    curve = sampled.error_curve(language, length, rows=ROWS, seed=4)
    assert not near(curve.g, contradictions(name), curve.terms.std(0) / math.sqrt(ROWS))
