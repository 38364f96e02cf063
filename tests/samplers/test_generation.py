"""Bit-for-bit promises: blocks, threads and resumption change nothing; and what generate() refuses."""

from __future__ import annotations

import re

import pytest
import torch

from unmask import UnmaskError, generate
from unmask.denoisers import Ideal, Perturbed
from unmask.languages import load
from unmask.samplers import SAMPLERS, Choice, Sampler, session
from unmask.samplers.rules.blocks import Blocks

OPTIONED = {"blocks": "blocks(block_length=8)", "as-published-mdlm": "as-published-mdlm(batch=1)"}
OPTIONED |= {name: f"{name}(threshold=0.3)" for name in ("klass", "localleap")}
SAMPLED = [OPTIONED.get(name, name) for name in SAMPLERS.makers]
OPTIONS = {"steps": 12, "length": 48, "seed": 4}
SHORT = {"steps": 8, "length": 24, "seed": 4}  # three blocks of the samplers that go by blocks


def same(a, b):
    return all(
        torch.equal(getattr(a, name), getattr(b, name))
        for name in ("tokens", "order", "probability", "model_calls", "impossible")
    )


@pytest.mark.rotates(4)
@pytest.mark.parametrize("sampler", SAMPLED)
@pytest.mark.parametrize("language", ["sparse-hmm", "paper-3gram", "interval-5"])
def test_rows_do_not_depend_on_their_company(sampler, language, monkeypatch):
    """The same rows in blocks, which three threads share; alone and by first_row they are in the kit's own check."""
    source = load(language)
    whole = generate(source, sampler=sampler, rows=12, **SHORT)
    monkeypatch.setattr(Ideal, "rows_at_once", lambda denoiser, length: 5)
    monkeypatch.setenv("UNMASK_THREADS", "3")
    assert same(whole, generate(source, sampler=sampler, rows=12, **SHORT))


def test_a_cache_for_a_batch_costs_more_in_company_but_changes_no_token():
    """The one cost that is not a row's own: as published, a row is evaluated again when another of its batch moves."""
    source = load("sparse-hmm")
    alone, shared = (
        generate(source, sampler=f"as-published-mdlm(batch={batch})", rows=32, **OPTIONS) for batch in (1, 16)
    )
    assert torch.equal(alone.tokens, shared.tokens)
    assert bool((shared.model_calls >= alone.model_calls).all())
    assert shared.model_calls.double().mean() > alone.model_calls.double().mean()
    assert len(shared.model_calls.view(2, 16).unique(dim=1)[0]) == 1  # the same for all of a batch


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


class Twice(Sampler):
    pace = "steps"

    def choose(self, view):
        return Choice(torch.ones_like(view.hidden))


class Narrow(Twice):
    def choose(self, view):
        return Choice(view.hidden[:, 1:])


class Broad(Twice):
    """Reveals beyond the block that it is shown."""

    def choose(self, view):
        return Choice(view.canvas.hidden)


class Greedy(Sampler):
    def choose(self, view):
        return Choice(view.hidden.clone())


class Lazy(Sampler):
    pace = "steps"

    def choose(self, view):
        return Choice(torch.zeros_like(view.hidden))


class Still(Lazy):
    pace = "free"


class Stranger(Lazy):
    def choose(self, view):
        return Choice(view.hidden.clone(), torch.full(view.hidden.shape, 99))


class Eraser(Lazy):
    def choose(self, view):
        return Choice(view.hidden.clone(), hide=view.hidden.clone())


class Silent(Sampler):
    def order(self, delta, hidden, rng):
        return torch.zeros(hidden.shape, dtype=torch.int64)


class Rewriter(Sampler):
    def run(self, session):
        one = torch.zeros(1, dtype=torch.int64)
        session.write(one, one, one, torch.ones(1), 1)


class Stutterer(Sampler):
    def run(self, session):
        two = torch.ones(2, dtype=torch.int64)
        session.write(two, two, two, torch.ones(2), 7)


class Endless(Sampler):
    def run(self, session):
        while True:
            session.canvas.at(*torch.tensor([[0], [1]]))
            session.write(*torch.tensor([[0], [1], [0]]), torch.ones(1), 1)
            session.hide(*torch.tensor([[0], [1]]), 1)


@pytest.mark.parametrize(
    ("sampler", "message"),
    [
        (Twice(), "sampler Twice reveals position 0 of row 5 in step 1, which is not in view.hidden"),
        (Narrow(), "sampler Narrow returns reveal = torch.bool (2, 3) in step 1; expected torch.bool (2, 4)"),
        (
            Blocks(2, Broad()),
            "sampler Blocks reveals position 3 of row 5 in step 1, which is not in view.hidden",
        ),
        (Greedy(), "sampler Greedy reveals 3 positions of row 5 in step 1; expected the schedule's 2"),
        (Lazy(), "sampler Lazy left position 1 of row 5 hidden after its last step"),
        (Still(), "sampler Still reveals 0 positions of row 5 in step 1; expected at least 1"),
        (Stranger(), "sampler Stranger writes token 99; V is 16, at position 1 of row 5 in step 1"),
        (Eraser(), "sampler Eraser hides position 1 of row 5 in step 1, which it has not revealed"),
        (Silent(), "sampler Silent gives step 0 to position 1 of row 5; expected a step from 1 to 2"),
        (Rewriter(), "sampler Rewriter reveals a position that is not hidden, at position 0 of row 5 in step 1"),
        (Stutterer(), "sampler Stutterer reveals a position twice, at position 1 of row 6 in step 7"),
        (Endless(), "after 61 forward passes of the sampler, 2 rows still have hidden positions; it seems to loop"),
    ],
)
def test_a_sampler_that_breaks_the_contract_is_named(sampler, message, monkeypatch):
    monkeypatch.setattr(session, "PATIENCE", 10)
    with pytest.raises(UnmaskError, match=re.escape(message)):
        generate(load("interval-5"), sampler=sampler, steps=2, length=4, rows=2, given=[3, 16, 16, 16], first_row=5)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"rows": 0}, "rows is 0"),
        ({"sampler": "threshold(threshold=1.5)"}, "threshold is 1.5; expected a number from 0 to 1"),
        ({"sampler": "entropy-bounded(proxy=entropi)"}, "unknown proxy 'entropi'; did you mean entropy"),
        ({"sampler": "remdm(eta=2)"}, "eta is 2; expected a number from 0 to 1"),
        ({"sampler": "gibbs(sweeps=-1)"}, "sweeps is -1; expected at least 0"),
        ({"sampler": "as-published-mdlm(batch=0)"}, "batch is 0; expected at least 1"),
        ({"sampler": "llada(remasking=low)"}, "unknown remasking 'low'; known: low_confidence, random"),
        ({"sampler": "dream(alg=entropy, temperature=0.5)"}, "temperature of dream is 0.5; expected 0 or 1"),
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
