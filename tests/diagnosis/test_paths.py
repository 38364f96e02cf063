"""log p of texts with many paths: sums over sets against enumeration; the estimate's mean, interval and gradient."""

from __future__ import annotations

import math

import pytest
import torch

from tests.diagnosis.enumerated import Free, laws
from tests.diagnosis.noisy import ZERO3, chain
from unmask import UnmaskError
from unmask.denoisers import Denoiser, Ideal
from unmask.diagnosis import paths
from unmask.diagnosis.likelihood import of_sampler

L, V = 4, 3
EVERY = torch.cartesian_prod(*[torch.arange(V)] * L)
LOW = "low-confidence(ties='position')"


class Read(Denoiser):
    """A table of logits as a denoiser whose probabilities have a gradient."""

    vocabulary = V

    def __init__(self, model):
        self.model = model

    def posterior(self, tokens, positions=None, time=None):
        p = self.model(tokens).softmax(-1)
        return p if positions is None else p.gather(1, positions.expand(len(tokens), -1).unsqueeze(2).expand(-1, -1, V))


@pytest.fixture(scope="module")
def model():
    return Free(V, L, seed=5)


@pytest.fixture
def sampled(monkeypatch):
    """No sum is exact."""
    monkeypatch.setattr(paths, "MOST_CONTEXTS", 0)


@pytest.mark.parametrize("counts", [(1, 1, 1, 1), (2, 2), (4,)])
@pytest.mark.parametrize(("rule", "sampler"), [("drawn", LOW), ("drawn", "low-confidence"), ("random", "fixed-size")])
def test_sums_over_sets_are_those_over_draws(model, rule, sampler, counts):
    """The closed form of rejected draws; the gradient too."""
    found = of_sampler(Read(model), sampler, EVERY, steps=len(counts), every_path=True)
    known = laws(model, counts, rule)
    assert found.exact
    assert torch.allclose(found.nats.exp(), known, atol=1e-14)
    ours, theirs = (torch.autograd.grad(p[7] + 2 * p[40], model.table)[0] for p in (found.nats.exp(), known))
    assert torch.allclose(ours, theirs, atol=1e-13)


@pytest.mark.parametrize("counts", [(2, 2), (3, 1)])
@pytest.mark.parametrize(("rule", "sampler"), [("drawn", LOW), ("drawn", "low-confidence"), ("random", "fixed-size")])
def test_the_estimate_is_unbiased(model, sampled, rule, sampler, counts):
    """Against enumeration, 6.2 standard errors: a false alarm in 1e-9 each."""
    known = laws(model, counts, rule)
    delta = [count / L for count in counts]
    found = of_sampler(Read(model), sampler, EVERY, schedule=delta, every_path=True, draws=200, seed=1)
    assert not found.exact
    p = found.nats.exp()
    assert bool(((p - known).abs() < 6.2 * p * found.error + 1e-12).all())
    assert float(found.error.mean()) > 0.003
    reward = torch.linspace(0, 1, len(p), dtype=torch.float64)
    ours, theirs = (torch.autograd.grad(one @ reward, model.table)[0] for one in (p, known))
    assert float(torch.cosine_similarity(ours.flatten(), theirs.flatten(), dim=0)) > 0.95


def test_its_interval_covers(model, sampled):
    """Of 200 intervals of 95% by 64 draws at least 93% hold log p; a tenth of each side of it holds far fewer.

    With steeper tables some paths carry the mean, and 64 draws are too few: 82% at N(0, 1.5^2), four steps."""
    known = laws(model, (2, 2), "drawn").log().detach()
    texts, held, narrow = torch.arange(20) * 4, [], []
    for seed in range(10):
        with torch.no_grad():
            found = of_sampler(Read(model), LOW, EVERY[texts], steps=2, draws=64, seed=seed)
        low, high = (end - known[texts] for end in found.interval)
        held.append((low <= 1e-9) & (high >= -1e-9))
        middle = found.nats - known[texts]
        narrow.append((middle + (low - middle) / 10 <= 1e-9) & (middle + (high - middle) / 10 >= -1e-9))
    assert float(torch.stack(held).double().mean()) >= 0.93
    assert float(torch.stack(narrow).double().mean()) < 0.6
    few = of_sampler(Read(model), LOW, EVERY, steps=2, draws=4)
    assert bool((few.interval[0][few.error > 0] == -torch.inf).all())


def test_long_texts_and_large_vocabularies_are_bounded():
    """A uniform denoiser: every text has V^-L, whatever the order; equal scores need an order."""

    class Flat(Denoiser):
        vocabulary = 50

        def posterior(self, tokens, positions=None, time=None):
            return torch.full((*positions.expand(len(tokens), -1).shape, 50), 1 / 50, dtype=torch.float64)

    texts = torch.randint(50, (2, 24), generator=torch.Generator().manual_seed(3))
    found = of_sampler(Flat(), LOW, texts, steps=6, draws=4)
    assert torch.allclose(found.nats, torch.tensor(-24 * math.log(50), dtype=torch.float64))
    assert (found.exact, found.model_calls.tolist()) == (False, [24, 24])
    with pytest.raises(UnmaskError, match="scores of low-confidence are equal; expected ties='position'"):
        of_sampler(Flat(), "low-confidence", texts, steps=6, draws=4)


def test_impossible_texts_have_no_probability(sampled):
    language = chain(ZERO3)
    found = of_sampler(Ideal(language), LOW, EVERY, steps=L, draws=4)
    impossible = ~language.supports(EVERY)
    assert bool(impossible.any())
    assert torch.equal(found.nats == -torch.inf, impossible)
    assert bool(found.error.isfinite().all())
