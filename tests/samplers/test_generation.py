"""Generations: what rows and probabilities are, and what generate() refuses."""

from __future__ import annotations

import re

import pytest
import torch

from tests.doubles import Choosing, Ordering, Running
from unmask import UnmaskError, generate
from unmask.denoisers import Ideal, Perturbed
from unmask.languages import load
from unmask.samplers import SAMPLERS, Choice, session
from unmask.samplers.rules.blocks import Blocks

OPTIONS = {"steps": 12, "length": 48, "seed": 4}


def same(a, b):
    return all(
        torch.equal(getattr(a, name), getattr(b, name))
        for name in ("tokens", "order", "probability", "model_calls", "impossible")
    )


def test_far_rows_and_large_seeds_have_luck_of_their_own():
    source = load("paper-2gram")
    numbers = (0, 1, 2**32, 2**40)
    rows = [generate(source, rows=1, first_row=first, **OPTIONS).tokens for first in numbers]
    assert torch.equal(torch.cat(rows), generate(source, rows=4, first_row=numbers, **OPTIONS).tokens)
    rows += [generate(source, rows=1, **(OPTIONS | {"seed": 2**63 - 1})).tokens]
    assert len({tuple(row[0].tolist()) for row in rows}) == len(rows)


def test_perturbed_denoisers_generate_in_blocks_too(monkeypatch):
    source = Perturbed(load("paper-2gram"), "tilt", 0.02)
    whole = generate(source, rows=12, **OPTIONS)
    monkeypatch.setattr(Ideal, "rows_at_once", lambda denoiser, length: 5)
    assert same(whole, generate(source, rows=12, **OPTIONS))


def test_probability_is_that_of_the_tokens_when_they_were_revealed():
    """For the exact reader its product is q(x)."""
    source = load("sparse-hmm")
    made = generate(source, sampler="autoregressive", rows=20, **OPTIONS)
    torch.testing.assert_close(made.probability.log().sum(1), source.log_prob(made.tokens), atol=1e-8, rtol=0)
    assert made.model_calls.tolist() == [48] * 20
    spoken = generate(source, sampler="speculative(draft_length=4)", rows=20, **OPTIONS)
    torch.testing.assert_close(spoken.probability.log().sum(1), source.log_prob(spoken.tokens), atol=1e-8, rtol=0)
    assert torch.equal(spoken.model_calls, sum(spoken.model_calls_of.values()))
    assert bool((spoken.model_calls_of["causal"] <= 48).all())


def test_structured_orders_escape_the_linear_bound():
    """theory.md 6, 7.6: five strided steps are exact on the interval language at any length, random ones never."""
    source = load("interval-5")
    strided = generate(source, sampler="strided", steps=5, length=510, rows=200)
    assert bool(source.supports(strided.tokens).all())
    assert strided.model_calls.tolist() == [5] * 200
    assert not source.supports(generate(source, steps=5, length=510, rows=200).tokens).any()
    chain = load("paper-2gram")
    assert bool(chain.supports(generate(chain, sampler="dyadic", steps=6, length=256, rows=200).tokens).all())


def reveals(change, pace="counts"):
    """A rule that chooses change(view.hidden)."""
    return Choosing(lambda view: Choice(change(view.hidden.clone())), pace)


def silent(delta, hidden, rng):
    return torch.zeros(hidden.shape, dtype=torch.int64)


def rewrites(session):
    one = torch.zeros(1, dtype=torch.int64)
    session.write(one, one, one, torch.ones(1), 1)


def stutters(session):
    two = torch.ones(2, dtype=torch.int64)
    session.write(two, two, two, torch.ones(2), 7)


def loops(session):
    while True:
        session.canvas.at(*torch.tensor([[0], [1]]))
        session.write(*torch.tensor([[0], [1], [0]]), torch.ones(1), 1)
        session.hide(*torch.tensor([[0], [1]]), 1)


def unknown(view):
    return Choice(view.hidden.clone(), torch.full(view.hidden.shape, 99))


def hides(view):
    return Choice(view.hidden.clone(), hide=view.hidden.clone())


BREACHES = [
    (
        reveals(torch.ones_like, "steps"),
        "sampler Choosing reveals position 0 of row 5 in step 1, which is not in view.hidden",
    ),
    (
        reveals(lambda hidden: hidden[:, 1:], "steps"),
        "sampler Choosing returns reveal = torch.bool (2, 3) in step 1; expected torch.bool (2, 4)",
    ),
    (
        Blocks(2, Choosing(lambda view: Choice(view.canvas.hidden), "steps")),
        "sampler Blocks reveals position 3 of row 5 in step 1, which is not in view.hidden",
    ),
    (
        reveals(lambda hidden: hidden),
        "sampler Choosing reveals 3 positions of row 5 in step 1; expected the schedule's 2",
    ),
    (reveals(torch.zeros_like, "steps"), "sampler Choosing left position 1 of row 5 hidden after its last step"),
    (reveals(torch.zeros_like, "free"), "sampler Choosing reveals 0 positions of row 5 in step 1; expected at least 1"),
    (Choosing(unknown, "steps"), "sampler Choosing writes token 99; V is 16, at position 1 of row 5 in step 1"),
    (Choosing(hides, "steps"), "sampler Choosing hides position 1 of row 5 in step 1, which it has not revealed"),
    (Ordering(silent), "sampler Ordering gives step 0 to position 1 of row 5; expected a step from 1 to 2"),
    (Running(rewrites), "sampler Running reveals a position that is not hidden, at position 0 of row 5 in step 1"),
    (Running(stutters), "sampler Running reveals a position twice, at position 1 of row 6 in step 7"),
    (Running(loops), "after 61 forward passes of the sampler, 2 rows still have hidden positions; it seems to loop"),
]


@pytest.mark.parametrize(("sampler", "message"), BREACHES)
def test_a_sampler_that_breaks_the_contract_is_named(sampler, message, monkeypatch):
    monkeypatch.setattr(session, "PATIENCE", 10)
    with pytest.raises(UnmaskError, match=re.escape(message)):
        generate(load("interval-5"), sampler=sampler, steps=2, length=4, rows=2, given=[3, 16, 16, 16], first_row=5)


@pytest.mark.parametrize(
    ("sampler", "message"),
    [
        ("threshold(threshold=1.5)", "threshold is 1.5; expected a number from 0 to 1"),
        ("klass(threshold=1.5)", "threshold is 1.5; expected a number from 0 to 1"),
        ("klass(kl=0)", "kl is 0; expected a positive number of nats"),
        ("klass(history=-1)", "history is -1; expected at least 0"),
        ("klass(least=0)", "least is 0; expected at least 1"),
        ("localleap(threshold=0.1)", "relief is 0.15; expected a number from 0 to 0.1, the threshold"),
        ("entropy-bounded(proxy=entropi)", "unknown proxy 'entropi'; did you mean entropy"),
        ("remdm(eta=2)", "eta is 2; expected a number from 0 to 1"),
        ("remdm(published=True)", "with published=True; expected loop"),
        ("gibbs(sweeps=-1)", "sweeps is -1; expected at least 0"),
        ("as-published-mdlm(batch=0)", "batch is 0; expected at least 1"),
        ("llada(remasking=low)", "unknown remasking 'low'; known: low_confidence, random"),
        ("dream(alg=entropy, temperature=0.5)", "temperature of dream is 0.5; expected 0 or 1"),
        ("dream(dtype=bfloat16)", "alg=origin has no scores; expected no alg_temp, dtype"),
        ("wino(threshold=1.5)", "threshold is 1.5; expected a number from 0 to 1"),
        ("token-editing(trigger=own)", "trigger=own gives no replacement token; .* Or pass to=mask"),
    ],
)
def test_options_out_of_range_are_one_line(sampler, message):
    with pytest.raises(UnmaskError, match=message) as caught:
        SAMPLERS.make(sampler)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"rows": 0}, "rows is 0"),
        ({"temperature": float("nan")}, "temperature is nan"),
        ({"sampler": "autoregressive", "given": [8] * 7 + [0]}, "row 0 has given tokens after a hidden one"),
    ],
)
def test_mistakes_are_said(options, message):
    with pytest.raises(UnmaskError, match=message.replace("(", r"\(").replace(")", r"\)")):
        generate(load("paper-2gram"), **({"length": 8, "rows": 2} | options))


def test_a_given_context_without_mass_is_refused():
    source = load("interval-5")
    with pytest.raises(UnmaskError, match="given row 0 has probability zero"):
        generate(source, length=5, rows=2, given=[0, 1, 16, 16, 16])
