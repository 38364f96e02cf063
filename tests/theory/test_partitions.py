"""Tiny languages, every value against its definition: sums over all labels and all strings."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from tests.brute import distribution, entropy, sequences
from tests.metrics.small import average_over_labels, by_rank, conditional_entropies, sizes
from tests.theory.small import SMALL, TINY, by_labels, contradictions
from unmask.core.errors import UnmaskError
from unmask.denoisers import Ideal
from unmask.languages import Brackets, random_ngram
from unmask.metrics import output_distribution, ter
from unmask.samplers.schedules import deltas
from unmask.theory.partitions import partitions

BY_LABELS = ["2-gram, pruned", "hmm, sparse", "interval 3, partial", "brackets, 2 kinds, stop", "two tokens"]
SCHEDULES = [("linear", 1), ("cosine", 3), ([0.3, 0.0, 0.7, 0.0], None)]


@pytest.mark.parametrize("name", BY_LABELS)
@pytest.mark.parametrize(("schedule", "steps"), [("linear", 1), ("linear", 3), ([0.5, 0.0, 0.5], None)])
def test_p_is_the_mean_over_all_labels(name, schedule, steps):
    language, length = TINY[name]
    delta = deltas(schedule, steps)
    expected, possible = by_labels(name, delta), distribution(language, length) > 0
    ours = partitions(language, length)
    assert ours.strings.tolist() == sequences(language.vocabulary, length)[possible].tolist()
    np.testing.assert_allclose(ours.distribution(delta), expected[possible], atol=1e-12)


@pytest.mark.sampled(9)
@pytest.mark.parametrize("name", TINY)
def test_every_value_is_its_definition_under_the_enumerated_law(name):
    language, length = TINY[name]
    q, ours = distribution(language, length), partitions(language, length)
    possible = q > 0
    size = sizes(language, length)[possible]
    for schedule, steps in SCHEDULES:
        delta = deltas(schedule, steps)
        p = output_distribution(Ideal(language), length, delta).numpy()[possible]
        np.testing.assert_allclose(ours.distribution(delta), p, atol=1e-12)
        assert ours.ser(delta) == pytest.approx(1 - p.sum(), abs=1e-10)
        assert ours.divergence(delta) == pytest.approx(q[possible] @ np.log(q[possible] / p), abs=1e-10)
        assert ours.ter_bits(delta) == pytest.approx(-(q[possible] / size) @ np.log2(p), abs=1e-10)
        expected = -(p / size) @ np.log2(q[possible]) / p.sum()
        assert ours.generative_nll_bits(delta) == pytest.approx(expected, abs=1e-10)
        if language.end is None:
            assert 2 ** ours.ter_bits(delta) == pytest.approx(ter(language, length, delta).value, rel=1e-10)


@pytest.mark.parametrize("name", SMALL)
def test_the_information_curve(name):
    language, length = SMALL[name]
    costs = conditional_entropies(name)
    curve = partitions(language, length).information_curve()
    np.testing.assert_allclose(curve.f, by_rank(costs), atol=1e-12)
    assert curve.entropy.value == pytest.approx(entropy(distribution(language, length)), abs=1e-10)
    for steps in (1, 3):
        nats = average_over_labels(costs, deltas("cosine", steps)) - entropy(distribution(language, length))
        assert curve.divergence(deltas("cosine", steps)).value == pytest.approx(nats, abs=1e-10)


@pytest.mark.parametrize("name", TINY)
def test_the_error_curve(name):
    language, length = TINY[name]
    np.testing.assert_allclose(partitions(language, length).error_curve().g, contradictions(name), atol=1e-12)


@pytest.mark.parametrize("name", ["2-gram, pruned", "3-gram, pruned", "hmm, sparse", "interval 3"])
def test_errors_become_those_of_pairs(name):
    """N SER -> C(q), and SER = 1 - exp(-sum delta^2 e(p)) up to the next order, in every part of the schedule."""
    language, length = TINY[name]
    ours = partitions(language, length)
    curve, delta = ours.error_curve(), deltas("cosine-squared", 4000)
    assert 4000 * ours.ser(deltas("linear", 4000)) == pytest.approx(curve.constant.value, rel=5e-3)
    assert ours.ser(delta) == pytest.approx(curve.ser(delta).value, rel=5e-3)


def test_one_pass_answers_for_a_million_rounds():
    language, length = TINY["2-gram, pruned"]
    ours = partitions(language, length)
    assert ours.divergence(deltas("linear", 10**6)) == pytest.approx(0, abs=1e-5)
    assert ours.distribution(deltas("linear", 10**6)).sum() == pytest.approx(1, abs=1e-5)


def test_where_lengths_vary_each_sequence_counts_by_its_own():
    language, length = TINY["brackets, 1 kind, stop"]
    ours = partitions(language, length)
    assert ours.tokens.tolist() == language.sizes(torch.from_numpy(ours.strings)).tolist()
    assert len(set(ours.tokens.tolist())) > 1
    expected = sum(-q * math.log2(q) / n for q, n in zip(ours.q, ours.tokens, strict=True))
    assert ours.entropy_bits() == pytest.approx(expected)


def test_what_is_too_large_names_the_nearest():
    with pytest.raises(UnmaskError, match=r"8 symbols at length 5 give .* Use theory\.known\.exact"):
        partitions(random_ngram(2), 5)
    with pytest.raises(UnmaskError, match="brackets has no sequence of length 3"):
        partitions(Brackets(), 3)


@pytest.mark.long
def test_a_small_ser_has_all_its_digits():
    """Its leading order at N = 10^7, and the limit N SER -> C(q): one less a sum keeps three digits of it."""
    language, steps = random_ngram(2, 3, temperature=2.0, threshold=0.15, seed=2), 10**7
    every = partitions(language, 4)
    constant = every.error_curve().constant.value
    assert every.ser(deltas("linear", steps)) * steps == pytest.approx(constant, rel=1e-6)
    assert every.ser(deltas("linear", 3)) == pytest.approx(1 - every.distribution(deltas("linear", 3)).sum(), rel=1e-12)
