"""Guidance is by the given tokens: what a sampler has written since then is no part of the prompt, in any context."""

from __future__ import annotations

import contextlib

import pytest
import torch

import unmask
from tests.brute import p_value
from tests.diagnosis.noisy import CHAIN3, Noisy, chain
from tests.samplers.table import TABLE
from unmask import UnmaskError
from unmask.denoisers import Denoiser, Guided, Ideal
from unmask.diagnosis import learning, nelbo, paths
from unmask.diagnosis.likelihood import of_sampler
from unmask.metrics import output_distribution
from unmask.samplers.schedules import deltas

L, V, SCALE = 4, 3, 1.5
EVERY = torch.cartesian_prod(*[torch.arange(V)] * L)
PROMPTS = {"none": [V, V, V, V], "a prompt": [2, V, V, V], "infilling": [V, 1, V, 0]}
INNER = Noisy(chain(CHAIN3), L)
WITHOUT = {  # a likelihood
    *("autoregressive", "speculative", "self-speculative", "gibbs", "remdm", "token-editing", "renoise"),
    *("uniform-ancestral", "as-published-mdlm", "low-confidence(last=(1,))", "low-confidence(noise=0.2)"),
}
JUDGED = sorted({row.sampler for row in TABLE if not {row.name, row.sampler} & WITHOUT})


class Away(Denoiser):
    """p(v | x)^(1+w) / p(v | x without the prompt)^w of one prompt, a function of the tokens alone."""

    vocabulary = V

    def __init__(self, inner, prompt):
        self.inner, self.prompt = inner, torch.as_tensor(prompt)

    def posterior(self, tokens, positions=None, time=None):
        bare = torch.where(self.prompt < V, V, tokens)
        p, p0 = (self.inner.posterior(z, positions) for z in (tokens, bare))
        weights = p ** (1 + SCALE) / p0.clamp(min=torch.finfo(torch.float64).tiny) ** SCALE
        return weights / weights.sum(-1, keepdim=True)


def continuing(prompt):
    """Every text that continues the prompt."""
    given = torch.tensor(prompt)
    return given, EVERY[((given == V) | (given == EVERY)).all(1)]


def of(denoiser, sampler, prompt, few=1, **options):
    given, texts = continuing(prompt)
    return of_sampler(denoiser, sampler, texts[::few], given=given, steps=2, draws=2, **options)


def likelihood_of(*setting, **options):
    """Over all paths, or else along one."""
    with contextlib.suppress(UnmaskError):
        return of(*setting, every_path=True, **options)
    return of(*setting, **options)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("sampler", JUDGED)
def test_every_likelihood_of_the_table_is_guided_by_the_prompt(sampler):
    """By sets, by enumeration, or else along a path: that of a denoiser that is the formula of guidance."""
    for prompt in PROMPTS.values():
        few = 9 if prompt == PROMPTS["none"] else 1
        known = likelihood_of(Away(INNER, prompt), sampler, prompt, few)
        found = likelihood_of(INNER, sampler, prompt, few, guidance=SCALE)
        torch.testing.assert_close(found.nats, known.nats, atol=1e-9, rtol=0)


@pytest.mark.parametrize("sampler", ["low-confidence", "p2", "threshold", "ancestral", "strided"])
@pytest.mark.parametrize("prompt", PROMPTS.values(), ids=PROMPTS)
def test_samples_have_the_guided_law(sampler, prompt):
    """A false alarm in 1e-6 each; 4,000 rows. The law without guidance fails where there is a prompt."""
    given, texts = continuing(prompt)
    made = unmask.generate(INNER, sampler=sampler, steps=2, rows=4000, given=given, guidance=SCALE, seed=6)
    for guidance in (SCALE, 0.0):
        found = of(INNER, sampler, prompt, every_path=True, guidance=guidance)
        assert found.exact
        value = p_value(made.tokens.numpy(), texts.numpy(), found.nats.exp().numpy())
        assert (value > 1e-6) == (guidance == SCALE or prompt == PROMPTS["none"])


def test_an_estimate_is_guided_by_the_prompt(monkeypatch):
    monkeypatch.setattr(paths, "MOST_CONTEXTS", 0)
    prompt = PROMPTS["a prompt"]
    for sampler in ("low-confidence", "fixed-size"):
        known = of(Away(INNER, prompt), sampler, prompt, every_path=True, seed=3)
        found = of(INNER, sampler, prompt, every_path=True, seed=3, guidance=SCALE)
        assert not found.exact
        torch.testing.assert_close(found.nats, known.nats)


def test_a_score_is_guided_by_the_prompts_of_its_rows():
    language = chain(CHAIN3)
    given = torch.tensor([PROMPTS["a prompt"], [0, V, V, V]]).repeat(10, 1)
    made = unmask.generate(language, sampler="low-confidence", steps=2, given=given, guidance=SCALE, seed=2)
    found = unmask.score(made, language, likelihood=True).likelihood
    assert found["exact"]

    nats = [
        float(of_sampler(Away(Ideal(language), start), "low-confidence", row[None], given=start, steps=2).nats)
        for start, row in zip(given, made.tokens, strict=True)
    ]
    assert found["nats"].value == pytest.approx(sum(nats) / len(nats), abs=1e-9)


def test_other_exact_numbers_are_guided_by_the_prompt():
    """The law of ancestral, the likelihood of a target, and the learning error, which has no prompt."""
    prompt = PROMPTS["a prompt"]
    guided, known = Guided(INNER, SCALE), Away(INNER, prompt)
    for given in (prompt, PROMPTS["none"]):
        laws = (
            output_distribution(one, L, deltas("linear", 2), torch.tensor(given))
            for one in (guided, Away(INNER, given))
        )
        torch.testing.assert_close(*laws)

    row = torch.tensor([2, 0, 1, 2])
    assert nelbo.chain(guided, row, 1).nats == pytest.approx(nelbo.chain(known, row, 1).nats)
    sets = nelbo.sets_of(3, 10, 0)
    assert nelbo.bound(guided, row, 1, sets).nats == pytest.approx(nelbo.bound(known, row, 1, sets).nats)
    errors = (learning.of_language(one, chain(CHAIN3), L, rows=20) for one in (guided, INNER))
    torch.testing.assert_close(*(error.nats for error in errors))
