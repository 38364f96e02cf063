"""Block diffusion, speculation, the crossover and derandomised orders: each against enumeration on tiny languages."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.brute import distribution, posterior, sequences
from tests.theory.small import every_order
from unmask import UnmaskError, generate
from unmask.ideal import Ideal
from unmask.languages import load, random_hmm, random_ngram
from unmask.metrics.enumeration import output_distribution
from unmask.schedules import deltas
from unmask.theory import crossover
from unmask.theory.blocks import of_blocks
from unmask.theory.known import error_curve
from unmask.theory.speculation import turns

NGRAMS = {
    "2-gram": (random_ngram(2, 3, 2.0, 0.15, seed=2), 2, 5),
    "2-gram, uneven": (random_ngram(2, 2, 2.0, 0.1, seed=1), 3, 5),
    "3-gram": (random_ngram(3, 2, 2.0, 0.2, seed=4), 2, 6),
    "one block": (random_ngram(3, 2, 2.0, 0.2, seed=5), 4, 3),
}


def block_law(language, block_length, length, delta):
    """(V^L): p(x) of filling one block after another, by all labels of each, the posteriors by summation."""
    strings, q, v = sequences(language.vocabulary, length), distribution(language, length), language.vocabulary
    told, p = {}, np.where(q > 0, 1.0, 0.0)
    for x in np.flatnonzero(q):
        for start in range(0, length, block_length):
            block = range(start, min(start + block_length, length))
            mass = 0.0
            for steps in product(range(len(delta)), repeat=len(block)):
                chance = float(np.prod([delta[k] for k in steps]))
                for j, mine in zip(block, steps, strict=True):
                    shown = [i < start or (i in block and steps[i - start] < mine) for i in range(length)]
                    context = tuple(np.where(shown, strings[x], v).tolist())
                    if context not in told:
                        told[context] = posterior(q, strings, np.array([context]), v)[0]
                    chance *= told[context][j, strings[x, j]]
                mass += chance
            p[x] *= mass
    return p


@pytest.mark.parametrize("name", NGRAMS)
@pytest.mark.parametrize("schedule", [("linear", 1), ("linear", 2), ("cosine", 3)])
def test_block_diffusion_is_exact(name, schedule):
    language, block_length, length = NGRAMS[name]
    delta = deltas(*schedule)
    blocks = of_blocks(language, block_length, delta)
    p, q = block_law(language, block_length, length, delta), distribution(language, length)
    there = q > 0
    assert blocks.ser(length) == pytest.approx(1 - p[there].sum(), abs=1e-12)
    nats = float(q[there] @ np.log(q[there] / p[there]))
    assert blocks.divergence(length) == pytest.approx(nats, abs=1e-12)
    bits = -float(q[there] @ np.log2(p[there])) / length
    assert blocks.ter_bits(length) == pytest.approx(bits, abs=1e-12)


def test_block_diffusion_is_what_is_sampled():
    language, length = load("paper-2gram"), 18
    made = generate(language, sampler="blocks(block_length=4, inner=ancestral)", steps=10, length=length, rows=4000)
    blocks = of_blocks(language, 4, deltas("linear", 2))
    wrong = float((~language.supports(made.tokens)).double().mean())
    assert wrong == pytest.approx(blocks.ser(length), abs=4 * math.sqrt(0.25 / 4000))
    assert float(made.model_calls.double().mean()) == pytest.approx(blocks.model_calls(length), abs=0.05)


def test_block_diffusion_falls_by_kappa():
    blocks = of_blocks(load("paper-2gram"), 3, deltas("linear", 2))
    valid = [1 - blocks.ser(length) for length in (60, 63)]
    assert (valid[1] / valid[0]) ** (1 / 3) == pytest.approx(blocks.kappa, abs=1e-10)
    assert blocks.divergence(3003) / 3003 == pytest.approx(blocks.divergence(6003) / 6003, rel=1e-3)


@pytest.mark.parametrize(
    ("language", "block_length", "message"),
    [
        (random_hmm(3, 3, seed=1), 3, "block diffusion of hmm is not known exactly; expected an n-gram"),
        (random_ngram(3, 2, seed=1), 1, "expected at least 2 for an n-gram of order 3"),
        (load("paper-2gram"), 5, "blocks of 5 of 8 symbols are too many"),
    ],
)
def test_blocks_that_are_refused(language, block_length, message):
    with pytest.raises(UnmaskError, match=message):
        of_blocks(language, block_length, deltas("linear", 2))


def turns_by_tree(chain, length, draft_length):
    """Every draft and every verdict, one after another, with their chances."""
    initial, transition, size = chain.initial, chain.transition, chain.vocabulary

    def step(a):
        return initial if a is None else transition[a]

    def said(a, i):
        return step(a) @ np.linalg.matrix_power(transition, i - 1)

    def expected(a, g):
        if g <= 0:
            return 0.0
        drafts = min(draft_length, g)

        def walk(i, last):  # i drafts are kept, the last of which is `last`
            if i == drafts:
                return 0.0 if g == drafts else sum(p * expected(t, g - i - 1) for t, p in enumerate(step(last)))
            d, target = said(a, i + 1), step(last)
            total, rest = 0.0, np.maximum(target - d, 0)
            for y in range(size):
                if d[y] > 0:
                    keep = min(1.0, target[y] / d[y])
                    total += d[y] * keep * walk(i + 1, y) if keep else 0.0
                    if keep < 1:
                        again = sum(rest[t] / rest.sum() * expected(t, g - i - 1) for t in range(size) if rest[t])
                        total += d[y] * (1 - keep) * again
            return total

        return 1.0 + walk(0, a)

    return expected(None, length)


@settings(max_examples=15, deadline=None, derandomize=True)
@given(seed=st.integers(0, 10**6), size=st.integers(2, 3), draft_length=st.integers(1, 4))
def test_the_turns_of_speculation(seed, size, draft_length):
    chain = random_ngram(2, size, 2.0, 0.1, seed=seed)
    found = turns(chain, 4, draft_length)
    assert found == pytest.approx([turns_by_tree(chain, n, draft_length) for n in (1, 2, 3, 4)], abs=1e-12)


@pytest.mark.parametrize("draft_length", [1, 4, 30])
def test_the_turns_of_speculation_are_what_is_counted(draft_length):
    language = load("paper-2gram")
    made = generate(language, sampler=f"speculative(draft_length={draft_length})", length=24, rows=1000)
    for count in made.model_calls_of.values():
        spread = float(count.double().std()) / math.sqrt(1000)
        assert float(count.double().mean()) == pytest.approx(
            turns(language, 24, draft_length)[-1], abs=4 * spread + 1e-9
        )


def test_speculation_is_of_chains():
    with pytest.raises(UnmaskError, match="the number of speculative steps on brackets has no formula"):
        turns(load("brackets"), 8, 4)
    with pytest.raises(UnmaskError, match="draft_length is 0"):
        turns(load("paper-2gram"), 8, 0)


@pytest.mark.parametrize("ser", [0.1, 0.5, 0.9])
def test_the_crossover_law_is_the_limit(ser):
    """Of the interval language, whose SER is known for any L and N: model calls until it is at most this, over L."""
    interval, length = load("interval-5"), 51_000
    form = interval.closed_form
    constant = error_curve(interval, 510).constant.value / 510
    assert constant == pytest.approx(1.0, abs=0.01)  # (l-1)/4
    steps = round(length / -math.log1p(-ser))
    reached = form.ser(length, deltas("linear", steps))
    model_calls = steps * -math.expm1(length * math.log1p(-1 / steps))
    assert model_calls / length == pytest.approx(crossover.model_calls_per_token(1.0, reached), rel=0.05 * ser + 0.005)


@given(st.floats(1e-6, 1 - 1e-6), st.floats(1e-3, 10))
@settings(derandomize=True, deadline=None)
def test_both_take_as_long_where_they_cross(ratio, constant):
    x = crossover.crossing(ratio)
    assert crossover.calls_per_token(x) == pytest.approx(ratio, rel=1e-9)
    ser = crossover.ser_at(constant, ratio)
    if 1e-9 < ser < 1 - 1e-9:
        assert crossover.model_calls_per_token(constant, ser) == pytest.approx(ratio, rel=1e-5)


def test_where_there_is_no_crossing():
    assert crossover.ser_at(0.1, 1.0) == 0.0
    assert crossover.ser_at(0.0, 0.5) == 0.0
    for wrong in (0.0, 1.0):
        with pytest.raises(UnmaskError, match="ser is"):
            crossover.model_calls_per_token(1.0, wrong)
    with pytest.raises(UnmaskError, match=r"ratio is 1\.5"):
        crossover.crossing(1.5)
    with pytest.raises(UnmaskError, match="constant is -1"):
        crossover.ser_at(-1, 0.5)


@pytest.mark.parametrize("seed", range(12))
def test_some_order_is_as_good_as_chance(seed):
    """And the mixture, which is ancestral sampling, is closer to q than its orders are on average."""
    language = random_ngram(2, 3, 2.0, 0.15, seed=seed) if seed % 2 else random_hmm(3, 2, 2.0, 0.15, seed=seed)
    delta = deltas("cosine", 3)
    found = every_order(language, 4, delta)
    p, q = output_distribution(Ideal(language), 4, delta).numpy(), distribution(language, 4)
    assert float(found.chance @ found.ser) == pytest.approx(1 - p[q > 0].sum(), abs=1e-12)
    assert found.mixture == pytest.approx(float(q[q > 0] @ np.log(q[q > 0] / p[q > 0])), abs=1e-12)
    assert found.ser.min() <= found.chance @ found.ser + 1e-12
    assert found.divergence.min() <= found.chance @ found.divergence + 1e-12
    assert found.mixture <= found.chance @ found.divergence + 1e-12


def test_how_much_an_order_is_worth():
    """What docs/theory.md 12 says of 123 tiny languages."""
    generator, sers, mixtures = np.random.default_rng(0), [], []
    for seed in range(123):
        n, v, length, steps = (int(generator.integers(*ends)) for ends in ((2, 4), (2, 4), (4, 6), (2, 4)))
        length = 4 if v**length > 300 else length
        language = random_ngram(n, v, 2.0, 0.15, seed=seed) if seed % 2 else random_hmm(3, v, 2.0, 0.15, seed=seed)
        found = every_order(language, length, deltas("linear", steps))
        mixtures.append(found.mixture_ratio)
        if found.chance @ found.ser > 1e-9:
            sers.append(found.ser_ratio)
    assert (len(sers), sum(ratio < 1 - 1e-9 for ratio in mixtures)) == (74, 1)
    assert np.mean(sers) == pytest.approx(0.0455, abs=5e-4)


def test_chance_may_help_the_divergence():
    """Two fair positions that always agree, in one step of two: no; but of three, some mixture beats every order."""
    ratios = [
        every_order(random_hmm(3, 2, 2.0, 0.15, seed=seed), 4, deltas("linear", 2)).mixture_ratio for seed in range(40)
    ]
    assert min(ratios) < 1
