"""The probability that a sampler writes a text: by enumeration of tiny languages, and from what samplers write."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest
import torch

from tests import brute
from tests.diagnosis.noisy import CHAIN3, ZERO3, Noisy, chain
from tests.doubles import Quarters
from unmask import UnmaskError, languages
from unmask.denoisers import Ideal
from unmask.diagnosis.likelihood import follow
from unmask.diagnosis.likelihood import of_sampler as likelihood
from unmask.metrics import output_distribution
from unmask.samplers import SAMPLERS, generate
from unmask.samplers.schedules import deltas

L = 4
EVERY = torch.from_numpy(brute.sequences(3, L))
POSITION = "(ties='position')"
PUNT, CREDIT = (
    str(Path(__file__).parents[2] / "examples/samplers" / name) for name in ("punt.py:Punt", "credit.py:Credit")
)


@pytest.fixture(scope="module")
def noisy():
    return Noisy(chain(CHAIN3), L)


def entropy(nats):
    return -float((nats.exp() * nats).sum())


@pytest.mark.parametrize(("steps", "golden"), [(4, 3.0303), (2, 3.3264)])
def test_entropies_of_an_inconsistent_denoiser(noisy, steps, golden):
    """theory-2026 B1, B2: the distribution sums to one, and its entropy is that of an independent enumeration."""
    found = likelihood(noisy, "top-probability" + POSITION, EVERY, steps=steps)
    assert found.exact
    assert float(found.nats.exp().sum()) == pytest.approx(1, abs=1e-12)
    assert entropy(found.nats) == pytest.approx(golden, abs=5e-5)
    assert found.model_calls.tolist() == [steps] * len(EVERY)


def test_the_mean_over_orders_is_that_of_the_sheet(noisy):
    """B3 on chain3, N = 3: the ELBO of ancestral by enumeration of all orders, and below log p in the mean."""
    q = torch.from_numpy(noisy.q)
    orders = torch.tensor(list(itertools.product(range(1, 4), repeat=L)))
    p = torch.zeros((len(EVERY), len(orders)), dtype=torch.float64)
    for number, order in enumerate(orders):
        for step in order.unique().tolist():
            now = order == step
            context = torch.where(order < step, EVERY, 3)
            c = noisy.posterior(context).gather(2, EVERY.unsqueeze(2)).squeeze(2)
            p[:, number] += c[:, now].log().sum(1)
    assert float(q @ p.mean(1)) == pytest.approx(-3.9571, abs=1e-4)
    found = likelihood(noisy, "ancestral", EVERY, steps=3, draws=400, seed=4)
    assert not found.exact
    error = found.error.clamp(min=1e-12)
    assert bool(((found.nats - p.mean(1)).abs() < 6.2 * error).all())  # a false alarm in 1e-9 each
    assert float(found.error.norm()) == pytest.approx(float(p.std(1, correction=0).norm()) / 20, rel=0.05)
    exact = output_distribution(noisy, L, deltas("linear", 3)).log()
    assert float((q * (exact - p.mean(1))).sum()) > 0.1
    assert bool((found.nats < exact + 6.2 * error).all())


@pytest.mark.parametrize("name", ["entropy", "margin", "threshold", "factor", "entropy-bounded"])
def test_other_rules_sum_to_one(noisy, name):
    sampler = name + POSITION
    found = likelihood(noisy, sampler, EVERY, steps=2)
    assert float(found.nats.exp().sum()) == pytest.approx(1, abs=1e-12)
    made = generate(noisy, sampler=sampler, steps=2, rows=200, length=L, seed=2)
    again = likelihood(noisy, sampler, made.tokens, steps=2)
    assert torch.allclose(again.nats, made.probability.log().sum(1), atol=1e-9)
    assert torch.equal(again.model_calls, made.model_calls)


def test_the_path_is_that_of_generation(noisy):
    """At a temperature, with given tokens, in blocks: the tokens have the probabilities that they were drawn with."""
    given = torch.tensor([3, 1, 3, 3])
    options = {"sampler": f'blocks(block_length=2, inner="margin{POSITION}")', "steps": 2, "temperature": 0.7}
    made = generate(noisy, given=given, rows=100, seed=1, **options)
    found = likelihood(noisy, texts=made.tokens, given=given, **options)
    assert torch.allclose(found.nats, made.probability.log().sum(1), atol=1e-9)


def test_impossible_texts():
    """zero3: texts that the language excludes have probability 0, and the others all of it; greedy writes one text."""
    language = chain(ZERO3)
    found = likelihood(Ideal(language), "left-to-right", EVERY, steps=L)
    assert torch.allclose(found.nats.exp(), torch.from_numpy(brute.distribution(language, L)), atol=1e-12)
    assert bool((found.nats == -torch.inf).any())
    greedy = likelihood(Ideal(language), "top-probability(ties='position', temperature=0)", EVERY, steps=L)
    assert sorted(greedy.nats.exp().tolist())[-2:] == [0, 1]


def test_an_ideal_denoiser_one_by_one_is_the_language():
    language = languages.load("paper-2gram")
    rows = language.sample(3, 12, seed=1)
    exact = language.log_prob(rows)
    for sampler in ("entropy" + POSITION, "left-to-right"):
        assert torch.allclose(likelihood(Ideal(language), sampler, rows, steps=12).nats, exact)
    found = likelihood(Ideal(language), "first-hitting", rows, draws=3)
    assert torch.allclose(found.nats, exact)
    assert (found.exact, float(found.error.max())) == (False, pytest.approx(0, abs=1e-9))


@pytest.mark.parametrize(
    ("sampler", "message"),
    [
        ("remdm", "decides by random numbers besides its tokens"),
        ("token-editing", "draws at revealed positions"),
        ("low-confidence(noise=0.5)", "adds noise"),
        ("gibbs", "has its own loop"),
        ("autoregressive", "reads an AR model"),
    ],
)
def test_refusals(noisy, sampler, message):
    with pytest.raises(UnmaskError, match=message) as caught:
        likelihood(noisy, sampler, EVERY[:2], steps=2)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", SAMPLERS.names())
def test_what_chooses_before_drawing(name):
    """A sampler that says so takes the same path if all its draws are the tokens that it wrote in the end: what it drew
    and dropped has no part in it. One that does not, and keeps its tokens, takes another path in some row."""
    sampler = SAMPLERS.make(name)
    if sampler.revises or "causal" in sampler.reads or sampler.implements("run"):
        return  # they take a path that no text of theirs tells
    denoiser, rows = Quarters(3, L, seed=1), 60
    made = generate(denoiser, sampler=sampler, steps=3, rows=rows, length=L, seed=5)
    start = torch.full((rows, L), 3)
    read = follow(denoiser, sampler, made.tokens, start, deltas("linear", 3), torch.arange(rows), 5)
    assert torch.equal(read.order, made.order) == sampler.chooses_before_drawing
