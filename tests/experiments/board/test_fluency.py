"""The price of the truth is the sampler's own probability of it, where it has one."""

from __future__ import annotations

import math
from dataclasses import dataclass

import pytest
import torch

from tests.brute import sequences
from unmask import generate
from unmask.core.chance import Randomness
from unmask.denoisers import Ideal
from unmask.experiments.board.curve import Ground, divergence, price
from unmask.languages import Interval, random_ngram
from unmask.samplers import SAMPLERS, Choice, Sampler
from unmask.samplers.schedules import deltas
from unmask.samplers.teaching import Unbounded
from unmask.theory.sampled import information_curve

LANGUAGE = random_ngram(2, vocabulary=3, temperature=2.0, threshold=0.15, seed=3)
LENGTH = 5


@dataclass(frozen=True)
class Surest(Sampler):
    """Choose by the largest probability, then draw there: adaptive, and still a distribution with a price."""

    pace = "free"
    at_least: float = 0.6

    def choose(self, view):
        best = torch.where(view.hidden, view.confidence, -1.0)
        first = torch.zeros_like(view.hidden)
        first[torch.arange(len(best)), best.argmax(1)] = True
        return Choice(view.hidden & (first | (best > self.at_least)))


@dataclass(frozen=True)
class Greedy(Sampler):
    """Never draws."""

    def choose(self, view):
        order = view.hidden.long().cumsum(1) * view.hidden
        return Choice((order > 0) & (order <= view.count.unsqueeze(1)), view.best)


@dataclass(frozen=True)
class Doubtful(Sampler):
    """Takes back its first token once."""

    pace = "free"

    def choose(self, view):
        first = torch.arange(view.hidden.shape[1]) == 0
        begins, second = (view.step == 1).unsqueeze(1), (view.step == 2).unsqueeze(1)
        return Choice(view.hidden & (first | ~begins), hide=view.revealed & first & second)


@dataclass(frozen=True)
class Sharp(Sampler):
    """Draws from the squares of the probabilities, left to right."""

    def run(self, session):
        for j in range(session.tokens.shape[1]):
            rows = torch.arange(len(session.tokens))
            positions = torch.full_like(rows, j)
            marginals = session.canvas.at(rows, positions).sharpened(0.5)
            tokens = session.canvas.draw(marginals, rows, positions)
            session.write(rows, positions, tokens, torch.ones(len(rows)), j + 1)


def prices(sampler, truth, steps=2, seed=0, language=LANGUAGE, row=0):
    """log q - log p of every row of the truth, all of which meet the randomness of one row."""
    rng = Randomness(seed, torch.full((len(truth),), row))
    return divergence(sampler, Ideal(language), language, truth, deltas("linear", steps), rng)


@pytest.mark.parametrize("sampler", [SAMPLERS.make("ancestral"), SAMPLERS.make("left-to-right"), Surest(), Sharp()])
def test_the_prices_of_all_strings_make_a_law(sampler):
    """Under one luck p(x | luck) sums to one over everything the sampler can write, and is how often it writes it."""
    every = torch.from_numpy(sequences(3, LENGTH))
    log_q = LANGUAGE.log_prob(every)
    possible = log_q > -torch.inf
    p = torch.zeros(len(every), dtype=torch.float64)
    p[possible] = (log_q[possible] - prices(sampler, every[possible])).exp()
    made = generate(LANGUAGE, sampler=sampler, steps=2, length=LENGTH, rows=4000, seed=2)
    valid = float((LANGUAGE.log_prob(made.tokens) > -torch.inf).double().mean())
    if sampler != SAMPLERS.make("ancestral"):  # whose order is luck, and differs from row to row
        assert float(p.sum()) == pytest.approx(valid, abs=0.04)
        codes = made.tokens @ (3 ** torch.arange(LENGTH - 1, -1, -1))
        often = torch.bincount(codes, minlength=len(every)).double() / 4000
        at = p.argmax()
        assert float(often[at]) == pytest.approx(float(p[at]), abs=6 * math.sqrt(float(p[at]) / 4000))
    assert float(p.sum()) <= 1 + 1e-12


def test_the_mean_over_orders_is_the_profile():
    """The bound of ancestral sampling is the one that the information profile gives."""
    place = Ground("paper-2gram(seed=1)", length=16, seed=1)
    nats, proper, reason = price(place, "ancestral", 4, 4000)
    assert (proper, reason) == (False, "")
    expected = information_curve(place.q, 16, rows=1000, seed=5).divergence(deltas("linear", 4))
    error = 5 * (float(nats.std()) / math.sqrt(len(nats)) + expected.standard_error)
    assert float(nats.mean()) == pytest.approx(expected.value, abs=error)


def test_the_interval_language_has_it_in_closed_form():
    """log q - log p_tau = log 2 for each pair of an interval that is revealed together."""
    language = Interval(3)
    truth = language.sample(50, 9, seed=1)
    nats = divergence(
        SAMPLERS.make("strided"), Ideal(language), language, truth, deltas("linear", 2), Randomness(0, torch.arange(50))
    )
    assert nats.tolist() == pytest.approx([3 * math.log(2)] * 50)  # positions 1 and 3 of each interval
    exact = divergence(
        SAMPLERS.make("strided"), Ideal(language), language, truth, deltas("linear", 3), Randomness(0, torch.arange(50))
    )
    assert exact.tolist() == pytest.approx([0.0] * 50, abs=1e-12)


def test_one_at_a_time_is_exact():
    truth = LANGUAGE.sample(20, LENGTH, seed=4)
    for sampler in (SAMPLERS.make("left-to-right"), Surest(at_least=2.0)):
        assert prices(sampler, truth, steps=LENGTH).tolist() == pytest.approx([0.0] * 20, abs=1e-12)


@pytest.mark.parametrize(
    "sampler", [SAMPLERS.make("low-confidence"), Greedy(), Doubtful(), SAMPLERS.make("speculative")]
)
def test_a_sampler_without_a_bound_has_none(sampler):
    truth = LANGUAGE.sample(8, LENGTH, seed=4)
    with pytest.raises(Unbounded):
        prices(sampler, truth)


def test_the_reasons_are_said():
    place = Ground("paper-2gram", length=8)
    assert price(place, "low-confidence", 2, 4).unbounded
    own = price(place, "autoregressive", 2, 4)  # its TER is the language's own
    assert (own.proper, own.unbounded) == (True, "")
    assert price(place, "ancestral", 2, 0).unbounded == "it was not requested"


def test_the_canvas_is_the_samplers_own():
    """The decisions on the way to x are those that generate would make there."""
    made = generate(LANGUAGE, sampler=Surest(), length=LENGTH, rows=30, seed=6)
    log_q = LANGUAGE.log_prob(made.tokens)
    possible = log_q > -torch.inf
    nats = divergence(
        Surest(),
        Ideal(LANGUAGE),
        LANGUAGE,
        made.tokens[possible],
        deltas("linear", 64),
        Randomness(0, torch.arange(30)[possible]),
    )
    log_p = made.probability.log().sum(1)[possible]
    assert (log_q[possible] - nats).tolist() == pytest.approx(log_p.tolist())
