"""First-order chains: curves against enumeration and against the formula with its weights written out, every order."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from reproduction.intervals import as_ngram
from tests.brute import SHARP, distribution, entropy, sequences
from tests.metrics.small import average_over_assignments, average_over_labels, by_rank, paid
from tests.theory.small import CHAINS, relabelled
from unmask.core.errors import UnmaskError
from unmask.languages import HMM, Brackets, Interval, ModularSum, NGram, load, random_hmm, random_ngram, sparse_hmm
from unmask.samplers.schedules import deltas, sizes
from unmask.theory.chains import first_order, information_curve, order_divergence
from unmask.theory.curves import by_size

EXAMPLES = settings(max_examples=60)


def conditional_entropies(name):
    """(2^L, L): H(X_j | X_R) by summation over all strings."""
    language, length = CHAINS[name]
    strings, q = sequences(language.vocabulary, length), distribution(language, length)
    sets = np.arange(2**length)[:, None] >> np.arange(length) & 1
    digits = language.vocabulary ** np.arange(length)
    joint = np.array([entropy(np.bincount(strings @ (digits * shown), q)) for shown in sets])
    return joint[np.arange(2**length)[:, None] | 2 ** np.arange(length)] - joint[:, None]


def pair_entropy(chain, i, d):
    """E_d(i) = H(X_{i+d} | X_i), positions from 1."""
    start = chain.initial @ np.linalg.matrix_power(chain.transition, i - 1)
    power = np.linalg.matrix_power(chain.transition, d)
    return sum(mass * entropy(row) for mass, row in zip(start, power, strict=True))


def between(chain, j, a, b, length):
    """H(X_j | X_{j-a}, X_{j+b}); 0 stands for no neighbour on that side (theory.md 7.3)."""
    own = entropy(chain.initial @ np.linalg.matrix_power(chain.transition, j - 1))
    if a and b:
        return pair_entropy(chain, j - a, a) + pair_entropy(chain, j, b) - pair_entropy(chain, j - a, a + b)
    if a:
        return pair_entropy(chain, j - a, a)
    if b:
        after = entropy(chain.initial @ np.linalg.matrix_power(chain.transition, j + b - 1))
        return own + pair_entropy(chain, j, b) - after
    return own


def profile_by_neighbours(chain, length):
    """f(k), with hypergeometric weights: the neighbours are in R, what lies between is not, the rest is anywhere."""
    f = np.zeros(length)
    for k in range(length):
        for j in range(1, length + 1):
            for a in range(j):
                for b in range(length - j + 1):
                    neighbours = (a > 0) + (b > 0)
                    hidden = (a - 1 if a else j - 1) + (b - 1 if b else length - j)
                    free = length - 1 - neighbours - hidden
                    if 0 <= k - neighbours <= free:
                        weight = math.comb(free, k - neighbours) / math.comb(length - 1, k)
                        f[k] += weight * between(chain, j, a, b, length) / length
    return f


@pytest.mark.parametrize("name", CHAINS)
def test_the_curve_is_the_enumerated_one(name):
    language, length = CHAINS[name]
    costs, curve = conditional_entropies(name), information_curve(first_order(language), length)
    np.testing.assert_allclose(curve.f, by_rank(costs), atol=1e-12)
    assert curve.entropy.value == pytest.approx(entropy(distribution(language, length)), abs=1e-12)


@pytest.mark.parametrize("name", CHAINS)
@pytest.mark.parametrize(("schedule", "steps"), [("linear", 1), ("linear", 4), ("cosine", 3), ([0.4, 0.0, 0.6], None)])
def test_the_divergence_of_every_schedule(name, schedule, steps):
    language, length = CHAINS[name]
    costs, own = conditional_entropies(name), entropy(distribution(language, length))
    curve, delta = information_curve(first_order(language), length), deltas(schedule, steps)
    assert curve.divergence(delta).value == pytest.approx(average_over_labels(costs, delta) - own, abs=1e-10)
    fixed = average_over_assignments(costs, sizes(delta, length).tolist()) - own
    assert curve.divergence(delta, fixed_size=True).value == pytest.approx(fixed, abs=1e-10)


@pytest.mark.parametrize("name", CHAINS)
def test_the_divergence_of_every_order(name):
    language, length = CHAINS[name]
    orders = 1 + sequences(3, length)
    expected = paid(conditional_entropies(name), orders) - entropy(distribution(language, length))
    ours = order_divergence(first_order(language), torch.from_numpy(orders))
    np.testing.assert_allclose(ours, expected, atol=1e-10)


@pytest.mark.parametrize("seed", range(3))
def test_the_curve_is_the_sum_over_neighbours(seed):
    """Far from stationary, at a length that enumeration does not reach."""
    chain = first_order(random_ngram(2, 4, **SHARP, seed=seed))
    np.testing.assert_allclose(information_curve(chain, 11).f, profile_by_neighbours(chain, 11), atol=1e-11)


def test_at_full_length():
    """L = 512: both ends of f by their definition, and the area theorem, to 1e-10 nats a token."""
    language = load("paper-2gram")
    chain, curve = first_order(language), information_curve(first_order(language), 512)
    alone = np.mean([between(chain, j, 0, 0, 512) for j in range(1, 513)])
    inside = np.mean([between(chain, j, int(j > 1), int(j < 512), 512) for j in range(1, 513)])
    assert curve.f[0] == pytest.approx(alone, abs=1e-11)
    assert curve.f[-1] == pytest.approx(inside, abs=1e-11)
    assert curve.entropy.value == pytest.approx(language.entropy(512).value, abs=1e-9)
    assert (np.diff(curve.f) <= 1e-11).all()


tables = st.integers(2, 4).flatmap(
    lambda size: st.lists(
        st.lists(st.one_of(st.just(0.0), st.floats(0.05, 1)), min_size=size, max_size=size).filter(any),
        min_size=size + 1,
        max_size=size + 1,
    )
)


@EXAMPLES
@given(tables, st.integers(1, 30), st.lists(st.floats(0.01, 1), min_size=1, max_size=6))
def test_any_chain_has_a_falling_curve_of_area_h(rows, length, rates):
    """Also periodic, reducible and absorbing ones."""
    initial, *transition = rows
    language = NGram(2, initial, transition, normalise=True)
    curve = information_curve(first_order(language), length)
    assert (curve.f >= -1e-11).all()
    assert (np.diff(curve.f) <= 1e-11).all()
    assert curve.entropy.value == pytest.approx(language.entropy(length).value, abs=1e-10)
    nodes, weights = np.polynomial.legendre.leggauss(length)
    assert weights @ curve.h((nodes + 1) / 2) / 2 == pytest.approx(curve.entropy.value, abs=1e-9)
    delta = torch.tensor(rates, dtype=torch.float64) / sum(rates)
    assert -1e-10 <= curve.divergence(delta).value <= float(delta.max()) * float(curve.h(0) - curve.h(1)) + 1e-10


def test_which_languages_are_chains():
    yes = [random_ngram(2, 5), as_ngram(Interval(2)), relabelled(random_ngram(2, 4)), sparse_hmm(8, 8), Brackets(1, 1)]
    ends = [0.0, 1.0, 1.0]
    no = [random_ngram(3, 2), random_hmm(3, 3), sparse_hmm(16, 8), Interval(3), ModularSum(), Brackets()]
    no.append(HMM([1, 0, 0], np.full((3, 3), 1 / 3), np.eye(3), ends))
    assert [first_order(language) is not None for language in yes] == [True] * 4 + [False]
    assert [first_order(language) for language in no] == [None] * len(no)


def test_an_order_with_given_positions_is_refused():
    with pytest.raises(UnmaskError, match="this order has given positions"):
        order_divergence(first_order(random_ngram(2, 3)), torch.tensor([[0, 1, 2]]))


def test_neighbours_one_further_apart_are_caught():
    """Mutant: one hidden position too many between neighbours no longer gives f."""
    name = "2-gram, pruned"
    language, length = CHAINS[name]
    chain = first_order(language)
    own = [between(chain, j, 0, 0, length) for j in range(1, length + 1)]
    patterns = np.zeros((3, length + 2))
    patterns[1, :length] = own
    for d in range(1, length):
        patterns[2, d - 1] = sum(pair_entropy(chain, i, d) for i in range(1, length - d + 1))
    right = np.diff(by_size(patterns, length))
    np.testing.assert_allclose(right, by_rank(conditional_entropies(name)), atol=1e-12)
    wrong = np.diff(by_size(np.roll(patterns, 1, axis=1), length))
    assert np.abs(wrong - right).max() > 1e-2
