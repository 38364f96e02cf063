"""The order profile: by its definitions on small rows, on known orders, and on Dream's published default."""

from __future__ import annotations

import math

import pytest
import torch
from scipy.stats import kendalltau

from tests.hub.small import CONFIGS, MASK, V, card, load, published
from unmask import generate, languages
from unmask.generation.order import MOST, order_profile
from unmask.generation.trace import Row, Trace

LANGUAGE = languages.load("paper-2gram")


def by_definition(order):
    """(tau, tau_most, leftmost, leftmost_random, neighbours, tokens a step), pair by pair and step by step."""
    taus, mosts, left, random, steps, beside, several, tokens = [], [], [], [], 0, 0, 0, 0
    for row in order:
        places = [i for i, step in enumerate(row) if step]
        pairs = [(row[i], row[j]) for i in places for j in places if i < j]
        apart = [(a, b) for a, b in pairs if a != b]
        turns = sorted({row[i] for i in places})
        steps, tokens = steps + len(turns), tokens + len(places)
        for step in turns:
            taken = [i for i in places if row[i] == step]
            several += len(taken) > 1
            beside += any(i + 1 in taken for i in taken)
            hidden = [i for i in places if row[i] >= step]
            if step != turns[-1]:
                left.append(hidden[0] in taken)
                random.append(len(taken) / len(hidden))
        if len(turns) > 1:
            taus.append(sum(1 if a < b else -1 for a, b in apart) / math.sqrt(len(pairs) * len(apart)))
            mosts.append(math.sqrt(len(apart) / len(pairs)))
    mean = [sum(one) / len(one) if one else None for one in (taus, mosts, left, random)]
    return (*mean, beside / several if several else None, tokens / steps)


@pytest.mark.parametrize("most", [2, 5, 30])
def test_every_number_is_that_of_its_definition(most):
    rng = torch.Generator().manual_seed(most)
    order = torch.randint(0, most + 1, (20, 11), generator=rng)
    p = torch.rand(order.shape, dtype=torch.float64, generator=rng)
    found = order_profile(order, p)
    wanted = by_definition(order.tolist())
    numbers = (found.tau, found.tau_most, found.leftmost, found.leftmost_random, found.neighbours)
    assert (*numbers, found.tokens_per_step) == pytest.approx(wanted, abs=1e-12)
    assert found.nats_per_token == pytest.approx(-float(p[order > 0].log().mean()))
    row = order[0][order[0] > 0].tolist()
    alone = order_profile(order[:1], p[:1])
    assert alone.tau == pytest.approx(kendalltau(range(len(row)), row).statistic)


def test_known_orders():
    def profile(sampler, steps=16):
        return generate(LANGUAGE, sampler=sampler, steps=steps, length=16, rows=40, seed=1).order_profile()

    one = profile("left-to-right")
    assert (one.tau, one.tau_most, one.leftmost, one.tokens_per_step) == (1, 1, 1, 1)
    four = profile("left-to-right", 4)
    assert (four.tau, four.leftmost, four.neighbours, four.tokens_per_step) == (four.tau_most, 1, 1, 4)
    assert four.tau_most == pytest.approx(math.sqrt(96 / 120))
    some = profile("fixed-size", 8)
    # the mean of 40 taus of 16 positions, each with standard deviation 0.19: 7 standard errors are 0.21
    assert abs(some.tau) < 0.21
    assert (one.warning, some.warning) == (None, None)
    together = profile("fixed-size", 1)
    assert (together.tau, together.leftmost, together.tokens_per_step) == (None, None, 16)


def test_what_is_left_out():
    """Given tokens, padding, what is behind an end, and tokens that were taken back."""
    made = generate(LANGUAGE, given=[[8, 8, 3, 8], [8, 8]], sampler="left-to-right", steps=4)
    assert (made.order_profile().choices, made.order_profile().tokens_per_step) == (3, 1.0)
    stopped = generate(LANGUAGE, sampler="left-to-right", length=16, steps=16, rows=30, stop=0, seed=3)
    assert int(stopped.lengths.min()) < 16
    assert stopped.order_profile().choices == int((stopped.lengths - 1).sum())
    events = [(1, 0, 5, 0.5), (1, 2, 1, 0.5), (2, 2, None, None), (2, 1, 7, 0.5), (3, 2, 4, 0.25), (4, 3, 7, 0.5)]
    trace = Trace(vocabulary=8, rows=[Row(length=5, events=events)])
    whole = trace.order_profile()
    assert (whole.tau, whole.choices, whole.nats_per_token) == (1, 3, pytest.approx(5 * math.log(2) / 4))
    assert trace.order_profile(ends=(4,)).choices == 2
    assert trace.order_profile(ends=(5,)).tau is None


@pytest.mark.parametrize("sampler", ["ancestral", "gibbs", "low-confidence", "blocks(block_length=4)"])
def test_a_trace_has_the_profile_of_its_generation(sampler):
    made = generate(LANGUAGE, sampler=sampler, length=12, rows=5, steps=6, trace=True)
    ours, theirs = made.order_profile().to_dict(), made.trace().order_profile().to_dict()
    assert theirs == {name: pytest.approx(value) for name, value in ours.items()}
    assert made.summary()["order"] == ours


def test_many_rows_are_profiled_evenly():
    order = torch.arange(1, 5).repeat(10 * MOST, 1)
    order[: 5 * MOST] = order[: 5 * MOST].flip(1)
    found = order_profile(order, torch.ones(order.shape))
    assert (found.rows, found.tau) == (MOST, 0)


def test_dreams_default_is_left_to_right_in_disguise():
    """Temperature 0.1 and top-p 0.9 leave one token nearly everywhere: entropies are zero, and the first one goes."""
    language = languages.load("paper-3gram")
    given = language.sample(20, 60, seed=1)
    given[:, torch.arange(60) % 4 > 0] = language.vocabulary
    asked = {"given": given, "steps": 45}
    sharp = generate(language, sampler="dream(alg=entropy, ties=position)", temperature=0.1, top_p=0.9, **asked)
    greedy = generate(language, sampler="dream(alg=entropy, ties=position, temperature=0)", **asked)
    assert sharp.order_profile().tau > 0.95
    assert "left to right in disguise" in sharp.order_profile().warning
    assert "of the tokens had probability 1: equal scores do not rank positions" in sharp.order_profile().warning
    assert greedy.order_profile().tau < 0.7
    assert greedy.order_profile().warning is None


def test_a_random_dream_checkpoint_does_the_same(tmp_path):
    """Its head is scaled so that it is about as sure as a trained one: the likeliest token has half of the mass."""
    model = load(published(tmp_path, "dream", CONFIGS["dream"]), card("dream", prediction="shifted"))
    with torch.no_grad():
        model.body.lm_head.weight.mul_(4)
    rng = torch.Generator().manual_seed(2)
    given = torch.randint(0, MASK, (8, 40), generator=rng)
    given[:, 8:] = V
    asked = {"given": given, "steps": 32}
    sharp = generate(model, sampler="dream(alg=entropy, ties=position)", temperature=0.1, top_p=0.9, **asked)
    greedy = generate(model, sampler="dream(alg=entropy, ties=position, temperature=0)", **asked)
    assert sharp.order_profile().warning is not None
    assert greedy.order_profile().warning is None
    assert abs(greedy.order_profile().tau) < 0.5
