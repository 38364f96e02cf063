"""The whole measurement: golden numbers, claims, costs, intervals, and models that did not write the rows."""

from __future__ import annotations

import math
from itertools import permutations, product

import numpy as np
import pytest
import torch

import unmask
from tests.diagnosis.gap.toys import Bits, Toy, V, all_subsets, summed, surest, walked
from tests.models.open.small import CONFIGS, card, load, published
from unmask.core.chance import Randomness, Stream
from unmask.core.errors import UnmaskError
from unmask.diagnosis.gap.estimators import measure, read
from unmask.diagnosis.gap.measure import _setting
from unmask.diagnosis.gap.path import Reader, of_generation
from unmask.samplers import SAMPLERS
from unmask.samplers.contract import as_sampler
from unmask.samplers.joint import as_joint, log_paths

ROWS = 2000
SIGMAS = 6.2  # a false alarm in 1e-9 runs


def near(estimate, exact):
    return abs(estimate.value - exact) < SIGMAS * estimate.standard_error


def drift(model, made):
    """The largest mean difference of the recorded log probabilities of a step from the model's own."""
    setting = _setting(model, made.configuration, as_sampler(made.configuration["sampler"]))
    return float(measure(Reader(setting.denoiser, of_generation(made)), "one", 0)[2].apart.max())


@pytest.fixture(scope="module")
def exact():
    """KL of the two lowest entropies a step, noisy, L = 5."""
    path, probability = walked(Toy(5, 0.4), surest(2))
    every = all_subsets(path)
    return float(probability @ summed(path, every, read(Reader(Toy(5, 0.4), path), every).nats))


@pytest.mark.parametrize("calls", ["one", "chain"])
def test_all_estimates_are_of_the_divergence(exact, calls):
    toy = Toy(5, 0.4)
    made = unmask.generate(toy, sampler="entropy", steps=3, length=5, rows=ROWS, seed=4)
    gap = unmask.gap(toy, made, calls=calls, seed=1, reference=0)
    assert gap.claim == "divergence"
    assert near(gap.sequence, exact)
    assert gap.token.value == pytest.approx(gap.sequence.value / 5)
    assert f"costs {gap.sequence.value:.3g} nats per sequence" in gap.verdict
    assert gap.model_calls == 2 * 2 * ROWS  # at both steps of two tokens
    assert drift(toy, made) < 1e-12


def test_the_claim_is_that_of_the_sampler():
    toy = Toy(4, 0.4)
    how = {"steps": 2, "length": 4, "rows": 30, "reference": 0}
    claims = {
        "ancestral": "divergence",
        "blocks(block_length=2, inner='entropy')": "divergence",
        "low-confidence": "ratio",
        "llada(temperature=1, block_length=2)": "ratio",
        "remdm": "path",
        "wino": "ratio",
        "llada(block_length=2)": "greedy",
        "threshold(temperature=0)": "greedy",
    }
    for sampler, claim in claims.items():
        assert unmask.gap(toy, sampler=sampler, **how).claim == claim, sampler
    assert unmask.gap(toy, temperature=0, **how).claim == "greedy"


def test_temperature_sharpens_both_sides():
    """At T = .5 a step of all three tokens, against the chain of the sharpened denoiser."""
    toy = Toy(3, 0.4)
    sharp = unmask.denoisers.Sharpened(toy, 0.5)
    made = unmask.generate(toy, steps=1, length=3, rows=ROWS, temperature=0.5, seed=3)
    other = unmask.generate(sharp, steps=1, length=3, rows=ROWS, seed=3)
    first, second = (unmask.gap(*one, reference=0).sequence for one in ((toy, made), (sharp, other)))
    assert first == second
    inside = unmask.gap(
        toy, sampler="threshold(threshold=0, temperature=0.5)", length=3, rows=ROWS, seed=5, reference=0
    )
    assert near(inside.sequence, first.value)


def test_greedy_decoding_has_first_flips_and_changes():
    """First flips: the others of the step stand as written. Changes: the row is decoded again, one at a time."""
    toy = Toy(6, 0.4)
    gap = unmask.gap(toy, sampler="top-probability", steps=1, length=6, rows=500, temperature=0, reference=500)
    assert near(gap.flips, 0.3667)
    assert gap.sequence is None
    best, changed = toy.posterior(torch.full((1, 6), V))[0].argmax(1), 0
    for order in permutations(range(6)):  # at temperature 0 all positions are equally probable
        now = torch.full((1, 6), V)
        for i in order:
            now[0, i] = toy.posterior(now)[0, i].argmax()
        changed += int((now[0] != best).sum())
    assert near(gap.reference.differ, changed / 720)
    assert changed / 720 > 2 * 0.3667
    assert "change if decoded one at a time" in gap.verdict


def test_impossible_rows_are_counted_and_left_out():
    language = unmask.languages.load("paper-2gram")
    made = unmask.generate(language, steps=4, length=16, rows=300, seed=1)
    gap = unmask.gap(language, made, reference=0)
    ser = unmask.score(made, language).ser
    assert gap.logs
    assert gap.infinite == ser
    assert gap.verdict.startswith(f"{ser.value:.1%} of the sequences have probability 0 under the model itself")
    whole = unmask.gap(language, made, calls="chain", reference=0)  # of possible rows: log p(x | order) - log q(x)
    exact = made.probability.log().sum(1) - language.log_prob(made.tokens)
    torch.testing.assert_close(whole.nats[whole.finite], exact[whole.finite], atol=1e-9, rtol=0)


STRINGS = [0.5, 0, 0, 0.5], [0.2, 0, 0.1, 0.3, 0, 0.05, 0.35, 0], [0.4, 0.1, 0, 0, 0.1, 0, 0, 0.4]


@pytest.mark.parametrize("q", STRINGS)
@pytest.mark.parametrize("calls", ["one", "chain"])
def test_impossible_rows_are_corrected_for(q, calls):
    """Bits drawn at once: s and KL(p | possible || q) by enumeration. In the first case, the loss is 0."""
    bits = Bits(np.array(q))
    p = bits.table((2,) * bits.texts.shape[1]).gather(1, bits.texts.T).prod(0)
    possible, q = torch.tensor(q) > 0, torch.tensor(q, dtype=torch.float64)
    s = float(p[~possible].sum())
    there = p[possible] / (1 - s)
    gap = unmask.gap(bits, steps=1, length=bits.texts.shape[1], rows=ROWS, seed=2, calls=calls, reference=0)
    assert gap.estimator == "chain"
    assert abs(gap.infinite.value - s) < SIGMAS * (s * (1 - s) / ROWS) ** 0.5
    exact = float(there @ (there.log() - q[possible].log()))
    assert near(gap.sequence, exact)
    assert not near(gap.sequence, exact + math.log(1 - s))  # planted: without the correction
    assert gap.verdict.startswith(f"{gap.infinite.value:.1%} of the sequences have probability 0")


@pytest.mark.parametrize("calls", ["one", "chain"])
def test_what_top_p_excludes_is_that_of_a_random_order(calls):
    """All texts and orders: the fraction to which a random order gives no probability, whatever `calls` says."""
    toy, length = Toy(4, 0.4), 4
    sharp = unmask.denoisers.Sharpened(toy, 1.0, 0.7)
    texts = unmask.metrics.sequences(V, length)
    seen = {
        text: sharp.posterior(torch.tensor([text]))[0] for text in product(range(V + 1), repeat=length) if V in text
    }
    p = torch.stack([seen[(V,) * length][i][texts[:, i]] for i in range(length)]).prod(0)
    s = 0.0
    for text, weight in zip(texts.tolist(), p.tolist(), strict=True):
        for order in permutations(range(length)) if weight else ():
            now, possible = [V] * length, True
            for i in order:
                possible &= float(seen[tuple(now)][i][text[i]]) > 0
                now[i] = text[i]
            s += weight * (not possible) / math.factorial(length)
    gap = unmask.gap(toy, steps=1, length=length, rows=ROWS, top_p=0.7, seed=2, calls=calls, reference=0)
    assert abs(gap.infinite.value - s) < SIGMAS * (s * (1 - s) / ROWS) ** 0.5
    assert 0.3 < s < 0.9


@pytest.mark.parametrize("draw", ["product", "fitted", "alone", "coupled"])
@pytest.mark.parametrize("sampler", ["strided", "left-to-right"])
def test_joint_draws_have_the_gap_of_their_own_distribution(draw, sampler):
    """KL(p || q) of the possible strings, with p of the draw."""
    language = unmask.languages.load("paper-2gram")
    gap = unmask.gap(language, sampler=sampler, draw=draw, steps=2, length=4, rows=ROWS, seed=3, reference=0)
    made = unmask.generate(language, sampler=sampler, steps=2, length=4, rows=1)
    texts = unmask.metrics.sequences(8, 4)
    texts = texts[language.supports(texts)]
    joint = as_joint(draw, as_sampler(sampler), unmask.denoisers.Ideal(language), 4)
    p = log_paths(unmask.denoisers.Ideal(language), texts, made.order.expand(len(texts), -1), joint).exp()
    s = 1 - float(p.sum())  # of impossible strings, which the product alone writes
    p, q = p[p > 1e-12], language.log_prob(texts[p > 1e-12])
    exact = float((p * (p.log() - q)).sum()) / (1 - s) - math.log(1 - s)
    assert gap.joint == (draw != "product")
    assert near(gap.sequence, exact)
    assert abs(gap.infinite.value - s) < 0.06
    assert abs(s) < 1e-9 or not gap.joint


def test_traces_of_other_programs(tmp_path):
    toy = Toy(5, 0.4)
    made = unmask.generate(toy, sampler="entropy", steps=3, length=5, rows=200, seed=4)
    made.trace().write(tmp_path / "trace.json")
    trace = unmask.gap(toy, tmp_path / "trace.json", reference=0)
    torch.testing.assert_close(trace.nats, unmask.gap(toy, made, reference=0).nats)
    assert (trace.claim, trace.spent) == ("divergence", 600)
    import msgspec

    for name in (None, "my loop", "os:system"):  # a file imports nothing
        other = msgspec.structs.replace(made.trace(), sampler=name)
        assert unmask.gap(toy, other).claim == "unknown"
    assert unmask.gap(toy, other, sampler="low-confidence").claim == "ratio"


def test_rows_of_another_model_are_refused():
    made = unmask.generate(Toy(5, 0.4), steps=1, length=5, rows=50, temperature=0.2, seed=1)
    with pytest.raises(UnmaskError, match="differ by a factor of"):
        unmask.gap(Toy(5, 0.4), made.trace())
    with pytest.raises(UnmaskError, match="the rows have 3 symbols"):
        unmask.gap("paper-2gram", made)
    warm = unmask.generate(Toy(5, 0.4), steps=1, length=5, rows=50, temperature=9.0, seed=1)
    with pytest.raises(UnmaskError, match="not this model's most likely"):
        unmask.gap(Toy(5, 0.4), warm.trace(), temperature=0)
    with pytest.raises(UnmaskError, match="uses an AR model"):
        unmask.gap("paper-2gram", sampler="autoregressive", length=8, rows=20)
    with pytest.raises(UnmaskError, match="steps is an option of a generation"):
        unmask.gap(Toy(5, 0.4), made, steps=3)
    with pytest.raises(UnmaskError, match="expected a generation, a trace"):
        unmask.gap(Toy(5, 0.4), 7)
    with pytest.raises(UnmaskError, match="calls"):
        unmask.gap(Toy(5, 0.4), made, calls="two")
    full = unmask.generate(Toy(2), given=[[0, 1]], steps=1)
    with pytest.raises(UnmaskError, match="no drawn token"):
        unmask.gap(Toy(2), full)


@pytest.mark.parametrize("family", ["llada", "dream"])
@pytest.mark.parametrize("given", [None, [[3, 5, 40, 40, 40, 40], [7, 40, 40, 40]]])
def test_open_models_are_measured(tmp_path, family, given):
    model = load(published(tmp_path, family, CONFIGS[family]), card(family))
    hidden = model.vocabulary
    given = None if given is None else [[hidden if token == 40 else token for token in row] for row in given * 15]
    made = unmask.generate(model, steps=2, length=None if given else 6, rows=None if given else 30, given=given, seed=1)
    gap = unmask.gap(model, made, calls="chain", reference=2)
    assert drift(model, made) < 1e-4
    assert gap.sequence.value >= 0
    assert gap.model_calls > 0
    low = unmask.generate(model, sampler="low-confidence", steps=2, length=6, rows=30, seed=1)
    assert unmask.gap(model, low, reference=0).claim == "ratio"


def test_blocks_guidance_and_ends_are_those_of_the_generation(tmp_path):
    """Recorded probabilities are the model's own, in its own view: of its block, guided, sharpened, until the end."""
    model = load(published(tmp_path, "qwen3", CONFIGS["qwen3"]), card("qwen3", block=4))
    given = [[3, 5, *[model.vocabulary] * 10]] * 20 + [[3, *[model.vocabulary] * 8]] * 20
    how = {"given": given, "steps": 6, "seed": 1}
    for more in ({}, {"guidance": 1.5, "temperature": 0.7, "top_p": 0.9}, {"stop": 1}):
        made = unmask.generate(model, sampler="blocks(block_length=4)", **how, **more)
        gap = unmask.gap(model, made, reference=0)
        assert drift(model, made) < 1e-4
        assert gap.claim == "divergence"
        assert gap.written.tolist() == made.written.tolist()


def revealed(generation):
    """The positions of the first step of each row, also those that were re-masked."""
    return [next(row.steps()).revealed for row in generation.trace().rows]


def test_samplers_that_choose_first_ignore_the_tokens_of_a_step(monkeypatch):
    """With other uniforms for tokens alone, the first step of every row reveals the same positions."""
    uniform, shift = Randomness.uniform, [0.0]

    def shifted(self, stream, rows, positions, visits=0):
        u = uniform(self, stream, rows, positions, visits)
        return (u + shift[0]) % 1 if stream == Stream.TOKEN else u

    monkeypatch.setattr(Randomness, "uniform", shifted)
    toy, depends = Toy(5, 0.4), set()
    for name in SAMPLERS.names():
        try:
            sampler = SAMPLERS.make(name)
        except UnmaskError:
            continue  # it needs an option
        if sampler.reads != {"canvas"}:
            assert not sampler.chooses_before_drawing, name
            continue
        first = []
        for shift[0] in (0.0, 0.37):
            try:
                first.append(revealed(unmask.generate(toy, sampler=sampler, steps=2, length=5, rows=20, trace=True)))
            except UnmaskError:
                break  # it needs an ideal denoiser
        if len(first) == 2 and first[0] != first[1]:
            depends.add(name)
            assert not sampler.chooses_before_drawing, name
    assert "low-confidence" in depends
    assert V == 3
