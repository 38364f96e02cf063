"""The probability that a sampler writes a text: by enumeration of tiny languages, and from what samplers write."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pytest
import torch

from tests import brute
from tests.diagnosis.noisy import CHAIN3, ZERO3, Noisy, chain
from tests.samplers.tables import Quarters
from unmask import UnmaskError, languages
from unmask.diagnosis import drawn
from unmask.diagnosis.sampler_likelihood import bounds, follow, likelihood, proposal
from unmask.generation import generate
from unmask.ideal import Ideal
from unmask.metrics import output_distribution
from unmask.samplers import SAMPLERS
from unmask.samplers.low_confidence import LowConfidence
from unmask.schedules import deltas

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


@pytest.mark.rotates(4)
@pytest.mark.parametrize(
    ("kind", "sampler", "steps", "golden"),
    [
        ("duel", "top-probability", 4, 3.0303),
        ("duel", "top-probability", 2, 3.3264),
        ("drawn", "low-confidence", 4, 1.8667),
        ("drawn", "low-confidence", 2, 2.7467),
    ],
)
def test_entropies_of_an_inconsistent_denoiser(noisy, kind, sampler, steps, golden):
    """theory-2026 B1, B2: the distributions sum to one, and their entropies are those of an independent enumeration."""
    found = likelihood(noisy, sampler + POSITION, EVERY, kind, steps=steps)
    assert float(found.lower.exp().sum()) == pytest.approx(1, abs=1e-12)
    assert entropy(found.lower) == pytest.approx(golden, abs=5e-5)
    assert torch.equal(found.lower, found.upper)
    if kind == "duel":
        assert found.model_calls.tolist() == [steps] * len(EVERY)


def test_duel_is_not_the_likelihood_of_low_confidence(noisy):
    """B1: the divergence between the distribution of draws and that of top-probability is .369 nats."""
    truth = likelihood(noisy, "low-confidence" + POSITION, EVERY, "drawn", steps=L).lower
    wrong = likelihood(noisy, "top-probability" + POSITION, EVERY, "duel", steps=L).lower
    assert float((truth.exp() * (truth - wrong)).sum()) == pytest.approx(0.369, abs=5e-4)


def by_walking(denoiser, sampler, length, counts):
    """The distribution of low-confidence: all draws of all hidden positions in each step, weighed one by one."""
    vocabulary, mass = denoiser.vocabulary, {(denoiser.vocabulary,) * length: 1.0}
    for count in counts:
        after: dict[tuple[int, ...], float] = {}
        for context, weight in mass.items():
            hidden = [j for j, token in enumerate(context) if token == vocabulary]
            c = denoiser.posterior(torch.tensor([context]))[0]
            warm = c if sampler.temperature == 1 else torch.softmax(c.log() / sampler.temperature, -1)
            for tokens in itertools.product(range(vocabulary), repeat=len(hidden)):
                chance = float(np.prod([float(warm[j, v]) for j, v in zip(hidden, tokens, strict=True)]))
                score = {}
                for j, v in zip(hidden, tokens, strict=True):
                    late = sum(float(c[j, token]) for token in set(sampler.last))
                    score[j] = -1.0 if v in sampler.last else float(c[j, v]) / max(1 - late, 1e-300)
                best = sorted(hidden, key=lambda j: (-round(score[j], 9), j))[:count]
                new = tuple(
                    dict(zip(hidden, tokens, strict=True))[j] if j in best else token for j, token in enumerate(context)
                )
                after[new] = after.get(new, 0.0) + weight * chance
        mass = after
    return torch.tensor([mass.get(tuple(x), 0.0) for x in EVERY.tolist()], dtype=torch.float64)


@pytest.mark.rotates(4)
@pytest.mark.parametrize(
    ("sampler", "counts"),
    [
        (LowConfidence(ties="position"), [1, 1, 1, 1]),
        (LowConfidence(ties="position"), [2, 1, 1]),
        (LowConfidence(ties="position", temperature=0.6), [2, 2]),
        (LowConfidence(ties="position", last=(1,)), [1, 3]),
        (LowConfidence(ties="position", last=(0, 2)), [2, 2]),
    ],
)
@pytest.mark.parametrize("language", ["noisy", "ties"])
def test_drawn_is_the_distribution_by_walking_all_draws(noisy, language, sampler, counts):
    """Quarters have many equal scores, which go by position."""
    denoiser = noisy if language == "noisy" else Quarters(3, L)
    found = likelihood(denoiser, sampler, EVERY[::4], "drawn", schedule=[count / L for count in counts])
    truth = by_walking(denoiser, sampler, L, counts)[::4]
    assert float((found.lower.exp() - truth).abs().max()) < 1e-12


def test_sets_are_drawn_in_proportion_to_r(noisy):
    """log Z is the sum of r over all sets, and the frequencies of 3000 sets pass a test at 1e-9."""
    rule, text = LowConfidence(ties="position"), torch.tensor([0, 1, 1, 2])
    c = noisy.posterior(torch.full((1, L), 3))
    second = torch.arange(L).double()[None]
    step = drawn.draws(c, drawn.score_table(rule, c[0])[None], second, text[None], 1e-9)
    many = drawn.Draws(*(part.expand(3000, *part.shape[1:]) for part in step))
    u = torch.rand((3000, L + 1), generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    for count in range(1, L + 1):
        sets = dict((tuple(sorted(members)), nats) for members, nats in drawn.subsets(step, 0, count))
        chosen, total = drawn.draw_sets(many, count, u)
        nats = torch.tensor(list(sets.values()), dtype=torch.float64)
        assert float(total[0]) == pytest.approx(float(nats.logsumexp(0)), abs=1e-12)
        if len(sets) == 1:
            assert bool(chosen.all())
            continue
        names = torch.tensor([sum(1 << j for j in members) for members in sets])
        rows = (chosen.long() * (1 << torch.arange(L))).sum(1)
        weight = (nats - nats.logsumexp(0)).exp().numpy()
        assert brute.p_value(rows[:, None].numpy(), names[:, None].numpy(), weight) > 1e-9


def test_r_sums_to_one(noisy):
    """Over all sets of two positions and all their tokens."""
    rule = LowConfidence(ties="position")
    c = noisy.posterior(torch.full((1, L), 3))
    total = 0.0
    for text in EVERY:
        step = drawn.draws(c, drawn.score_table(rule, c[0])[None], torch.arange(L).double()[None], text[None], 1e-9)
        for members, nats in drawn.subsets(step, 0, 2):
            others = 3 ** (L - len(members))  # texts with these tokens
            total += float(np.exp(nats)) / others
    assert total == pytest.approx(1, abs=1e-12)


@pytest.mark.parametrize("steps", [2, 4])
def test_proposals_are_unbiased(noisy, steps):
    """E prod Z = p(x): 100 draws for each of 81 texts, within 6 standard errors (1e-9 each for a normal number)."""
    sampler, draws = LowConfidence(ties="position"), 100
    exact = likelihood(noisy, sampler, EVERY, "drawn", steps=steps).lower.exp()
    copies = torch.arange(len(EVERY)).repeat_interleave(draws)
    start = torch.full((len(copies), L), 3)
    delta = deltas("linear", steps)
    read = follow(noisy, proposal(sampler), EVERY[copies], start, delta, torch.arange(len(copies)), 1)
    p = read.nats.sum(1).exp().view(len(EVERY), draws)
    gap = float((p.mean(1) - exact).sum())
    assert abs(gap) < 6 * float((p.var(1) / draws).sum().sqrt()) + 1e-12
    assert float(p.std()) > 0


def test_bounds_are_those_of_the_sheet(noisy):
    """B3 on chain3, N = 3: lower and upper ends by enumeration of all orders, with psi the mean of K others."""
    q = torch.from_numpy(noisy.q)
    orders = torch.tensor(list(itertools.product(range(1, 4), repeat=L)))
    chance = 3.0**-L
    p = torch.zeros((len(EVERY), len(orders)), dtype=torch.float64)
    for number, order in enumerate(orders):
        for step in order.unique().tolist():
            now = order == step
            context = torch.where(order < step, EVERY, 3)
            c = noisy.posterior(context).gather(2, EVERY.unsqueeze(2)).squeeze(2)
            p[:, number] += c[:, now].log().sum(1)
    exact = (p.exp().sum(1) * chance).log()
    assert float(q @ exact) == pytest.approx(-3.6886, abs=5e-5)
    assert float(q @ p.mean(1)) == pytest.approx(-3.9571, abs=1e-4)
    pairs = torch.stack([p.unsqueeze(2).expand(-1, -1, 81), p.unsqueeze(1).expand(-1, 81, -1)], 1).flatten(2)
    lower, _ = bounds(pairs)
    assert float(q @ lower.mean(1)) == pytest.approx(-3.826, abs=3e-3)  # the sheet's is sampled
    # three draws: each is bounded with psi the mean of the two others; a third independent of a pair has mean p
    psi = pairs.logsumexp(1) - np.log(2)
    upper = (psi + (exact.unsqueeze(1) - psi).exp() - 1).mean(1)
    assert float(q @ upper) == pytest.approx(-3.431, abs=3e-2)
    triples = torch.from_numpy(np.random.default_rng(0).integers(81, size=(20_000, 3)))
    _, tube = bounds(p[:, triples].permute(0, 2, 1))
    mean = q @ tube
    assert abs(float(mean.mean()) - float(q @ upper)) < 6 * float(mean.std()) / 20_000**0.5
    assert float(q @ exact) < float(q @ upper)


def test_brackets_hold_the_truth_of_ancestral(noisy):
    """In the mean over 3 x 81 texts, within 6 standard errors; at psi = p the upper end is log p itself."""
    exact = output_distribution(noisy, L, deltas("linear", 2)).log()
    found = likelihood(noisy, "ancestral", EVERY.repeat(3, 1), "bracket", steps=2, draws=16, seed=4)
    below, above = exact.repeat(3) - found.lower, found.upper - exact.repeat(3)
    for side in (below, above):
        assert float(side.mean()) > -6 * float(side.std()) / len(side) ** 0.5
    assert bool((found.elbo <= found.lower + 1e-12).all())
    lower, upper = bounds(exact[:, None].expand(-1, 5))
    assert float((lower - exact).abs().max()) < 1e-12
    assert float((upper - exact).abs().max()) < 1e-12


def test_blocks_are_bracketed_one_by_one(noisy):
    """Draws of a block do not meet those of another: the lower end is the sum of logs of means, block by block."""
    found = likelihood(noisy, "blocks(block_length=2, inner='ancestral')", EVERY, "bracket", steps=4, draws=200)
    first = torch.where(torch.arange(L) < 2, EVERY, 3)
    pairs = (slice(0, 2), torch.full_like(EVERY, 3)), (slice(2, 4), first)
    exact = torch.zeros(len(EVERY), dtype=torch.float64)
    for part, context in pairs:
        i, j = range(L)[part]
        c = [noisy.posterior(context).gather(2, EVERY.unsqueeze(2)).squeeze(2)]
        for place in (i, j):
            shown = context.clone()
            shown[:, place] = EVERY[:, place]
            c.append(noisy.posterior(shown).gather(2, EVERY.unsqueeze(2)).squeeze(2))
        p = c[0][:, i] * c[0][:, j] / 2 + c[0][:, i] * c[1][:, j] / 4 + c[0][:, j] * c[2][:, i] / 4
        exact += p.log()
    assert abs(float((found.lower - exact).mean())) < 6 * float(found.error.norm()) / len(EVERY)
    assert float((found.upper - found.lower).max()) < 0.2
    whole = likelihood(noisy, "ancestral", EVERY, "bracket", steps=4, draws=200)
    assert float((found.upper - found.lower).mean()) < float((whole.upper - whole.lower).mean())


@pytest.mark.parametrize("name", ["entropy", "margin", "threshold", "factor", "entropy-bounded"])
def test_duel_of_other_rules_sums_to_one(noisy, name):
    sampler = name + POSITION
    found = likelihood(noisy, sampler, EVERY, "duel", steps=2)
    assert float(found.lower.exp().sum()) == pytest.approx(1, abs=1e-12)
    made = generate(noisy, sampler=sampler, steps=2, rows=200, length=L, seed=2)
    again = likelihood(noisy, sampler, made.tokens, "duel", steps=2)
    assert torch.allclose(again.lower, made.probability.log().sum(1), atol=1e-9)
    assert torch.equal(again.model_calls, made.model_calls)


def test_the_path_is_that_of_generation(noisy):
    """At a temperature, with given tokens, in blocks: the tokens have the probabilities that they were drawn with."""
    given = torch.tensor([3, 1, 3, 3])
    options = {"sampler": f'blocks(block_length=2, inner="margin{POSITION}")', "steps": 2, "temperature": 0.7}
    made = generate(noisy, given=given, rows=100, seed=1, **options)
    found = likelihood(noisy, texts=made.tokens, kind="duel", given=given, **options)
    assert torch.allclose(found.lower, made.probability.log().sum(1), atol=1e-9)


def test_impossible_texts():
    """zero3: texts that the language excludes have probability 0, and the others all of it; greedy writes one text."""
    language = chain(ZERO3)
    found = likelihood(Ideal(language), "left-to-right", EVERY, "duel", steps=L)
    assert torch.allclose(found.lower.exp(), torch.from_numpy(brute.distribution(language, L)), atol=1e-12)
    assert bool((found.lower == -torch.inf).any())
    greedy = likelihood(Ideal(language), "top-probability(ties='position', temperature=0)", EVERY, "duel", steps=L)
    assert sorted(greedy.lower.exp().tolist())[-2:] == [0, 1]
    some = likelihood(Ideal(language), "low-confidence" + POSITION, EVERY, "bracket", steps=2, draws=8)
    exact = likelihood(Ideal(language), "low-confidence" + POSITION, EVERY, "drawn", steps=2)
    impossible = exact.lower == -torch.inf
    assert bool((some.lower[impossible] == -torch.inf).all())
    assert bool((some.upper[impossible] == torch.inf).all()), "no draw is no proof"


def test_an_ideal_denoiser_one_by_one_is_the_language():
    language = languages.load("paper-2gram")
    rows = language.sample(3, 12, seed=1)
    exact = language.log_prob(rows)
    for sampler in ("entropy" + POSITION, "left-to-right", "best-order"):
        assert torch.allclose(likelihood(Ideal(language), sampler, rows, "duel", steps=12).lower, exact)
    found = likelihood(Ideal(language), "first-hitting", rows, "bracket", draws=3)
    assert torch.allclose(found.lower, exact)
    assert torch.allclose(found.upper, exact)


@pytest.mark.parametrize(
    ("sampler", "kind", "message"),
    [
        ("low-confidence", "duel", "DUEL is not its likelihood"),
        ("top-probability", "duel", "breaks ties by chance"),
        ("ancestral", "duel", "draws its order"),
        ("top-probability" + POSITION, "drawn", "chooses before it draws"),
        ("low-confidence", "drawn", "random numbers besides its tokens'"),
        ("low-confidence(ties='topk')", "bracket", "order of equal scores is undocumented"),
        ("wino", "bracket", "re-masks tokens"),
        ("remdm", "duel", "re-masks tokens"),
        (PUNT, "bracket", "without a closed form"),
        ("autoregressive", "bracket", "reads an AR model"),
        (f"{CREDIT}(temperature=0, ties='position')", "duel", "writes tokens by a rule without a closed form"),
        ("left-to-right", "elbo", "elbo"),
    ],
)
def test_refusals(noisy, sampler, kind, message):
    with pytest.raises(UnmaskError, match=message) as caught:
        likelihood(noisy, sampler, EVERY[:2], kind, steps=2)
    assert "\n" not in str(caught.value)


def test_refused_texts(noisy):
    for texts, message in (
        (torch.tensor([[0, 1, 3, 1]]), "token 3; expected 0 to 2"),
        (torch.zeros((0, 4), dtype=torch.int64), "expected"),
        (torch.zeros(4, dtype=torch.int64), "expected"),
    ):
        with pytest.raises(UnmaskError, match=message):
            likelihood(noisy, "left-to-right", texts, "duel")
    with pytest.raises(UnmaskError, match="continue them"):
        likelihood(noisy, "left-to-right", EVERY[:1], "duel", given=torch.tensor([1, 3, 3, 3]))
    with pytest.raises(UnmaskError, match="given as a whole"):
        likelihood(noisy, "low-confidence" + POSITION, EVERY[:1], "drawn", given=EVERY[0])
    language = languages.load("paper-2gram")
    with pytest.raises(UnmaskError, match="expected at most 12"):
        likelihood(Ideal(language), "low-confidence" + POSITION, language.sample(1, 13), "drawn")


SOME = {"best-order"}  # need a language


@pytest.mark.parametrize("name", [name for name in SAMPLERS.names() if name not in SOME])
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


@pytest.mark.parametrize(
    ("sampler", "wrong"),
    [
        (LowConfidence(ties="position", temperature=0.6), lambda c, s, second, *rest: (c, c, second, *rest)),
        (LowConfidence(ties="position"), lambda c, s, second, *rest: (c, s, -second, *rest)),
        (LowConfidence(ties="position"), lambda c, s, second, tokens, _: (c, s, second, tokens, 0.3)),
    ],
    ids=["scores of the sharpened marginals", "equal scores the other way", "coarse scores"],
)
def test_planted_mistakes_fail(monkeypatch, sampler, wrong):
    denoiser, right = Quarters(3, L), drawn.draws
    truth = by_walking(denoiser, sampler, L, [1, 1, 1, 1])

    def error():
        found = likelihood(denoiser, sampler, EVERY[::4], "drawn", steps=L)
        return float((found.lower.exp() - truth[::4]).abs().max())

    assert error() < 1e-12
    monkeypatch.setattr(drawn, "draws", lambda *arguments: right(*wrong(*arguments)))
    assert error() > 1e-4
