"""Tiny parameters over thousands of positions: what is possible never becomes impossible, nor the other way round."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from tests.brute import normalised
from unmask.languages import HMM

LENGTH = 5000


def rare_hmm(seed: int, states: int = 5, vocabulary: int = 3, final: bool = False) -> HMM:
    """Half of the parameters are zero, one a row is large, the others lie between 1e-19 and 1e-3."""
    luck = np.random.default_rng(seed)

    def table(rows: int, columns: int) -> np.ndarray:
        tiny = 10 ** luck.uniform(-19, -3, (rows, columns)) * luck.integers(2, size=(rows, columns))
        tiny[np.arange(rows), luck.integers(columns, size=rows)] = 1
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


def wander(language: HMM, luck: np.random.Generator, length: int) -> np.ndarray:
    """A possible string of rare choices: each step evenly among what the parameters allow, however unlikely."""
    _, backward = automaton(language, np.full(length, language.vocabulary))
    tokens, allowed = np.empty(length, int), language.initial > 0
    for j in range(length):
        state = luck.choice(np.flatnonzero(allowed & backward[j]))
        tokens[j] = luck.choice(np.flatnonzero(language.emission[state]))
        allowed = language.transition[state] > 0
    return tokens


@pytest.mark.parametrize("final", [False, True])
@pytest.mark.parametrize("seed", range(8))
def test_support_is_a_boolean_automaton(seed, final):
    """Possible strings far from typical, and the same with one token changed, at length 5000."""
    language, luck = rare_hmm(seed, final=final), np.random.default_rng(seed)
    strings = np.array([wander(language, luck, LENGTH) for _ in range(2)])
    changed = strings.copy()
    changed[:, luck.integers(LENGTH)] += 1 + luck.integers(2)
    strings = np.concatenate([strings, changed % 3, luck.integers(3, size=(2, LENGTH))])
    wanted = [possible(language, row) for row in strings]
    assert all(wanted[:2])
    assert language.supports(torch.from_numpy(strings)).tolist() == wanted


@pytest.mark.parametrize("final", [False, True])
@pytest.mark.parametrize("seed", range(8))
def test_posterior_is_positive_exactly_where_the_automaton_says(seed, final):
    language, luck = rare_hmm(seed, final=final), np.random.default_rng(seed)
    tokens = wander(language, luck, LENGTH)
    tokens[luck.random(LENGTH) < 0.6] = 3
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
