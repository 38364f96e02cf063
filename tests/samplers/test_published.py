"""Published loops, token for token: Dream, LLaDA, SMDM's greddy, ReMDM's nucleus, and the specimen of MDLM's code."""

from __future__ import annotations

import pytest
import torch

from tests.diagnosis.audit.loops import dream as published_dream
from tests.diagnosis.audit.loops import llada as published_llada
from tests.samplers.laws import CHAIN
from tests.samplers.plain import LENGTH, PLAIN, ROWS, SEED, SOURCES, draw, filled, greddy, nucleus, rng
from unmask import UnmaskError, generate, oracle
from unmask.core.chance import Randomness, Stream
from unmask.denoisers import Logits, Table
from unmask.languages import load
from unmask.samplers.rules.dream import SCORED, fractions
from unmask.samplers.rules.mdlm import coarse, race
from unmask.samplers.rules.p2 import PathPlanning


def prompted(language, rows, length, shown):
    """(rows, length): as many tokens given in each row, at positions of its own."""
    drawn = language.sample(rows, length, seed=4)
    place = torch.arange(length) + 3 * torch.arange(rows).unsqueeze(1)
    return torch.where(5 * place % length < shown, drawn, language.vocabulary)


@pytest.mark.parametrize("alg", ["maskgit_plus", "topk_margin", "entropy"])
def test_dream_is_its_own_loop(alg):
    """Greedy, where all that counts is how many are revealed and which: the published rounding, eps, ties, float32."""
    language = load("paper-2gram")
    model = oracle(language)
    given = prompted(language, 24, 20, 3)
    assert len((given == language.vocabulary).sum(1).unique()) == 1
    for steps in (3, 8, 17, 34):
        options = {"alg": alg, "temperature": 0, "given": given}
        made = generate(language, sampler=f"dream(alg={alg}, temperature=0)", steps=steps, given=given)
        assert torch.equal(made.tokens, published_dream(model, 24, 20, steps, **options))
        assert not torch.equal(made.tokens, published_dream(model, 24, 20, steps, bug="evenly", **options))


def test_equal_scores_are_those_of_topk():
    """Of intervals all are equal at first: torch.topk takes neither the first nor the last. Mutant: the first."""
    language = load("interval-5")
    blank = language.blank(1, 20)
    options = {"alg": "entropy", "temperature": 0.0, "given": blank}
    made = generate(language, sampler="dream(alg=entropy, temperature=0)", steps=8, given=blank)
    assert torch.equal(made.tokens, published_dream(oracle(language), 1, 20, 8, **options))
    orders = [
        generate(language, sampler=f"dream(alg=entropy, temperature=0, ties={ties})", steps=8, given=blank).order
        for ties in ("topk", "position", "chance")
    ]
    assert not any(torch.equal(orders[0], other) for other in orders[1:])


@pytest.mark.parametrize("alg", ["maskgit_plus", "topk_margin", "entropy", "low_confidence"])
def test_scores_in_bfloat16_are_those_of_the_loop(alg):
    """Eight bits make equals of what float32 tells apart, and of the difference of two that are rounded another."""
    language = load("sparse-hmm")
    given = prompted(language, 24, 20, 3 if alg in SCORED else 0)
    name = f"dream(alg={alg}, temperature=0" if alg in SCORED else "llada(block_length=20"
    for dtype in ("float32", "bfloat16"):
        made = generate(language, sampler=f"{name}, dtype={dtype})", steps=8, given=given).tokens
        options = {"temperature": 0.0, "scored": torch.bfloat16}
        if alg in SCORED:
            theirs = published_dream(oracle(language), 24, 20, 8, alg=alg, given=given, **options)
        else:
            theirs = published_llada(oracle(language), 24, 20, 8, **options)
        assert torch.equal(made, theirs) == (dtype == "bfloat16")


def test_dream_rounds_down():
    """As many steps as positions: nothing in the first, two in the last; at half as many three in the last."""
    for steps, last in ((16, 2), (8, 3), (4, 5)):
        made = generate(SOURCES["hmm"], sampler="dream(alg=entropy)", steps=steps, length=16, rows=3)
        counts = torch.bincount(made.order[0], minlength=steps + 1)[1:]
        assert counts[-1] == last
        assert (counts[0] == 0) == (steps == 16)
    assert fractions(1, 1e-3).tolist() == [1.0]


@pytest.mark.parametrize("blocks", [1, 2, 4])
def test_llada_is_its_own_loop(blocks):
    """Greedy, in blocks: the counts of a block, and equal scores as torch.topk has them over the whole row."""
    language = load("interval-5")
    made = generate(
        language, sampler=f"llada(block_length={20 // blocks})", steps=3 * blocks, length=20, rows=1, temperature=1.0
    )
    theirs = published_llada(oracle(language), 1, 20, 3, temperature=0.0, blocks=blocks)
    assert torch.equal(made.tokens, theirs)


@pytest.mark.parametrize("steps", [5, 14, 30])
@pytest.mark.parametrize("temperature", [0.0, 0.4])
def test_greddy_is_the_loop_of_smdm_for_one_row(steps, temperature):
    sampler = f"dream(alg=greddy, eps=1e-5, temperature={temperature}, ties=position)"
    made = generate(SOURCES["leak"], sampler=sampler, steps=steps, length=LENGTH, rows=ROWS, seed=SEED)
    options = {"eps": 1e-5, "temperature": temperature, "ties": "position"}
    for number, row in enumerate(filled("leak", greddy, options, steps=steps)):
        assert (made.tokens[number].tolist(), int(made.model_calls[number])) == (row.context, row.calls)


# ----------------------------------------------------------------------------------------------- nuclei and planners


@pytest.mark.parametrize("most", [0.9, 0.4, 0.0])
def test_a_nucleus_drops_what_crosses_it(most):
    """BD3-LM's rule: of .6, .35, .05 at .9 the first alone. Of equal symbols the lower one comes first."""
    p = torch.tensor([[0.6, 0.35, 0.05], [0.05, 0.6, 0.35], [0.2, 0.4, 0.4], [1 / 3, 1 / 3, 1 / 3], [0.0, 1.0, 0.0]])
    for made in (Table(p.double()), Logits(p.log(), lambda logits: logits, 3)):
        wanted = torch.tensor([nucleus(row, most) for row in p.tolist()])
        torch.testing.assert_close(made.nucleus(most).dense(), wanted.double(), rtol=0, atol=1e-6)
    assert Table(p[:1].double()).nucleus(0.9).dense().tolist() == [[1, 0, 0]]
    torch.testing.assert_close(Table(p[:1]).sharpened(top_p=0.9).dense(), torch.tensor([[12 / 19, 7 / 19, 0]]))


@pytest.mark.parametrize("source", ["hmm", "leak"])
@pytest.mark.parametrize("most", [0.9, 0.5])
def test_blocks_draw_from_the_published_nucleus(source, most):
    """Blocks of 4, one token a step in the order that was drawn: each token, and its probability, from the nucleus."""
    sampler = f"blocks(block_length=4, inner=first-hitting, nucleus={most})"
    made = generate(SOURCES[source], sampler=sampler, length=12, rows=20, seed=SEED)
    plain = PLAIN[source]
    for row in range(20):
        context, order = [plain.vocabulary] * 12, made.order[row].tolist()
        for turn in range(1, 13):
            j = order.index(turn)
            assert j // 4 == (turn - 1) // 4
            p = nucleus(plain.posterior(torch.tensor([context]))[0, j].tolist(), most)
            context[j] = draw(p, rng(Stream.TOKEN, row, j, 0))
            assert float(made.probability[row, j]) == pytest.approx(p[context[j]], abs=1e-9)
        assert made.tokens[row].tolist() == context


def test_a_planner_of_ones_own():
    """Scores by position are an order from the left; what is no score is one line; what was given is never hidden."""
    language = SOURCES["hmm"]
    given = prompted(language, 4, 12, 5)
    places = torch.arange(12.0)
    made = generate(language, sampler=PathPlanning(lambda view, tokens: -places.expand(tokens.shape)), given=given)
    ours = generate(language, sampler="left-to-right", given=given)
    assert torch.equal(made.order.argsort(stable=True), ours.order.argsort(stable=True))
    hides = PathPlanning(lambda view, tokens: torch.where(given < language.vocabulary, -torch.inf, 0.0))
    assert torch.equal(generate(language, sampler=hides, given=given).tokens[given < 8], given[given < 8])
    with pytest.raises(UnmaskError, match=r"the planner of p2 returns .*; expected scores \(4, 12\)"):
        generate(language, sampler=PathPlanning(lambda view, tokens: None), given=given)


# ------------------------------------------------------------------------------------------- as published by MDLM


def test_the_specimen_looks_at_the_start_after_each_change_and_once_more_at_the_end():
    made = generate(CHAIN, sampler="as-published-mdlm(batch=1)", steps=30, length=6, rows=200, seed=4)
    expected = [2 + len(set(order) - {30, 31}) for order in made.order.tolist()]
    assert made.model_calls.tolist() == expected


def test_a_cache_for_a_batch_costs_more_in_company_but_changes_no_token():
    """The one cost that is not a row's own: as published, a row is evaluated again when another of its batch moves."""
    options = {"steps": 12, "length": 48, "rows": 32, "seed": 4}
    alone, shared = (
        generate("sparse-hmm", sampler=f"as-published-mdlm(batch={batch})", **options) for batch in (1, 16)
    )
    assert torch.equal(alone.tokens, shared.tokens)
    assert bool((shared.model_calls >= alone.model_calls).all())
    assert shared.model_calls.double().mean() > alone.model_calls.double().mean()
    assert len(shared.model_calls.view(2, 16).unique(dim=1)[0]) == 1  # the same for all of a batch


def test_the_published_race_never_draws_what_is_rare():
    """Against a mask of weight 1: a uniform of 1 - 2^-24 is the luckiest there is, and 0 the unluckiest."""
    luckiest = torch.tensor([[1 - 2**-24, 0.0]], dtype=torch.float32)
    assert race(torch.tensor([[2e-9, 1.0]]), luckiest).tolist() == [1]
    assert race(torch.tensor([[3e-9, 1.0]]), luckiest).tolist() == [0]
    u = coarse(Randomness(1, torch.arange(50)), torch.arange(50), torch.arange(50), 3, 9)
    assert u.dtype == torch.float32
    assert bool((u * 2**24 == (u * 2**24).round()).all())
    assert len(u.unique()) > 440
