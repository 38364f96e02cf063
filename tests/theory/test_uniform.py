"""Uniform noise: exact distributions against sums over all (x_0, x_t, x_s), and against the published limits."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
import torch

from tests.brute import SHARP, distribution, sequences
from unmask import theory
from unmask.core.errors import UnmaskError
from unmask.languages import Interval, random_hmm, random_ngram
from unmask.theory import uniform

TINY = {
    "2-gram, pruned": (random_ngram(2, 3, **SHARP, seed=2), 3),
    "hmm": (random_hmm(3, 2, temperature=2.0, seed=1), 4),
    "pairs": (Interval(2), 3),
}
LEVELS = [[0, 1], [0, 0.35, 0.7, 1], [0, 0.9, 0.99, 1]]


def noisy(language, length, t, s):
    """(V^L, V^L, V^L) q(x_0, x_t, x_s), from the definition: x_s shows x_0, x_t shows x_s."""
    strings, q = sequences(language.vocabulary, length), distribution(language, length)
    same = strings[:, None] == strings

    def channel(a):
        return np.where(same, a + (1 - a) / language.vocabulary, (1 - a) / language.vocabulary).prod(2)

    return q[:, None, None] * channel(s)[:, None, :] * channel(t / s).T


def redrawn(language, length, joint):
    """(V^L, V^L) prod_i q(x_s^i | x_t), by summing the joint."""
    strings = sequences(language.vocabulary, length)
    joint = joint.sum(0)
    kernel = np.ones_like(joint)
    for i in range(length):
        shown = np.eye(language.vocabulary)[strings[:, i]]
        kernel *= (joint / joint.sum(1, keepdims=True)) @ shown @ shown.T
    return kernel


@pytest.mark.parametrize("name", TINY)
@pytest.mark.parametrize("levels", LEVELS)
def test_the_law_and_its_path(name, levels):
    language, length = TINY[name]
    p, path = np.full(language.vocabulary**length, language.vocabulary**-length), 0.0
    for t, s in pairwise(levels):
        joint = noisy(language, length, t, s)
        kernel = redrawn(language, length, joint)
        pairs = joint.sum(0)
        with np.errstate(divide="ignore", invalid="ignore"):
            logs = np.where(pairs > 0, np.log(pairs / pairs.sum(1, keepdims=True) / kernel), 0.0)
        p, path = p @ kernel, path + float((pairs * logs).sum())
    np.testing.assert_allclose(theory.uniform_output(language, length, levels).numpy(), p, atol=1e-13)
    assert uniform.path_divergence(language, length, levels) == pytest.approx(path, abs=1e-11)
    q = distribution(language, length)
    assert float(q[q > 0] @ np.log(q[q > 0] / p[q > 0])) <= path + 1e-12


def test_one_step_is_the_product_and_many_are_the_language():
    language, length = TINY["2-gram, pruned"]
    q = torch.from_numpy(distribution(language, length)).view(3, 3, 3)
    product = torch.einsum("a,b,c->abc", q.sum((1, 2)), q.sum((0, 2)), q.sum((0, 1))).flatten()
    torch.testing.assert_close(uniform.uniform_output(language, length, [0, 1]), product)
    levels = torch.linspace(0, 1, 513, dtype=torch.float64).sqrt()
    assert float((uniform.uniform_output(language, length, levels) - q.flatten()).abs().sum()) < 1e-3


@pytest.mark.parametrize("levels", [[0, 0.5], [0.1, 1], [0, 0.5, 0.5, 1], [1], [0, 0.7, 0.3, 1]])
def test_levels_that_do_not_rise(levels):
    with pytest.raises(UnmaskError, match=r"levels is .*; expected numbers that rise from 0 to 1"):
        uniform.uniform_output(Interval(2), 2, levels)
