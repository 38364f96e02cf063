"""Speculation without sampling: every outcome of every draw counted, so that the output law is exact to 1e-12."""

from __future__ import annotations

import itertools
from collections import Counter

import pytest
import torch

from tests.doubles import Counted, Quarters
from unmask import generate
from unmask.core.chance import Stream
from unmask.languages import load
from unmask.samplers import Session, fill
from unmask.samplers.rules import speculative as speculation
from unmask.samplers.rules.self_speculative import SelfSpeculative
from unmask.samplers.rules.speculative import Speculative

T, A, R = Stream.TOKEN, Stream.ACCEPT, Stream.RESIDUAL
# (vocabulary, length, draft_length): the cells of each draw, by place in the order. Quarters have 4, ratios of quarters
# 3 (of 1/4 and 3/4) or 6, sums of what is left 6; what is the first of its turn is always accepted.
SELF = {
    (2, 3, 1): {(T, j, 0): 4 for j in range(3)},
    (2, 3, 2): {(T, j, 0): 4 for j in range(3)} | {(A, 1, 0): 3},
    (2, 3, 3): {(T, j, 0): 4 for j in range(3)} | {(T, 2, 1): 4, (A, 1, 0): 3, (A, 2, 0): 3},
    (3, 2, 2): {(T, 0, 0): 4, (T, 1, 0): 4, (A, 1, 0): 6, (R, 1, 0): 6},
}
CAUSAL = {
    (2, 3, 1): {(T, j, 0): 4 for j in range(3)} | {(A, j, 0): 3 for j in range(3)} | {(R, j, 0): 4 for j in (1, 2)},
    (2, 2, 2): {(T, 0, 0): 4, (T, 1, 0): 4, (T, 1, 1): 4, (A, 0, 0): 3, (A, 1, 0): 3, (A, 1, 1): 3},
    (3, 2, 1): {(T, j, 0): 4 for j in range(2)} | {(A, j, 0): 6 for j in range(2)} | {(R, 0, 0): 6, (R, 1, 0): 12},
}


def counted(sampler, denoiser, cells, order):
    """The output distribution over all combinations, and the session."""
    placed = {(stream, order[index], visit): count for (stream, index, visit), count in cells.items()}
    rng = Counted(placed, denoiser.length, order)
    blank = torch.full((rng.rows, denoiser.length), denoiser.vocabulary)
    session = Session(denoiser, blank, rng, torch.ones(1, dtype=torch.float64))
    fill(sampler, session)
    counts = Counter(map(tuple, session.tokens.tolist()))
    return {x: count / rng.rows for x, count in counts.items()}, session


def worst(made, distribution):
    return max(abs(made.get(x, 0.0) - mass) for x, mass in distribution.items())


@pytest.mark.parametrize("case", SELF)
def test_self_speculation_has_the_law_of_one_at_a_time(case):
    vocabulary, length, draft_length = case
    for seed, order in enumerate(itertools.permutations(range(length))):
        denoiser = Quarters(vocabulary, length, seed)
        made, session = counted(SelfSpeculative(draft_length), denoiser, SELF[case], order)
        assert worst(made, denoiser.one_by_one(order)) < 1e-12
        canvas = session.canvas
        assert int(canvas.model_calls.sum()) == canvas.spent.rows
        assert bool((canvas.model_calls >= length).all())


@pytest.mark.parametrize("case", CAUSAL)
def test_speculation_has_the_causal_law(case):
    vocabulary, length, draft_length = case
    for seed in range(2 if vocabulary == 2 else 1):
        denoiser = Quarters(vocabulary, length, seed)
        made, _ = counted(Speculative(draft_length), denoiser, CAUSAL[case], range(length))
        assert worst(made, denoiser.one_by_one(range(length))) < 1e-12


verify = speculation.verify


def no_refusal(session, drafts, checked, target, turn):
    return verify(session, drafts, checked, drafts.marginals[speculation.numbered(drafts.inside)[checked]], turn)


@pytest.mark.parametrize(
    ("case", "place", "mutant"),
    [
        ((3, 2, 2), "unmask.denoisers.marginals.Table.beyond", lambda target, draft: target),
        ((2, 3, 2), "unmask.samplers.rules.self_speculative.verify", no_refusal),
    ],
)
def test_wrong_speculation_is_seen(monkeypatch, case, place, mutant):
    """Mutants: the target instead of the residual after a refusal; no refusal at all."""
    vocabulary, length, draft_length = case
    denoiser = Quarters(vocabulary, length, 1)
    order = range(length)[::-1]
    monkeypatch.setattr(place, mutant)
    made, _ = counted(SelfSpeculative(draft_length), denoiser, SELF[case], order)
    assert worst(made, denoiser.one_by_one(order)) > 1e-3


def test_self_speculation_counts_every_context():
    """A turn is one look and K - 1 contexts; at K = 1 it is one evaluation a token, as without speculation."""
    language = load("sparse-hmm")
    made = generate(language, sampler="self-speculative(draft_length=1)", length=32, rows=20)
    assert made.model_calls.tolist() == [32] * 20
    assert made.spent.forwards == 32
    made = generate(language, sampler="self-speculative(draft_length=4)", length=32, rows=20)
    turns = made.order.max(1).values
    assert bool((made.model_calls <= 4 * turns).all())
    assert bool((made.model_calls > 4 * (turns - 1)).all())
    assert made.spent.forwards <= 2 * int(turns.max())
    assert int(turns.max()) <= 16
    assert bool(language.supports(made.tokens).all())
