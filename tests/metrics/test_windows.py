"""Laws of short windows against enumeration, counts against a loop, and distances that see a biased sampler."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pytest
import torch

from tests.metrics.small import SMALL, windows
from unmask import generate
from unmask.core.estimates import quantile
from unmask.languages import Interval, random_ngram
from unmask.metrics import bigrams, total_variation, window_counts
from unmask.metrics.windows import GROUPS, MAX_WINDOWS, conditional_entropy_bits

LANGUAGE = random_ngram(2, 4, seed=1)
CASES = [(name, size) for name, (_, length) in SMALL.items() for size in (1, 2, 3) if size <= length]


def naive_counts(tokens, vocabulary, size):
    seen = Counter(tuple(row[j : j + size]) for row in tokens.tolist() for j in range(len(row) - size + 1))
    return [seen[window] for window in np.ndindex(*(vocabulary,) * size)]


@pytest.mark.parametrize(("name", "size"), CASES)
def test_window_law(name, size):
    language, length = SMALL[name]
    distribution = language.window_distribution(size, length)
    assert distribution.dtype == torch.float64
    np.testing.assert_allclose(distribution.numpy(), windows(language, length, size), atol=1e-12)


@pytest.mark.parametrize("size", [1, 2, 3])
@pytest.mark.parametrize(("rows", "groups"), [(1, 1), (17, 5), (40, 20)])
def test_window_counts(rows, groups, size):
    tokens = torch.randint(0, 3, (rows, 6), generator=torch.Generator().manual_seed(size))
    counts = window_counts(tokens, 3, size, groups)
    assert counts.shape == (groups, 3**size)
    parts = [naive_counts(part, 3, size) for part in tokens.tensor_split(groups)]
    assert counts.tolist() == parts


def test_samples_of_any_integer_type_are_counted():
    tokens = LANGUAGE.sample(10, 8)
    assert total_variation(tokens.int(), LANGUAGE) == total_variation(tokens, LANGUAGE)


@pytest.mark.parametrize("name", ["2-gram", "3-gram, pruned", "hmm, sparse", "interval 3", "brackets, 2 kinds, stop"])
def test_the_distance_is_half_the_l1_norm(name):
    language, length = SMALL[name]
    tokens = language.sample(50, length, seed=1)
    counts = np.array(naive_counts(tokens, language.vocabulary, 2))
    expected = np.abs(counts / counts.sum() - windows(language, length, 2)).sum() / 2
    ours = total_variation(tokens, language)
    assert ours.value == pytest.approx(expected, abs=1e-12)
    assert (ours.n, ours.method) == (50, "jackknife")


def test_the_interval_is_a_jackknife_over_groups_of_rows():
    """sqrt((g-1)/g sum (theta_(-i) - mean)^2), each theta computed from the other groups alone."""
    tokens = LANGUAGE.sample(60, 12, seed=2)
    left_out = []
    for part in torch.arange(60).tensor_split(GROUPS):
        others = np.setdiff1d(np.arange(60), part.numpy())
        left_out.append(total_variation(tokens[others], LANGUAGE).value)
    half = quantile() * math.sqrt((GROUPS - 1) * np.var(left_out))
    ours = total_variation(tokens, LANGUAGE)
    assert ours.high == pytest.approx(ours.value + half)
    assert ours.low == pytest.approx(max(ours.value - half, 0))


def test_one_row_knows_no_interval():
    ours = total_variation(LANGUAGE.sample(1, 12), LANGUAGE)
    assert (ours.low, ours.high) == (0, math.inf)
    assert 0 <= ours.value <= 1


def test_own_samples_come_closer_with_the_root_of_their_number():
    """16 times the rows: a quarter of the distance, within a factor of 2 (fixed seeds)."""
    near, nearer = (total_variation(LANGUAGE.sample(rows, 32, seed=3), LANGUAGE).value for rows in (500, 8000))
    assert 2 < near / nearer < 8
    assert nearer < 0.01


def test_own_samples_are_at_the_floor_and_biased_ones_above():
    """In one step neighbours are drawn independently, which a distribution of pairs sees at once."""
    own = bigrams(LANGUAGE.sample(2000, 32, seed=5), LANGUAGE)
    assert own.total_variation_floor / 3 < own.total_variation.value < own.total_variation_floor * 3
    assert own.entropy_bits == pytest.approx(own.entropy_bits_of_language, abs=0.02)
    biased = bigrams(generate(LANGUAGE, steps=1, length=32, rows=2000).tokens, LANGUAGE)
    assert biased.total_variation.low > 5 * biased.total_variation_floor
    assert biased.entropy_bits > biased.entropy_bits_of_language + 0.1


def test_repetition_is_a_loss_of_entropy():
    stuck = bigrams(LANGUAGE.sample(1, 32).expand(100, -1), LANGUAGE)
    assert stuck.entropy_bits < stuck.entropy_bits_of_language - 0.1


@pytest.mark.parametrize("name", ["2-gram, pruned", "hmm", "interval 3", "brackets, 2 kinds"])
def test_conditional_entropy_is_its_definition(name):
    """sum over a of P(a) H(X_2 | X_1 = a), in bits."""
    language, length = SMALL[name]
    pairs = windows(language, length, 2).reshape(language.vocabulary, -1)
    expected = 0.0
    for row in pairs[pairs.sum(1) > 0]:
        share = row[row > 0] / row.sum()
        expected -= row.sum() * float(share @ np.log2(share))
    counted = torch.from_numpy(1000 * pairs.ravel())  # counts serve as well as a law
    assert conditional_entropy_bits(counted, language.vocabulary) == pytest.approx(expected, abs=1e-12)


def test_where_pairs_have_no_law():
    """Too short, or too many pairs to count: no bigrams, and no error."""
    assert bigrams(LANGUAGE.sample(5, 1), LANGUAGE) is None
    wide = Interval(12)
    assert wide.vocabulary**2 > MAX_WINDOWS
    assert bigrams(wide.sample(5, 12), wide) is None
