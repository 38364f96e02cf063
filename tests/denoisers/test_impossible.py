"""Impossible contexts: the engine of a canvas answers what the posterior does, in every order of revealing.

What both must answer is written down in tests/languages/test_messages.py, on the matrices of a machine.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import permutations

import numpy as np
import pytest
import torch

import unmask
from tests import brute
from unmask.denoisers import Ideal, Perturbed
from unmask.languages import HMM, Brackets, Interval, Language, NGram

LENGTH = 4
LOST = NGram(2, [1, 0, 0], [[0.9, 0, 0.1], [0.2, 0.6, 0.2], [0, 0, 1]])  # nothing leads to token 1


def rows(rng: np.random.Generator, *shape: int) -> np.ndarray:
    """Distributions of which half of the entries are zero."""
    table = rng.random(shape) * (rng.random(shape) < 0.5)
    table[table.sum(-1) == 0, 0] = 1
    return table / table.sum(-1, keepdims=True)


def random_languages() -> Iterator[Language]:
    """Chains, trigrams and hidden Markov languages with unreachable states or an end, of V = 2 and 3."""
    rng = np.random.default_rng(0)
    for vocabulary in (2, 2, 3, 3):
        for order in (2, 3):
            contexts = vocabulary ** (order - 1)
            yield NGram(order, rows(rng, 1, contexts)[0], rows(rng, contexts, vocabulary))
        first, states = np.array([1.0, 0, 0]), rows(rng, 3, 3)
        yield HMM(first, states, rows(rng, 3, vocabulary))
        yield HMM(first, states, rows(rng, 3, vocabulary), np.where((first @ states @ states @ states) > 0, 1.0, 0.0))


def worst_difference(language: Language, length: int) -> float:
    """Between an engine that is told one place after another and the posterior: all contexts, orders and places."""
    v = language.vocabulary
    contexts = torch.from_numpy(brute.sequences(v + 1, length))
    wanted = language.posterior(contexts)
    asked, places = (contexts == v).nonzero(as_tuple=True)
    worst = 0.0
    for order in permutations(range(length)):
        tokens = torch.full_like(contexts, v)
        engine = Ideal(language).engine(tokens)
        engine.at(asked[:1], places[:1], None)  # messages are made where they are first asked for
        for place in order:
            shown = (contexts[:, place] < v).nonzero().squeeze(1)
            tokens[shown, place] = contexts[shown, place]
            engine.renew(shown, torch.full_like(shown, place))
        worst = max(worst, float((engine.at(asked, places, None) - wanted[asked, places]).abs().max()))
    return worst


def test_engine_is_the_posterior_in_every_context():
    checked = 0
    for language in [LOST, Interval(2), Brackets(1, 2), Brackets(1, 1, stop=0.5), *random_languages()]:
        for length in (3, LENGTH):
            if language.possible_lengths(length)[length]:
                assert worst_difference(language, length) < 1e-12, language
                checked += 1
    assert checked > 20


@pytest.mark.parametrize("place", range(LENGTH))
def test_a_row_that_no_sequence_reads_has_no_say(place):
    """The distribution of LOST does not depend on what its table says behind token 1, nor do answers."""
    context = torch.full((1, LENGTH), 3)
    context[0, place] = 1
    other = NGram(2, LOST.initial, [[0.9, 0, 0.1], [1, 0, 0], [0, 0, 1]])
    hidden = (context[0] == 3).nonzero().squeeze(1)
    for language in (LOST, other):
        said = Ideal(language).engine(context).at(torch.zeros_like(hidden), hidden, None)
        torch.testing.assert_close(said, LOST.posterior(context, hidden)[0], rtol=0, atol=1e-12)


def test_generation_follows_its_own_posterior_into_impossible_contexts():
    """One place a round by a denoiser that errs: the law of the rows is the mean over orders of its answers."""
    denoiser, v = Perturbed(LOST, "leak", 0.3), LOST.vocabulary
    strings = brute.sequences(v, LENGTH)
    distribution = np.zeros(len(strings))
    orders = list(permutations(range(LENGTH)))
    for order in orders:
        tokens, mass = torch.full((len(strings), LENGTH), v), torch.ones(len(strings), dtype=torch.float64)
        for place in order:
            said = denoiser.posterior(tokens, torch.tensor([place]))[:, 0]
            tokens[:, place] = torch.from_numpy(strings[:, place])
            mass *= said.gather(1, tokens[:, place, None]).squeeze(1)
        distribution += mass.numpy() / len(orders)
    made = unmask.generate(denoiser, rows=20000, length=LENGTH, sampler="fixed-size", steps=LENGTH, seed=1)
    assert brute.p_value(made.tokens.numpy(), strings, distribution) > 1e-4
