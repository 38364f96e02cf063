"""The plug-ins in examples/samplers that are no rules of pace: orders, restarts and correctors, by enumeration.

Tests of distributions have fixed seeds and a false-alarm rate of 1e-6 each.
"""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.brute import distribution
from tests.doubles import Flat
from tests.examples.test_samplers import module, plugin
from tests.samplers.laws import CASES, labels, order_distribution, passes
from tests.samplers.test_orders import canvases
from tests.samplers.test_uniform import exact
from tests.samplers.test_uniform import passes as uniform_passes
from tests.uniform import CHAIN3, ZERO3, chain, every, posteriors
from unmask import UnmaskError, generate
from unmask.denoisers import UniformIdeal
from unmask.languages import random_ngram
from unmask.samplers import SAMPLERS
from unmask.samplers.rules.uniform import UniformAncestral
from unmask.samplers.schedules import deltas

pytestmark = pytest.mark.long


# --------------------------------------------------------------------------------------------- orders that keep apart


def order_of(name, hidden, steps):
    return SAMPLERS.make(name).order(deltas("linear", steps), hidden, None)


@given(st.integers(1, 70), st.integers(1, 5), canvases(length=40))
def test_block_strided_rounds_are_separated_by_blocks(steps, size, hidden):
    """Between two positions of a step lies a whole block that is revealed already: what makes it exact on n-grams.

    Those of the first blocks are K = size 2^(N/size - 1) apart; blocks are cut short where there are fewer steps.
    """
    name = plugin("block-strided", block_length=size)
    order = order_of(name, torch.ones_like(hidden), steps)
    assert torch.equal(order_of(name, hidden, steps), torch.where(hidden, order, 0))
    size = min(size, steps)
    row = order[0].tolist()
    for first, second in itertools.combinations(range(len(row)), 2):
        if row[first] == row[second] > size:
            separators = [
                b
                for b in range(first // size + 1, second // size)
                if max(row[b * size : (b + 1) * size]) <= size * ((row[first] - 1) // size)
            ]
            assert separators
        elif row[first] == row[second]:
            assert (second - first) % (size * 2 ** (steps // size - 1)) == 0


@given(st.integers(2, 4), canvases(length=40))
def test_dilated_rounds_halve_the_distance(base, hidden):
    """Round t of a row reveals those of its B hidden positions that are a multiple of a^(R-t) and not there yet."""
    order = order_of(plugin("dilated", base=base), hidden, 1)
    for row, seen in zip(order.tolist(), hidden.tolist(), strict=True):
        places = [j for j, now in enumerate(seen) if now]
        steps = max(1, math.ceil(math.log(max(len(places), 1), base) - 1e-9))
        expected = [0] * len(row)
        for index, j in enumerate(places):
            expected[j] = next(t for t in range(1, steps + 1) if index % base ** (steps - t) == 0)
        assert row == expected


# ------------------------------------------------------------------------------------------ restarts, and correctors


def test_restarts_pay_for_every_attempt():
    """What is refused is paid again; what was valid at once is not, and the others are told apart per row."""
    source = random_ngram(2, 3, temperature=2.0, threshold=0.15, seed=2)
    options = {"steps": 3, "length": 8, "rows": 60, "seed": 1}
    first = generate(source, sampler="ancestral", **options)
    valid = source.supports(first.tokens)
    made = generate(source, sampler=plugin("restart", most=50), **options)
    assert torch.equal(made.tokens[valid], first.tokens[valid])
    assert torch.equal(made.model_calls[valid], first.model_calls[valid])
    assert bool((made.model_calls[~valid] > first.model_calls[~valid]).all())
    assert bool(source.supports(made.tokens).all())
    assert not made.impossible.any()
    assert made.spent.rows == int(made.model_calls.sum())
    twice = generate(source, sampler=plugin("restart", inner=plugin("restart", most=1), most=50), **options)
    assert bool(source.supports(twice.tokens).all())
    assert twice.spent.rows == int(twice.model_calls.sum())


def test_a_verifier_of_ones_own():
    with pytest.raises(UnmaskError, match="Flat has no language"):
        generate(Flat(0.5), sampler=plugin("restart"), length=4, rows=2)
    even = module("restart").Restart(verifier=lambda tokens: tokens.sum(1) % 2 == 0, most=60)
    made = generate(Flat(0.5), sampler=even, steps=4, length=4, rows=2000)
    assert bool((made.tokens.sum(1) % 2 == 0).all())
    assert len(made.tokens.unique(dim=0)) == 8


@pytest.mark.parametrize(("name", "most"), [("2-gram", 0), ("2-gram", 2), ("3-gram", 40), ("leak", 2)])
def test_restarts_follow_their_law(name, most):
    """With f = P(refused): valid x have p(x) (1 - f^(most+1)) / (1 - f), the others p(x) f^most."""
    source, length = CASES[name]
    language = source.inner.language if name == "leak" else source
    p = order_distribution(name, labels([0.5, 0.5], length))
    valid = distribution(language, length) > 0
    f = p[~valid].sum()
    expected = np.where(valid, p * (1 - f ** (most + 1)) / (1 - f), p * f**most)
    assert expected.sum() == pytest.approx(1)
    if most == 40:
        expected = np.where(expected < 1e-12, 0, expected)
    assert passes(name, expected, sampler=plugin("restart", most=most), steps=2, seed=4)


def test_restarts_with_the_same_order_are_caught(monkeypatch):
    """Mutant: an attempt that draws its order from the same randomness as the one before."""
    p = order_distribution("3-gram", labels([0.5, 0.5], 4))
    valid = distribution(*CASES["3-gram"]) > 0
    expected = np.where(valid, p, 0) / p[valid].sum()
    assert passes("3-gram", expected, sampler=plugin("restart", most=60), steps=2, seed=4)
    monkeypatch.setattr(module("restart"), "APART", 0)
    assert not passes("3-gram", expected, sampler=plugin("restart", most=60), steps=2, seed=4)


def test_correctors_preserve_the_distribution_of_a_level():
    language, denoiser = chain(CHAIN3), UniformIdeal(chain(CHAIN3))
    x = every(3, 4)
    noisy = posteriors(language, x, torch.full(x.shape, 0.6, dtype=torch.float64))[2].exp()
    for correctors in (1, 3):
        moved = module("uniform-corrector").UniformCorrector(correctors=correctors).corrected(noisy, denoiser, x, 0.6)
        assert float((moved - noisy).abs().max()) < 1e-14
    better = exact(module("uniform-corrector").UniformCorrector("sqrt", 4), language, 4)[0]
    assert better < exact(UniformAncestral("sqrt"), language, 4)[0]


def test_correctors_have_the_enumerated_distribution():
    sampler = module("uniform-corrector").UniformCorrector("sqrt", correctors=3)
    claimed = sampler.enumerated(UniformIdeal(chain(ZERO3)), 4, deltas("linear", 3))
    assert uniform_passes(claimed, sampler, 3, chain(ZERO3))
    assert not uniform_passes(claimed, UniformAncestral("sqrt"), 3, chain(ZERO3))
