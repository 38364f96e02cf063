"""Repair: pairs and blocks under uniform noise against the exact output distribution, and the limits in the docs."""

from __future__ import annotations

import math
from itertools import pairwise, product

import pytest
import torch

from tests.brute import SHARP, distribution
from unmask.languages import Interval, random_ngram
from unmask.samplers.schedules import deltas
from unmask.theory import uniform
from unmask.theory.listed import STATEMENTS, Case


def fast(steps, ratio):
    """Noise d_0..d_N, each `ratio` times the one before."""
    return [1.0, *(ratio**k for k in range(1, steps)), 0.0]


def impossible(language, length, p):
    return float(p[torch.from_numpy(distribution(language, length)) == 0].sum())


@pytest.mark.parametrize("noise", [[1, 0], [1, 0.6, 0.1, 0], [1, 0.3, 0.25, 0.01, 0]])
@pytest.mark.parametrize("eps", [0.0, 0.1])
def test_pairs_against_the_exact_output(noise, eps):
    p = uniform.uniform_output(Interval(2), 2, [1 - d for d in noise], eps=eps)
    assert uniform.pair_error(2, noise, eps) == pytest.approx(1 - float(p[0] + p[3]), abs=1e-13)


@pytest.mark.parametrize("vocabulary", [2, 3, 7])
def test_pairs_of_more_symbols(vocabulary):
    """The pair language of V symbols as a 2-gram of length 2 that copies."""
    noise, eps = [1, 0.5, 0.2, 0.03, 0], 0.05
    q = torch.eye(vocabulary, dtype=torch.float64) / vocabulary
    p = torch.full((vocabulary**2,), vocabulary**-2.0, dtype=torch.float64)
    for d, less in pairwise(noise):
        p = uniform.moved(p, uniform.redraws(q, 1 - d, 1 - less, eps))
    assert uniform.pair_error(vocabulary, noise, eps) == pytest.approx(1 - float(p[q.flatten() > 0].sum()), abs=1e-13)


@pytest.mark.parametrize(("vocabulary", "steps"), [(2, 1), (2, 8), (2, 24), (5, 16)])
def test_the_limit_of_pairs(vocabulary, steps):
    limit = uniform.pair_limit(vocabulary, steps)
    errors = [uniform.pair_error(vocabulary, fast(steps, ratio)) / limit for ratio in (1e-2, 1e-4, 1e-6)]
    assert errors[2] == pytest.approx(1, abs=1e-4)
    assert errors[0] >= errors[1] >= errors[2]


@pytest.mark.parametrize(("vocabulary", "steps"), [(2, 1), (2, 9), (4, 2), (4, 9)])
def test_blind_remasking_has_the_rate_of_masks(vocabulary, steps):
    worst = error = 1 - 1 / vocabulary
    for _ in range(steps - 1):  # on a grid of remasking rates, from the definition of the step
        rates = torch.linspace(0, 1, 20001, dtype=torch.float64)
        both = rates**2
        error = float((error * ((1 - rates) ** 2 + both * worst) + (1 - error) * both * worst).min())
    assert uniform.blind_remasking(vocabulary, steps) == pytest.approx(error, rel=1e-6)
    assert error == pytest.approx(uniform.masked_pair_error(vocabulary, deltas("linear", steps)), rel=1e-6)


LANGUAGES = {"interval": (Interval(3), 3), "2-gram": (random_ngram(2, 3, **SHARP, seed=2), 4)}


@pytest.mark.parametrize("name", LANGUAGES)
def test_the_limit_and_the_bound_of_repair(name):
    language, length = LANGUAGES[name]
    for steps in (1, 2, 3):
        limit = uniform.limiting_output(language, length, steps)
        levels = [1 - d for d in fast(steps, 1e-5)]
        torch.testing.assert_close(uniform.uniform_output(language, length, levels), limit, atol=1e-4, rtol=0)
        (bound,) = STATEMENTS.make("repair", Case(language, length, deltas("linear", steps)))
        assert bound.allows(impossible(language, length, limit))
    assert impossible(language, length, uniform.limiting_output(language, length, 40)) < 1e-6


def test_a_parity_of_all_positions():
    """Each position is suspect with probability 1/n; an odd number of flips repairs: (1 - (1 - 2/n)^n) / 2."""
    for n in (3, 6):
        even = torch.tensor([sum(x) % 2 == 0 for x in product([0, 1], repeat=n)]).double().view((2,) * n)
        mu, correlation = uniform.nearest(even / even.sum())
        for x in (~even.flatten().bool()).nonzero().flatten().tolist():
            start = torch.zeros(2**n, dtype=torch.float64)
            start[x] = 1
            stays = float(uniform.moved(start, mu)[even.flatten() == 0].sum())
            assert stays == pytest.approx((1 + (1 - 2 / n) ** n) / 2, abs=1e-12)
            assert 1 - stays >= math.exp(-float(correlation[x])) - 1e-12


def test_intervals_with_a_rest():
    """Blocks of 3 and a block of 2 in length 5, against the enumeration of each alone."""
    (bound,) = STATEMENTS.make("repair", Case(Interval(3), 5, deltas("linear", 4)))
    parts = [impossible(Interval(3), n, uniform.limiting_output(Interval(3), n, 4)) for n in (3, 2)]
    assert bound.allows(1 - (1 - parts[0]) * (1 - parts[1]))
    few, many = (STATEMENTS.make("repair", Case(Interval(3), 5000, deltas("linear", n)))[0].value for n in (16, 200))
    assert few > 0.99
    assert many < 1e-6


@pytest.mark.parametrize("schedule", ["linear", "cosine"])
def test_the_path_bounds_the_divergence(schedule):
    language, length = LANGUAGES["2-gram"]
    case = Case(language, length, deltas(schedule, 4))
    q, p = torch.from_numpy(distribution(language, length)), uniform.uniform_output(language, length, case.levels)
    (path,) = STATEMENTS.make("uniform-path", case)
    assert path.allows(float(torch.special.xlogy(q, q / p)[q > 0].sum()))
