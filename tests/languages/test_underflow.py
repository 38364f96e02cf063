"""Tiny parameters over thousands of positions: what is possible never becomes impossible, nor the other way step."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
import torch

from tests.brute import normalised
from unmask.languages import HMM
from unmask.languages.kernels import paths
from unmask.languages.kernels.passes import Passes

LENGTH = 5000
SEEDS = [0, 1, *(pytest.param(seed, marks=pytest.mark.long) for seed in range(2, 8))]


def rare_hmm(seed: int, states: int = 5, vocabulary: int = 3, final: bool = False) -> HMM:
    """Half of the parameters are zero, one a row is large, the others lie between 1e-19 and 1e-3."""
    rng = np.random.default_rng(seed)

    def table(rows: int, columns: int) -> np.ndarray:
        tiny = 10 ** rng.uniform(-19, -3, (rows, columns)) * rng.integers(2, size=(rows, columns))
        tiny[np.arange(rows), rng.integers(columns, size=rows)] = 1
        return tiny / tiny.sum(1, keepdims=True)

    ends = table(1, states)[0] if final else None
    return HMM(table(1, states)[0], table(states, states), table(states, vocabulary), ends)


def reached(start: np.ndarray, steps: np.ndarray, evidence: np.ndarray) -> np.ndarray:
    """(L, S) booleans: what a set automaton can be in before it reads each position."""
    sets = [start]
    for allowed in evidence[:-1]:
        sets.append((sets[-1] & allowed) @ steps)
    return np.array(sets)


def automaton(language: HMM, tokens: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(forward, backward): which states some path from the start, and some path to a good end, can have."""
    evidence = np.vstack([language.emission.T > 0, np.ones(len(language.initial), bool)])[tokens]
    ends = np.ones(len(language.initial), bool) if language.final is None else language.final > 0
    steps = language.transition > 0
    return reached(language.initial > 0, steps, evidence), reached(ends, steps.T, evidence[::-1])[::-1]


def possible(language: HMM, tokens: np.ndarray) -> bool:
    forward, backward = automaton(language, tokens)
    emits = np.vstack([language.emission.T > 0, np.ones(len(language.initial), bool)])[tokens[0]]
    return bool((forward[0] & emits & backward[0]).any())


def wander(language: HMM, rng: np.random.Generator, length: int) -> np.ndarray:
    """A possible string of rare choices: each step evenly among what the parameters allow, however unlikely."""
    _, backward = automaton(language, np.full(length, language.vocabulary))
    tokens, allowed = np.empty(length, int), language.initial > 0
    for j in range(length):
        state = rng.choice(np.flatnonzero(allowed & backward[j]))
        tokens[j] = rng.choice(np.flatnonzero(language.emission[state]))
        allowed = language.transition[state] > 0
    return tokens


@pytest.mark.sampled(16)
@pytest.mark.parametrize("final", [False, True])
@pytest.mark.parametrize("seed", SEEDS)
def test_support_is_a_boolean_automaton(seed, final):
    """Possible strings far from typical, and the same with one token changed, at length 5000."""
    language, rng = rare_hmm(seed, final=final), np.random.default_rng(seed)
    strings = np.array([wander(language, rng, LENGTH) for _ in range(2)])
    changed = strings.copy()
    changed[:, rng.integers(LENGTH)] += 1 + rng.integers(2)
    strings = np.concatenate([strings, changed % 3, rng.integers(3, size=(2, LENGTH))])
    wanted = [possible(language, row) for row in strings]
    assert all(wanted[:2])
    assert language.supports(torch.from_numpy(strings)).tolist() == wanted


@pytest.mark.parametrize("final", [False, True])
@pytest.mark.parametrize("seed", SEEDS)
def test_posterior_is_positive_exactly_where_the_automaton_says(seed, final):
    language, rng = rare_hmm(seed, final=final), np.random.default_rng(seed)
    tokens = wander(language, rng, LENGTH)
    tokens[rng.random(LENGTH) < 0.6] = 3
    forward, backward = automaton(language, tokens)
    wanted = (forward & backward).astype(int) @ (language.emission > 0) > 0
    hidden = tokens == 3
    ours = language.posterior(torch.from_numpy(tokens).unsqueeze(0))[0].numpy()
    np.testing.assert_array_equal(ours[hidden] > 0, wanted[hidden])
    np.testing.assert_allclose(ours.sum(1), 1, rtol=0, atol=1e-12)
    assert language.supports(language.sample(3, LENGTH, given=torch.from_numpy(tokens))).all()


def test_likelihood_of_rare_strings():
    """Against a sum of logarithms: a path of probability 1e-19 a step beside one of a half, over 5 steps."""
    language = HMM([0.5, 0.5], np.eye(2), [[0.5, 0.5, 0], [1e-19, 0.5, 0.5 - 1e-19]])
    wanted = np.log(0.5) + 5 * np.log(1e-19) + np.log(0.5)
    assert language.log_prob(torch.tensor([[0] * 5 + [2]])).item() == pytest.approx(wanted, abs=1e-9)


def test_a_rare_end_is_possible():
    """Both a rare path and a rare end: the mass of the only good end is far below every float."""
    language = HMM([0.5, 0.5, 0], np.eye(3), [[1, 0], [1e-19, 1 - 1e-19], [0, 1]], [0, 1e-19, 1])
    strings = torch.tensor([[0] * 30, [1] * 30])
    assert language.supports(strings).tolist() == [True, True]


def test_mutant_without_a_floor():
    """Scaling alone loses the path: the check above would see it."""
    forward = np.array([0.5, 0.5])
    for _ in range(30):
        forward = normalised(forward * [1, 1e-19])
    assert forward[1] == 0


def exact_log_prob(language: HMM, tokens: np.ndarray) -> float:
    """By fractions, which hold every mass; the logarithm of a ratio of integers as large as these."""

    def fractions(values: np.ndarray) -> list[Fraction]:
        return [Fraction(float(value)) for value in values.reshape(-1)]

    states = len(language.initial)
    transition, emission = fractions(language.transition), fractions(language.emission)
    masses = fractions(language.machine.initial)
    for j, token in enumerate(tokens):
        if j > 0:
            masses = [sum(m * transition[s * states + t] for s, m in enumerate(masses) if m) for t in range(states)]
        if token < language.vocabulary:
            masses = [m * emission[s * language.vocabulary + token] for s, m in enumerate(masses)]
    total = sum(m * end for m, end in zip(masses, fractions(language.machine.final), strict=True))

    def log(number: int) -> float:
        beyond = max(number.bit_length() - 1000, 0)
        return math.log(number >> beyond) + beyond * math.log(2)

    return log(total.numerator) - log(total.denominator) if total else -math.inf


def both_ways(language: HMM, tokens: np.ndarray) -> np.ndarray:
    """Eight rows at a time, and row by row."""
    passes = Passes(language.machine)
    passes.eight_filter = passes.eight
    return np.stack([passes.evidence(tokens), paths.log_evidence(language.machine, tokens)])


@pytest.mark.parametrize("length", [400, 465, 1000, 4000])
def test_a_track_that_was_left_far_behind_keeps_its_mass(length):
    """Two tracks that never meet: log 1/2 a token for the second, which alone can write the last one."""
    language = HMM([0.5, 0.5], np.eye(2), [[1, 0], [0.5, 0.5]])
    tokens = np.zeros((20, length + 1), int)
    tokens[:19:2, -1], tokens[1, length // 2] = 1, 1
    wanted = np.where(tokens.any(1), (length + 2) * np.log(0.5), np.log(0.5))
    np.testing.assert_allclose(both_ways(language, tokens), [wanted, wanted], rtol=1e-12)
    np.testing.assert_allclose(language.log_prob(torch.from_numpy(tokens)).numpy(), wanted, rtol=1e-12)


@pytest.mark.sampled(8)
@pytest.mark.parametrize("final", [False, True])
@pytest.mark.parametrize("seed", SEEDS[:4])
def test_likelihoods_against_fractions(seed, final):
    """Of rare strings, of these with half hidden, and of one whose end leaves the likely states out."""
    language, rng = rare_hmm(seed, states=4, final=final), np.random.default_rng(seed)
    tokens = np.array([wander(language, rng, 150) for _ in range(4)])
    tokens[2:][rng.random((2, 150)) < 0.5] = 3
    wanted = [exact_log_prob(language, row) for row in tokens]
    np.testing.assert_allclose(both_ways(language, tokens), [wanted, wanted], rtol=1e-11)
