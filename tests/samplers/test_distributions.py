"""The output law of every sampler on tiny languages, against enumeration; and wrong samplers, which must not pass.

Chi-square tests have fixed seeds and a false-alarm rate of 1e-6 each; a row where the law is zero fails at once.
"""

from __future__ import annotations

import itertools
import math
from functools import cache

import numpy as np
import pytest
import torch

from tests.brute import distribution, p_value, sequences, tiny_languages
from unmask import generate
from unmask.core.chance import Stream
from unmask.denoisers import Canvas, Ideal, Perturbed
from unmask.languages import Interval, Language, random_ngram
from unmask.metrics import output_distribution
from unmask.samplers import Choice, Sampler, Session, View, schedules, walk
from unmask.samplers.ranking import ranks
from unmask.samplers.rules.autoregressive import Autoregressive
from unmask.samplers.rules.fixed_orders import Ancestral
from unmask.samplers.rules.low_confidence import LowConfidence
from unmask.samplers.rules.speculative import Speculative

ALARM = 1e-6
ROWS = 20_000  # at which every wrong sampler below is caught with p < 1e-80
CASES = {
    "2-gram": (random_ngram(2, 3, temperature=2.0, threshold=0.15, seed=2), 4),
    "3-gram": (random_ngram(3, 2, threshold=0.3, seed=5), 4),
    "interval": (Interval(3), 4),
    "hmm": (tiny_languages()["hmm, sparse"][0], 4),
    "final": (tiny_languages()["hmm, final"][0], 4),
    "leak": (Perturbed(random_ngram(2, 3, temperature=2.0, threshold=0.15, seed=2), "leak", 0.1), 4),
}


def denoiser_of(name):
    source, length = CASES[name]
    return (Ideal(source) if isinstance(source, Language) else source), length


@cache
def said(name, context):
    """Marginals (L, V) of a context: the sums over what samplers can meet come by each many times."""
    return denoiser_of(name)[0].posterior(torch.tensor([context]))[0].numpy()


@cache
def fits(name):
    """context (a tuple with V where hidden) -> probability of each sequence's tokens there, (V^L, L)."""
    denoiser, length = denoiser_of(name)
    every = torch.from_numpy(sequences(denoiser.vocabulary, length))
    table = {}
    for bits in itertools.product([False, True], repeat=length):
        context = torch.where(torch.tensor(bits), every, denoiser.vocabulary)
        table[bits] = denoiser.posterior(context).gather(2, every.unsqueeze(2)).squeeze(2).numpy()
    return table


def order_distribution(name, orders):
    """sum over (probability, order) of the product over steps, and over each step, of p(x_j | earlier steps)."""
    denoiser, length = denoiser_of(name)
    total = np.zeros(denoiser.vocabulary**length)
    for probability, order in orders:
        mass = np.full(len(total), probability)
        for now in sorted(set(order)):
            shown = fits(name)[tuple(tau < now for tau in order)]
            for j in (j for j, tau in enumerate(order) if tau == now):
                mass = mass * shown[:, j]
        total += mass
    return total


def labels(delta, length):
    """Every assignment of steps with its probability under i.i.d. labels."""
    steps = range(len(delta))
    return [(math.prod(delta[k] for k in order), order) for order in itertools.product(steps, repeat=length)]


def fixed(counts):
    """Every assignment that gives counts[k] positions to step k, equally likely."""
    base = [k for k, count in enumerate(counts) for _ in range(count)]
    orders = set(itertools.permutations(base))
    return [(1 / len(orders), order) for order in orders]


def order_of(sampler, steps, length):
    """The distribution of the order of each planned sampler, by its definition."""
    delta = schedules.deltas("linear", steps)
    counts = [length // steps + (k < length % steps) for k in range(steps)]
    match sampler:
        case "ancestral":
            return labels(delta.tolist(), length)
        case "fixed-size":
            return fixed(counts)
        case "left-to-right":
            return [(1.0, tuple(k for k, count in enumerate(counts) for _ in range(count)))]
        case "strided":
            return [(1.0, tuple(j % steps for j in range(length)))]
        case "dyadic":
            halvings = [steps - 1 if j == 0 else min(steps - 1, (j & -j).bit_length() - 1) for j in range(length)]
            return [(1.0, tuple(steps - 1 - h for h in halvings))]
        case "first-hitting":
            return fixed([1] * length)
        case "blocks(block_length=2)":
            halves = [steps // 2 + steps % 2, steps // 2]
            parts = [fixed([2 // s + (k < 2 % s) for k in range(s)]) for s in halves]
            return [
                (p * q, (*first, *(k + halves[0] for k in second)))
                for (p, first), (q, second) in itertools.product(*parts)
            ]
    raise ValueError(sampler)


PLANNED = ["ancestral", "fixed-size", "left-to-right", "strided", "dyadic", "blocks(block_length=2)"]
PLANNED += ["first-hitting"]


def drawn(name, **options):
    source, length = CASES[name]
    return generate(source, length=length, rows=ROWS, **options).tokens.numpy()


def passes(name, p, **options):
    denoiser, length = denoiser_of(name)
    return p_value(drawn(name, **options), sequences(denoiser.vocabulary, length), p) > ALARM


@pytest.mark.rotates(3)
@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("sampler", PLANNED)
def test_planned_samplers_follow_their_law(name, sampler):
    for steps in (1, 2, 3, 4):
        if sampler.startswith("blocks") and steps == 1:
            continue
        p = order_distribution(name, order_of(sampler, steps, CASES[name][1]))
        assert p.sum() == pytest.approx(1, abs=1e-10)
        assert passes(name, p, sampler=sampler, steps=steps, seed=steps), steps


def order_passes(sampler, steps, expected, rows=ROWS):
    """Chi-square of the orders themselves, which see a wrong rate that few tokens betray."""
    language, length = CASES["interval"]
    made = generate(language, sampler=sampler, steps=steps, length=length, rows=rows, seed=5)
    probabilities = {order: 0.0 for _, order in expected}
    for probability, order in expected:
        probabilities[order] += probability
    return (
        p_value(made.order.numpy() - 1, np.array(list(probabilities)), np.array(list(probabilities.values()))) > ALARM
    )


@pytest.mark.parametrize("rows", [ROWS, pytest.param(60_000, marks=pytest.mark.long)])
@pytest.mark.parametrize("sampler", PLANNED)
def test_orders_follow_their_law(sampler, rows):
    for steps in (2, 3, 4):
        assert order_passes(sampler, steps, order_of(sampler, steps, CASES["interval"][1]), rows)


@pytest.mark.rotates(4)
@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("schedule", ["linear", "cosine", "geometric(ratio=3)", [0.5, 0.0, 0.3, 0.2]])
def test_enumerated_law_is_the_sum_over_all_labels(name, schedule):
    denoiser, length = denoiser_of(name)
    for steps in (1, 2, 3, 4) if isinstance(schedule, str) else (4,):
        delta = schedules.deltas(schedule, steps)
        expected = order_distribution(name, labels(delta.tolist(), length))
        np.testing.assert_allclose(output_distribution(denoiser, length, delta).numpy(), expected, atol=1e-12)


@pytest.mark.rotates(4)
@pytest.mark.parametrize("name", ["2-gram", "3-gram", "interval", "hmm", "final"])
def test_many_rounds_are_the_language_itself(name):
    """At N = 10^6 two of 4 positions share a step with probability 6e-6: far below what the test can see."""
    language, length = CASES[name]
    q = distribution(language, length)
    for sampler in ("ancestral", "left-to-right", "fixed-size"):
        assert passes(name, q, sampler=sampler, steps=10**6, seed=7)


@pytest.mark.rotates(4)
@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("sampler", ["autoregressive", "speculative(draft_length=2)", "speculative(draft_length=4)"])
def test_autoregressive_and_speculative_follow_the_causal_law(name, sampler):
    """Left to right one at a time, whatever the drafts are; for the ideal denoiser that is q."""
    p = order_distribution(name, [(1.0, tuple(range(CASES[name][1])))])
    if name != "leak":
        np.testing.assert_allclose(p, distribution(*CASES[name]), atol=1e-10)
    assert passes(name, p, sampler=sampler, seed=11)


def low_confidence_law(name, steps, temperature=1.0):
    """Every step: all joint draws of the hidden positions, then every way to break the ties of the best counts."""
    denoiser, length = denoiser_of(name)
    v = denoiser.vocabulary
    states = {(v,) * length: 1.0}
    for count in [length // steps + (k < length % steps) for k in range(steps)]:
        following: dict[tuple[int, ...], float] = {}
        for context, mass in states.items():
            marginals = said(name, context)
            heated = marginals ** (1 / temperature) if temperature else np.eye(v)[marginals.argmax(1)]
            heated = heated / heated.sum(1, keepdims=True)
            hidden = [j for j in range(length) if context[j] == v]
            for tokens in itertools.product(range(v), repeat=len(hidden)):
                weight = mass * math.prod(heated[j, t] for j, t in zip(hidden, tokens, strict=True))
                if weight == 0:
                    continue
                scores = {j: round(marginals[j, t] * 1e9) for j, t in zip(hidden, tokens, strict=True)}
                written = dict(zip(hidden, tokens, strict=True))
                cut = sorted(scores.values(), reverse=True)[count - 1]
                sure = [j for j in hidden if scores[j] > cut]
                tied = list(itertools.combinations([j for j in hidden if scores[j] == cut], count - len(sure)))
                for extra in tied:
                    new = tuple(written[j] if j in sure or j in extra else context[j] for j in range(length))
                    following[new] = following.get(new, 0.0) + weight / len(tied)
        states = following
    return np.array([states.get(tuple(x), 0.0) for x in sequences(v, length).tolist()])


@pytest.mark.rotates(3)
@pytest.mark.parametrize("name", ["2-gram", "interval", "final", "leak"])
@pytest.mark.parametrize("temperature", [1.0, 0.5, 0.0])
def test_low_confidence_follows_its_law(name, temperature):
    for steps in (1, 2, 4):
        p = low_confidence_law(name, steps, temperature)
        assert p.sum() == pytest.approx(1, abs=1e-9)
        assert passes(name, p, sampler=LowConfidence(temperature), steps=steps, seed=steps), steps


def test_low_confidence_is_not_the_language_even_one_at_a_time():
    """Sample-then-choose lets the order depend on what is drawn: a known bias, not a defect of ours."""
    assert not passes("2-gram", distribution(*CASES["2-gram"]), sampler="low-confidence", steps=4)


def test_conditional_generation_is_the_conditional_language():
    """Prompt, infilling and suffix at one position a step: q(. | given), and what was given stays."""
    language, length = CASES["2-gram"]
    v = language.vocabulary
    q, every = distribution(language, length), sequences(v, length)
    for given, samplers in {
        (every[q.argmax()][0], v, v, v): ["fixed-size", "autoregressive", "speculative(draft_length=2)"],
        (v, every[q.argmax()][1], v, v): ["ancestral", "fixed-size"],
        (v, v, v, every[q.argmax()][3]): ["left-to-right"],
    }.items():
        agree = np.all([(every[:, j] == t) | (t == v) for j, t in enumerate(given)], 0)
        conditional = np.where(agree, q, 0) / q[agree].sum()
        for sampler in samplers:
            made = generate(language, sampler=sampler, steps=10**6, length=length, rows=ROWS, given=given, seed=3)
            assert p_value(made.tokens.numpy(), every, conditional) > ALARM
            assert bool((made.order[:, [j for j, t in enumerate(given) if t != v]] == 0).all())


class SameStepSeen(Sampler):
    """Mutant: positions of one step see each other."""

    def run(self, session: Session) -> None:
        order = Ancestral().order(session.delta, session.given == session.denoiser.vocabulary, session.rng)
        canvas = session.canvas
        for rows, positions, _ in walk(canvas, order):
            for place in range(order.shape[1]):
                now = positions == place
                if now.any():
                    p = canvas.at(rows[now], positions[now])
                    tokens = canvas.draw(p, rows[now], positions[now])
                    session.write(rows[now], positions[now], tokens, p.of(tokens), 1)


class FinalArgmax(Sampler):
    """Mutant: what is left in the last step is filled by argmax (MDLM's noise removal)."""

    def run(self, session: Session) -> None:
        order = Ancestral().order(session.delta, session.given == session.denoiser.vocabulary, session.rng)
        canvas = session.canvas
        for rows, positions, p in walk(canvas, order):
            last = order[rows, positions] == len(session.delta)
            tokens = torch.where(last, p.best, canvas.draw(p, rows, positions))
            session.write(rows, positions, tokens, p.of(tokens), 1)


class ReusedUniform(LowConfidence):
    """Mutant: LLaDA's rule, but every step draws a position from the same uniform."""

    def choose(self, view: View) -> Choice:
        view.canvas.visits.zero_()
        return super().choose(view)


class FlattenedTopK(LowConfidence):
    """Mutant: one top-k over the whole batch, as in SMDM: rows trade positions with each other."""

    pace = "steps"

    def choose(self, view: View) -> Choice:
        tokens = view.draw()
        flat = [part.reshape(1, -1) for part in (view.of(tokens), view.hidden, view.rng(Stream.TIE))]
        return Choice((ranks(*flat) < view.count.sum()).view_as(view.hidden), tokens)


class WrongRate(Sampler):
    """Mutant: reveals with probability delta_k instead of rho_k at each step, and the rest at the end."""

    def order(self, delta, hidden, rng):
        chances = torch.stack([rng.grid(Stream.ORDER, hidden.shape[1], k) for k in range(len(delta))], -1)
        revealed = chances < delta
        revealed[..., -1] = True
        return revealed.int().argmax(-1) + 1


def test_wrong_reveal_rate_is_caught():
    assert not order_passes(WrongRate(), 3, order_of("ancestral", 3, 4))


@pytest.mark.parametrize("mutant", [SameStepSeen, FinalArgmax])
def test_wrong_ancestral_samplers_are_caught(mutant):
    p = order_distribution("2-gram", order_of("ancestral", 3, 4))
    assert passes("2-gram", p, sampler=Ancestral(), steps=3)
    assert not passes("2-gram", p, sampler=mutant(), steps=3)


@pytest.mark.parametrize("stale", ["forward", "backward", "both"])
def test_stale_messages_are_caught(monkeypatch, stale):
    import unmask.denoisers.ideal as exact

    monkeypatch.setattr(Canvas, "follow", lambda canvas, order: None)
    sweep = exact.messages.sweep_rows

    def lazy(machine, tokens, forward, backward, *rest):
        forward = forward.copy() if stale != "backward" else forward
        backward = backward.copy() if stale != "forward" else backward
        sweep(machine, tokens, forward, backward, *rest)

    p = order_distribution("hmm", order_of("ancestral", 3, 4))
    assert passes("hmm", p, sampler="ancestral", steps=3)
    monkeypatch.setattr(exact.messages, "sweep_rows", lazy)
    assert not passes("hmm", p, sampler="ancestral", steps=3)


def test_reused_uniform_is_caught():
    p = low_confidence_law("leak", 4)
    assert passes("leak", p, sampler=LowConfidence(), steps=4)
    assert not passes("leak", p, sampler=ReusedUniform(), steps=4)


def test_batch_flattened_top_k_is_caught():
    """By its distribution; and by the plain fact that a row reveals exactly what its own schedule gives it."""
    p = low_confidence_law("2-gram", 4)
    assert passes("2-gram", p, sampler=LowConfidence(), steps=4)
    language, length = CASES["2-gram"]
    ours = generate(language, sampler=LowConfidence(), steps=4, length=length, rows=64)
    assert bool((ours.order.sort(1).values == torch.arange(1, 5)).all())
    theirs = generate(language, sampler=FlattenedTopK(), steps=4, length=length, rows=64)
    assert not bool((theirs.order.sort(1).values == torch.arange(1, 5)).all())
    assert not passes("2-gram", p, sampler=FlattenedTopK(), steps=4)


def test_speculation_without_the_residual_is_caught(monkeypatch):
    """Mutant: after a refusal the target itself is drawn from, not what it has over the draft."""
    p = order_distribution("leak", [(1.0, (0, 1, 2, 3))])
    assert passes("leak", p, sampler=Speculative(4))
    monkeypatch.setattr("unmask.denoisers.marginals.Table.beyond", lambda target, draft: target)
    assert not passes("leak", p, sampler=Speculative(4))


def test_autoregression_of_a_perturbed_model_is_not_the_language():
    """Power: a KL of 0.1 nats a token is seen at once."""
    inner = CASES["leak"][0].inner.language
    assert not passes("leak", distribution(inner, 4), sampler=Autoregressive())
