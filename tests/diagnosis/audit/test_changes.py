"""Filters and drafts against enumeration, the size of a difference, and the logits of all contexts."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
import torch

from tests.diagnosis.audit.decoders import ancestral, renoised, speculate
from tests.diagnosis.audit.loops import causal, llada, mdlm
from tests.diagnosis.audit.remembering import remembered
from unmask import UnmaskError, audit, generate, languages, oracle
from unmask.denoisers import Ideal
from unmask.denoisers.oracles import logits_of
from unmask.diagnosis.audit import changes, sizes, verdict
from unmask.testing import assert_law

LANGUAGE = languages.load("paper-2gram")
V = LANGUAGE.vocabulary
SMALL = {"rows": 400, "length": 16, "steps": 8}


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(verdict, "Bench", remembered)


ORDERS = [
    {"temperature": 0.7, "top_p": 0.8, "top_k": 3},
    {"top_k": 3, "top_p": 0.8, "temperature": 0.7},
    {"min_p": 0.2, "temperature": 2.0},
    {"temperature": 2.0, "min_p": 0.2},
    {"temperature": 0},
]


def by_hand(row, filters, others=()):
    """The filters as loops over the tokens of one position."""
    s = {v: float(np.log(max(row[v], 1e-300))) for v in range(len(row))}
    for name, value in filters.items():
        total = sum(np.exp(x) for x in s.values())
        p = sorted(((np.exp(x) / total, -v) for v, x in s.items()), reverse=True)
        if name == "temperature" and value:
            s = {v: x / value for v, x in s.items()}
        elif name == "repetition_penalty":
            s = {v: x * value if v in others else x for v, x in s.items()}
        elif name == "min_p":
            s = {-v: s[-v] for q, v in p if q >= value * p[0][0] - 1e-12}
        elif name == "top_p":
            s = {-v: s[-v] for k, (_, v) in enumerate(p) if sum(q for q, _ in p[:k]) < value - 1e-12}
        else:
            s = {-v: s[-v] for _, v in p[: value or 1]}
    total = sum(np.exp(x) for x in s.values())
    return [np.exp(s[v]) / total if v in s else 0.0 for v in range(len(row))]


@pytest.mark.parametrize("filters", [*ORDERS, {"repetition_penalty": 1.5}, {"top_k": 5, "repetition_penalty": 3.0}])
def test_filters_are_applied_in_their_order(filters):
    tokens = torch.tensor([[0, V, V, 3], [V, V, 1, V], [2, 2, V, V]])
    plain = Ideal(LANGUAGE).posterior(tokens)
    found = changes.Altered(Ideal(LANGUAGE), partial(changes.filtered, filters)).posterior(tokens)
    for row, place in (tokens == V).nonzero().tolist():
        others = set(tokens[row].tolist()) - {V}
        expected = torch.tensor(by_hand(plain[row, place].tolist(), filters, others), dtype=torch.float64)
        torch.testing.assert_close(found[row, place], expected, rtol=1e-9, atol=1e-9)


def test_two_orders_of_the_same_filters_differ():
    p = Ideal(LANGUAGE).posterior(torch.full((1, 6), V))
    one, two = (changes.filtered(filters, changes.Table(p[0])).dense() for filters in ORDERS[2:4])
    assert not torch.allclose(one, two)


@pytest.mark.parametrize(
    ("filters", "words"),
    [
        ({"heat": 1}, "unknown filter 'heat'"),
        ("temperature=0.8, top_pp=1", "did you mean top_p"),
        ({"top_p": 0}, "top_p is 0; expected a number above 0, at most 1. Leave it out"),
        ({"top_k": 1.5}, "top_k is 1.5; expected a whole number"),
        ({"min_p": 2}, "min_p is 2; expected a number from 0 to 1"),
    ],
)
def test_filters_that_do_not_exist(filters, words):
    with pytest.raises(UnmaskError, match=words):
        changes.as_filters(filters)


def test_neutral_filters_are_none():
    assert changes.as_filters("temperature=1.0, top_p=1, top_k=None, min_p=0, repetition_penalty=1") == {}
    assert list(changes.as_filters("top_p=0.9, temperature=0.8")) == ["top_p", "temperature"]


@pytest.mark.parametrize("fault", changes.SPOILED)
def test_a_spoiled_draft_has_the_distribution_of_its_loop(fault):
    """Against the loop by enumeration of drafts and replacements; w = 0 spoils nothing."""
    p = torch.tensor([[0.5, 0.3, 0.2, 0.0]], dtype=torch.float64)
    found = changes.spoiled(fault, 0.4, {}, changes.Table(p), None)[0].tolist()
    d = [0.6 * p[0, v].item() + 0.4 * p[0, v - 1].item() for v in range(4)]
    q = p[0].tolist()
    keep = {
        "a draft is kept with probability p, without / d": lambda v: q[v],
        "a draft is kept with probability d / p": lambda v: min(1, d[v] / max(q[v], 1e-12)),
        "a rejected draft is replaced from p": lambda v: min(1, q[v] / d[v]),
    }.get(fault[1])
    if keep is None:
        weight = {"all": 1, "four": 0.8, "half": 0.5, "one": 0.2}[fault[1].split()[0]]
        expected = [(1 - weight) * q[v] + weight * d[v] for v in range(4)]
    else:
        rest = q if fault[0] == "missing residual" else [max(q[v] - d[v], 0) for v in range(4)]
        expected = [0.0] * 4
        for y in range(4):
            expected[y] += d[y] * keep(y)
            for z in range(4):
                expected[z] += d[y] * (1 - keep(y)) * rest[z] / sum(rest)
    assert found == pytest.approx(expected, abs=1e-9)
    if fault[0] != "wrong acceptance ratio":
        torch.testing.assert_close(changes.spoiled(fault, 1e-12, {}, changes.Table(p), None), p)


SPECULATION = {
    "": None,
    "no division": "wrong acceptance ratio (a draft is kept with probability p, without / d)",
    "no residual": "missing residual",
    "all kept": "draft without verification",
}


@pytest.mark.sampled(4)
@pytest.mark.parametrize("bug", SPECULATION)
def test_faults_of_verification_are_named(bug):
    """Draft and target have different laws: the loop has that of the target, unless it verifies wrongly."""
    loop, how = partial(speculate, rows=400, length=16, bug=bug), {"sampler": "autoregressive", "draft": 0.5}
    if not bug:
        found = assert_law(loop, **how)
        assert "missing residual (a rejected draft is replaced from p)" in found.seen
        return
    with pytest.raises(AssertionError) as failed:
        assert_law(loop, **how)
    assert f"the loop differs from autoregressive: {SPECULATION[bug]}" in str(failed.value)


def test_the_draft_has_another_law():
    tokens = torch.full((1, 4), V)
    p, d = (oracle(LANGUAGE, draft=w)(tokens).logits.double().exp()[0, :, :V] for w in (0.0, 0.25))
    torch.testing.assert_close(d, 0.75 * p + 0.25 * p.roll(1, -1), rtol=1e-5, atol=1e-6)
    with pytest.raises(AssertionError, match="never calls the draft"):
        assert_law(lambda model, draft: causal(model, 400, 16), sampler="autoregressive", draft=0.5)


@torch.no_grad()
def penalised(model, rows, length, penalty):
    """An autoregressive loop with the repetition penalty of transformers."""
    vocabulary, x = model.config.bos_token_id, torch.full((rows, 1), model.config.bos_token_id)
    for _ in range(length):
        scores = model(x).logits[:, -1, :vocabulary].double()
        seen = torch.zeros(rows, vocabulary + 1, dtype=torch.bool).scatter_(1, x, True)[:, :vocabulary]
        scores = torch.where(seen, torch.where(scores < 0, scores * penalty, scores / penalty), scores)
        x = torch.cat([x, torch.multinomial(scores.softmax(-1), 1)], 1)
    return x[:, 1:]


FILTERED = {  # loop, how assert_law is called, words of the message or None
    "penalty": (
        partial(penalised, rows=400, length=16, penalty=1.2),
        {"sampler": "autoregressive", "filters": {"repetition_penalty": 1.2}},
        None,
    ),
    "penalty left out": (
        partial(penalised, rows=400, length=16, penalty=1.0),
        {"sampler": "autoregressive", "filters": {"repetition_penalty": 1.2}},
        "filters left out (repetition_penalty)",
    ),
    "penalty that is not meant": (
        partial(penalised, rows=400, length=16, penalty=1.2),
        {"sampler": "autoregressive"},
        "repetition penalty (1.2, of every token of the row)",
    ),
    "temperature first": (
        partial(ancestral, **SMALL, temperature=0.6, top_p=0.6),
        {"sampler": "ancestral", "steps": 8, "filters": {"top_p": 0.6, "temperature": 0.6}},
        "order of filters (temperature, top_p)",
    ),
    "one left out": (
        partial(ancestral, **SMALL, temperature=0.6),
        {"sampler": "ancestral", "steps": 8, "filters": {"temperature": 0.6, "top_k": 3}},
        "filters left out (top_k)",
    ),
}


@pytest.mark.long
@pytest.mark.parametrize("name", FILTERED)
def test_filters_of_loops(name):
    loop, how, words = FILTERED[name]
    if words is None:
        assert_law(loop, **how)
        return
    with pytest.raises(AssertionError) as failed:
        assert_law(loop, **how)
    assert words in str(failed.value)


@pytest.mark.long
def test_renoising():
    """DiffusionGemma's rule on noisy canvases: the right loop passes, one that does not cool down is found."""
    loop, how = partial(renoised, rows=400, length=16, steps=6), {"sampler": "renoise(entropy_bound=1.0)", "steps": 6}
    assert assert_law(loop, **how).unseen_temperatures is not None
    with pytest.raises(AssertionError, match="the loop differs from renoise"):
        assert_law(partial(loop, cold=0.8), **how)


def test_the_size_of_a_difference_is_counted():
    """Against counts by hand, of a loop whose last step takes the argmax."""
    torch.manual_seed(3)
    model = oracle(LANGUAGE)
    tokens = mdlm(model, 500, 16, 4, bug="final argmax")
    order = model.record.order(tokens)
    counted = sizes.Written.of(Ideal(LANGUAGE), tokens, order, 4)
    pairs = torch.zeros_like(counted.pairs)
    written = torch.zeros_like(counted.pairs)
    for step in range(1, 5):
        p = LANGUAGE.posterior(torch.where(order < step, tokens, V))[order == step]
        which = (p.unsqueeze(-1) > sizes.EDGES).sum(-1)
        pairs[step - 1] = which.flatten().bincount(minlength=sizes.CLASSES)
        own = which.gather(1, tokens[order == step].unsqueeze(1)).flatten()
        written[step - 1] = own.bincount(minlength=sizes.CLASSES)
    assert torch.equal(counted.pairs, pairs)
    assert torch.equal(counted.written, written)
    right = generate(LANGUAGE, steps=4, length=16, rows=2000, seed=1)
    theirs = sizes.Written.of(Ideal(LANGUAGE), right.tokens, right.order, 4)
    assert sizes.size(counted, theirs).startswith(
        "in step 4 of 4, the first that differs, a token that the model gives"
    )
    assert sizes.size(theirs, theirs) == ""


@pytest.mark.long
def test_the_first_step_that_differs_is_named():
    found = audit(*recorded(mdlm, "final argmax"), sampler="ancestral", steps=8)
    assert "; in step 8 of 8, the first that differs, a token that the model gives 0." in found.sentence
    found = audit(*recorded(llada, ""), sampler="dream(alg=maskgit_plus)", steps=8)
    assert "in step 1 of 8, the first that differs, 2 positions of a row are revealed, not 1" in found.sentence


def recorded(loop, bug):
    torch.manual_seed(3)
    model = oracle(LANGUAGE)
    return loop(model, 400, 16, 8, bug=bug), model


def test_logits_of_all_contexts_are_those_of_the_oracle():
    table, contexts = logits_of(LANGUAGE, 2), [[a, b] for a in range(V + 1) for b in range(V + 1)]
    assert torch.equal(table, oracle(LANGUAGE)(torch.tensor(contexts)).logits[..., :V])
    with pytest.raises(UnmaskError, match=r"there are 9\^9 contexts, .* Use fewer positions"):
        logits_of(LANGUAGE, 9)
