"""Loops of uniform noise on the oracle: the audit clears the right one and names the usual mistake."""

from __future__ import annotations

import pytest
import torch

import unmask
from unmask.denoisers.noise import reverse, without_own

LANGUAGE, ROWS, LENGTH, STEPS = "paper-2gram", 600, 20, 6


def loop(model, plug):
    """D3PM's reverse step with a model that predicts from all tokens; plug: its output in place of r."""
    generator = torch.Generator().manual_seed(1)
    vocabulary = model.config.vocab_size
    x = torch.randint(0, vocabulary, (ROWS, LENGTH), generator=generator)
    for k in range(STEPS):
        before, after, y = k / STEPS, (k + 1) / STEPS, x.view(-1)
        full = model(x, torch.full((ROWS,), before)).logits.double().softmax(-1).view(-1, vocabulary)
        mu = reverse(full if plug else without_own(full, y, before), y, before, after)
        x = torch.multinomial(mu, 1, generator=generator).view(ROWS, LENGTH)
    return x


@pytest.mark.long
@pytest.mark.parametrize(("plug", "fault"), [(False, None), (True, "plug-in")])
def test_a_posterior_that_is_plugged_in_is_named(plug, fault):
    model = unmask.oracle(LANGUAGE, noise="uniform", level="given", dtype=torch.float64)
    found = unmask.audit(loop(model, plug), model, sampler="uniform-ancestral", steps=STEPS)
    assert found.fault == fault
    assert (found.verdict == "differs") == plug
    assert found.seen == ("plug-in", "early levels")


@pytest.mark.long
def test_renoising_has_another_distribution():
    made = unmask.generate(LANGUAGE, sampler="renoise(entropy_bound=1.0)", steps=STEPS, rows=ROWS, length=LENGTH)
    found = unmask.audit(made.tokens, unmask.load(LANGUAGE), sampler="uniform-ancestral", steps=STEPS)
    assert found.verdict == "differs"


def test_short_sequences_are_compared_with_the_exact_distribution():
    language = unmask.languages.random_ngram(2, 3, threshold=0.15, seed=2)
    made = unmask.generate(language, sampler="uniform-ancestral", steps=2, rows=ROWS, length=4)
    found = unmask.audit(made.tokens, language, sampler="uniform-ancestral", steps=2)
    assert found.verdict == "no difference found"
    assert "exact distribution" in found.p_values
