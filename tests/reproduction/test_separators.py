"""Separators: the paper's example, the definitions by brute force, the exact expectation, and B.8 to B.11."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom

from reproduction import separators
from reproduction.separators import (
    dependencies,
    excess,
    excess_bound,
    expected_excess,
    lemma_b8,
    lemma_b9,
    lemma_b10,
    lemma_b11,
    limit,
)
from tests.theory.cases import LENGTH, cases
from unmask.core.errors import UnmaskError
from unmask.samplers.schedules import Schedule, deltas

EXAMPLES = settings(max_examples=60)
shares = st.lists(st.floats(0, 1), min_size=1, max_size=6).filter(lambda x: sum(x) > 0.1)
schedules = shares.map(lambda x: torch.tensor(x, dtype=torch.float64) / math.fsum(x))


def places(numbers, length):
    mask = torch.zeros(length, dtype=torch.bool)
    mask[torch.tensor(numbers) - 1] = True
    return mask


def intervals_met(new, revealed, n):
    """Definition B.5 word by word: cut at a largest choice of disjoint blocks, count the intervals with a new one."""
    cuts, run = [], 0
    for i, shown in enumerate(revealed):
        run = run + 1 if shown else 0
        if run == n - 1:
            cuts, run = [*cuts, i], 0
    return len({sum(cut < i for cut in cuts) for i, fresh in enumerate(new) if fresh})


def test_example_b_6():
    """L = 10, n = 4: {2,3,4} is a separator and {6,7} is none; one new position lies left of it and two right."""
    revealed, new = places([2, 3, 4, 6, 7], 10), places([1, 5, 9], 10)
    assert separators.separators(4, revealed) == 1
    assert dependencies(4, new, revealed) == 2
    assert dependencies(3, new, revealed) == 3  # {6,7} is one of 3-grams
    assert dependencies(2, new, revealed) == 3
    assert dependencies(4, places([5], 10), revealed) == 1
    assert dependencies(4, torch.zeros(10, dtype=torch.bool), revealed) == 0


@pytest.mark.parametrize("n", [2, 3, 4])
def test_dependencies_are_the_intervals_that_are_met(n):
    """Every pattern of 7 positions, each new, revealed or neither."""
    for pattern in itertools.product((0, 1, 2), repeat=7):
        states = torch.tensor(pattern)
        assert dependencies(n, states == 2, states == 1) == intervals_met(states == 2, states == 1, n)


@EXAMPLES
@given(st.lists(st.integers(0, 5), min_size=1, max_size=12), st.integers(2, 4))
def test_the_excess_of_an_order_is_the_sum_over_its_rounds(order, n):
    order = torch.tensor(order)
    steps = range(1, int(order.max()) + 1)
    by_step = [int((order == k).sum()) - intervals_met(order == k, order < k, n) for k in steps]
    if by_step:
        assert excess(n, order.unsqueeze(0)).tolist() == [sum(by_step)]


@EXAMPLES
@given(schedules, st.integers(1, 5), st.integers(2, 4))
def test_the_expectation_is_exact(delta, length, n):
    """Over all N^L assignments of steps, step by step."""
    delta = deltas((delta[:3] / delta[:3].sum()).tolist()) if float(delta[:3].sum()) > 0.1 else deltas("linear", 3)
    expected = torch.zeros(len(delta), dtype=torch.float64)
    for labels in itertools.product(range(1, len(delta) + 1), repeat=length):
        order = torch.tensor(labels)
        chance = float(delta[order - 1].prod())
        for k in range(1, len(delta) + 1):
            new = order == k
            expected[k - 1] += chance * (int(new.sum()) - intervals_met(new, order < k, n))
    torch.testing.assert_close(expected_excess(n, length, delta), expected, rtol=0, atol=1e-12)


@EXAMPLES
@given(schedules, st.integers(1, 200), st.integers(2, 6))
def test_the_bounds_on_the_expectation(delta, length, n):
    """E <= L delta F_inf <= L delta min(1, (n-1) delta / p^(n-1)), step by step and in sum."""
    exactly = expected_excess(n, length, delta)
    between = length * delta * limit(n, delta)
    assert bool((exactly <= between + 1e-9).all())
    assert excess_bound(n, length, delta).allows(float(between.sum()))
    assert excess_bound(n, length, delta).allows(float(exactly.sum()))


def test_the_limit_is_reached():
    delta = deltas("linear", 10)
    apart = expected_excess(3, 4001, delta) - expected_excess(3, 4000, delta)
    torch.testing.assert_close(apart, delta * limit(3, delta), rtol=0, atol=1e-12)


def test_b8_and_b9_bound_the_divergence():
    """All n-grams among 300 random languages: the divergence of random orders, and of the mixture."""
    checked = 0
    for seed, case in enumerate(case for case in cases() if case.n):
        generator, vocabulary = np.random.default_rng(seed), case.language.vocabulary
        bound = lemma_b9(case.n, vocabulary, LENGTH, case.delta)
        assert bound.allows(case.every.information_curve().divergence(case.delta).value)
        assert bound.allows(case.every.divergence(case.delta))
        order = torch.from_numpy(generator.integers(1, 4, LENGTH))
        assert lemma_b8(case.n, vocabulary, order).allows(case.cost(order))
        checked += 1
    assert checked == 150


def test_b8_needs_the_order_of_the_language():
    """Mutant: separators of n-2 positions do not separate; for a 3-gram among the cases the bound then fails."""
    wrong = 0
    for case in (case for case in cases() if case.n == 3):
        order = torch.tensor([2, 1, 2, 3])
        wrong += not lemma_b8(2, case.language.vocabulary, order).allows(case.cost(order))
    assert wrong > 5


@pytest.mark.parametrize(("delta", "p", "length", "n"), [(0.05, 0.6, 240, 3), (0.1, 0.5, 60, 2), (0.02, 0.9, 300, 4)])
def test_b10_bounds_both_tails(delta, p, length, n):
    """New ones are binomial; of separators, by the chain of runs."""
    few, many = lemma_b10(n, length, delta, p)
    assert many.allows(float(binom.sf(math.ceil(2 * length * delta) - 1, length, delta)))
    most = math.floor((length // (n - 1)) * p ** (n - 1) / 2)
    distribution = np.zeros((most + 2, n - 1))  # (how many, at most one too many) x (the run)
    distribution[0, 0] = 1.0
    for _ in range(length):
        after = np.zeros_like(distribution)
        after[:, 0] += (1 - p) * distribution.sum(1)
        after[:, 1:] += p * distribution[:, :-1]
        after[1:, 0] += p * distribution[:-1, -1]
        after[-1, 0] += p * distribution[-1, -1]
        distribution = after
    assert few.allows(float(distribution[:-1].sum()))


def test_b11_is_true_though_its_proof_is_not():
    """It is labelled as not proven; it lies above our bound, and so above the truth."""
    delta = deltas("cosine", 9)
    for k, (share, p) in enumerate(zip(delta.tolist(), Schedule(delta).p.tolist(), strict=True)):
        if p == 0:
            continue
        bound = lemma_b11(3, 200, share, p)
        assert not bound.proven
        assert bound.allows(float(expected_excess(3, 200, delta)[k]))
        assert bound.value > 200 * share * min(1, 2 * share / p**2)
    with pytest.raises(UnmaskError, match=r"L delta is 0.5; expected above 1 for lemma B\.11"):
        lemma_b11(3, 10, 0.05, 0.5)


def test_an_order_below_two_is_no_ngram():
    with pytest.raises(UnmaskError, match="n is 1; expected at least 2, the order of an n-gram"):
        expected_excess(1, 5, deltas("linear", 3))


def test_an_expectation_that_counts_its_own_place_is_caught():
    """Mutant: F_d for d = 1..L in place of 0..L-1."""
    delta = deltas("linear", 2)
    truth = expected_excess(2, 1, delta)
    assert truth.tolist() == [0.0, 0.0]
    assert float(expected_excess(2, 2, delta).sum()) == pytest.approx(0.5)
