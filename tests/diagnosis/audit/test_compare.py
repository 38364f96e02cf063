"""The noise of the audit, against distributions that are known; fixed seeds, 1e-6 a test unless said."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from scipy import stats

from unmask import generate, languages
from unmask.diagnosis.audit.changes import BFLOAT16, FINE, race
from unmask.diagnosis.audit.specimens import _by_delta
from unmask.diagnosis.audit.statistics import Noise, Statistics, chi_square


def test_distances_of_equal_laws_are_chi_square():
    """150 sets of 300 rows beside many of one distribution: the p-values are uniform (Kolmogorov-Smirnov at 1e-4)."""
    language = languages.load("paper-2gram")
    tokens = generate(language, steps=8, length=16, rows=150 * 300 + 30_000, seed=1).tokens
    statistics = Statistics(language, tokens[:30_000], 300)
    reference, rows = statistics(tokens[:30_000]), statistics(tokens[30_000:])
    p_values = []
    for start in range(0, 150 * 300, 300):
        some = part(rows, slice(start, start + 300))
        noise = Noise(some, reference, dense=True)
        moved = noise.white(some.mean - reference.mean)
        p_values.append(chi_square(float(moved @ moved), noise.degrees))
    assert stats.kstest(p_values, "uniform").pvalue > 1e-4


def part(rows, which):
    return type(rows)(rows.tokens[which], rows.columns[which], rows.counted, rows.bits[which], rows.invalid[which])


def test_a_coarse_race_is_truncated_as_the_theory_says():
    """theory.md 10: r is selected with probability r (e/r) / (exp(e/r) - 1) on a grid of e, against 1."""
    torch.manual_seed(0)
    n, e = 2_000_000, 2.0**-BFLOAT16
    for r, accuracy in ((0.002, 0.3), (0.01, 0.1), (0.05, 0.05)):  # the weight of 1 is on the grid too
        u = torch.rand(n, 2, dtype=torch.float64)
        weights = torch.tensor([r, 1.0], dtype=torch.float64).expand(n, 2)
        coarse, fine = (int((race(weights, u, bits) == 0).sum()) / n for bits in (BFLOAT16, FINE))
        assert coarse == pytest.approx(e / math.expm1(e / r), rel=accuracy)
        assert abs(fine - r / (1 + r)) < 5 * math.sqrt(r / n)


def test_the_shares_of_the_wrong_rate():
    """Revealed with delta_k instead of rho_k, by simulation: within five standard deviations."""
    delta = torch.tensor([0.1, 0.2, 0.3, 0.4], dtype=torch.float64)
    spoiled = _by_delta(delta)
    chances = np.random.default_rng(0).random((200_000, 4)) < delta.numpy()
    chances[:, -1] = True
    seen = np.bincount(chances.argmax(1), minlength=4) / 200_000
    np.testing.assert_allclose(seen, spoiled.numpy(), atol=5 * 0.5 / math.sqrt(200_000))
    assert float(spoiled.sum()) == pytest.approx(1)
