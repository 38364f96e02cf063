"""The recursions on gaps against enumeration: p(x), SER, generative NLL, and P(valid | order) of every order.

Means over sampled orders are compared within 5 standard errors, at fixed seeds: below 1e-6 of false alarms each.
"""

from __future__ import annotations

import math
from itertools import product
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from reproduction.intervals import as_ngram
from tests.brute import SHARP, distribution, sequences
from tests.theory.small import CHAINS, by_labels, by_order
from unmask import generate, score
from unmask.core.chance import Randomness
from unmask.core.errors import UnmaskError
from unmask.denoisers import Ideal
from unmask.languages import Interval, load, random_ngram
from unmask.metrics import output_distribution
from unmask.samplers.rules.fixed_orders import Ancestral, Dyadic, LeftToRight
from unmask.samplers.schedules import Schedule, deltas
from unmask.theory import recursion
from unmask.theory.chains import first_order
from unmask.theory.recursion import order_loss, ser_by_orders, valid_given_order, valid_mass

SCHEDULES = [("linear", 1), ("linear", 3), ("cosine", 4), ([0.3, 0.0, 0.7, 0.0], None)]


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", CHAINS)
@pytest.mark.parametrize(("schedule", "steps"), SCHEDULES)
def test_against_the_enumerated_law(name, schedule, steps):
    language, length = CHAINS[name]
    chain, delta = first_order(language), deltas(schedule, steps)
    q, p = distribution(language, length), output_distribution(Ideal(language), length, delta).numpy()
    mass, log_mass = valid_mass(chain, length, delta)
    possible = q > 0
    assert mass[-1] == pytest.approx(p[possible].sum(), abs=1e-12)
    assert log_mass[-1] == pytest.approx(p[possible] @ np.log(q[possible]), abs=1e-11)


@pytest.mark.parametrize("name", ["2-gram, pruned", "relabelled", "pairs"])
def test_against_the_sum_over_all_labels(name):
    """No kernel of ours on the other side."""
    language, length = CHAINS[name]
    delta = deltas([0.5, 0.2, 0.3])
    p, possible = by_labels(name, delta), distribution(language, length) > 0
    assert valid_mass(first_order(language), length, delta)[0][-1] == pytest.approx(p[possible].sum(), abs=1e-12)


@pytest.mark.parametrize("name", ["2-gram", "2-gram, pruned", "relabelled"])
def test_loss_of_random_orders_against_all_labels(name):
    """E KL(p_order || q) over the possible strings, order by order."""
    language, length = CHAINS[name]
    chances = np.array([0.5, 0.2, 0.3])
    q, weight, nats = distribution(language, length), 0.0, 0.0
    for order in product(range(3), repeat=length):
        p = by_order(name, order)
        there = p > 0
        weight += chances[list(order)].prod() * p.sum()
        nats += chances[list(order)].prod() * float(p[there] @ np.log(p[there] / q[there]))
    mass, loss = order_loss(first_order(language), length, deltas([0.5, 0.2, 0.3]))
    assert (mass[-1], loss[-1]) == pytest.approx((weight, nats / weight), abs=1e-11)
    assert abs(loss[-1]) > 0.04


def test_one_pass_answers_for_every_length():
    chain, delta = first_order(random_ngram(2, 3, **SHARP, seed=2)), deltas("cosine", 5)
    mass, log_mass = valid_mass(chain, 9, delta)
    for length in range(1, 9):
        alone, log_alone = valid_mass(chain, length, delta)
        assert (mass[length], log_mass[length]) == pytest.approx((alone[-1], log_alone[-1]), rel=1e-12)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", CHAINS)
def test_every_order(name):
    """P(valid | order) is the mass that the order leaves to possible strings, for all orders of up to three steps."""
    language, length = CHAINS[name]
    every = 1 + sequences(3, length)
    chosen = every if len(every) <= 250 else every[:: len(every) // 250]
    ours = valid_given_order(first_order(language), torch.from_numpy(chosen))
    assert ours.tolist() == pytest.approx([by_order(name, order).sum() for order in chosen.tolist()], abs=1e-12)


@pytest.mark.parametrize("steps", [2, 3])
def test_the_two_recursions_agree(steps):
    """Gap by gap and order by order, at a length that strings cannot be enumerated for: all N^L labels."""
    chain, length = first_order(random_ngram(2, 5, threshold=0.05, seed=3)), 8
    delta = deltas("geometric(ratio=2)", steps)
    labels = sequences(steps, length)
    weights = delta.numpy()[labels].prod(1)
    ours = weights @ valid_given_order(chain, torch.from_numpy(1 + labels)).numpy()
    assert valid_mass(chain, length, delta)[0][-1] == pytest.approx(ours, abs=1e-12)


def test_the_interval_language_of_width_2():
    """A closed form on the other side, at any length and for many steps."""
    language = Interval(2)
    chain, delta = first_order(as_ngram(language)), deltas("cosine", 40)
    mass, _ = valid_mass(chain, 24, delta)
    for length in (1, 2, 7, 24):
        assert 1 - mass[length] == pytest.approx(language.closed_form.ser(length, delta), abs=1e-11)
    order = Ancestral().order(delta, torch.ones((50, 24), dtype=torch.bool), Randomness(24, torch.arange(50)))
    pairs = (order[:, ::2] == order[:, 1::2]).sum(1)
    torch.testing.assert_close(valid_given_order(chain, order), 2.0 ** -pairs.double(), rtol=0, atol=1e-12)


def test_dyadic_orders_err_only_in_the_first_round():
    """P^8 > 0 entrywise: whatever stands at the multiples of 8 can be joined, and after it every token is alone."""
    chain = first_order(load("paper-2gram"))
    assert (np.linalg.matrix_power(chain.transition, 8) > 0).all()
    hidden, rng = torch.ones((1, 64), dtype=torch.bool), Randomness(0, torch.arange(1))
    dyadic = Dyadic().order(deltas("linear", 4), hidden, rng)
    assert float(valid_given_order(chain, dyadic)[0]) == pytest.approx(1, abs=1e-12)
    each, pairs = (LeftToRight().order(deltas("linear", steps), hidden, rng) for steps in (64, 32))
    assert float(valid_given_order(chain, each)[0]) == pytest.approx(1)
    assert float(valid_given_order(chain, pairs)[0]) < 0.9
    assert float(valid_given_order(chain, torch.ones_like(hidden).long())[0]) < 1e-2


def test_rounds_that_reveal_nothing_change_nothing():
    chain = first_order(random_ngram(2, 3, **SHARP, seed=2))
    some, more = deltas([0.2, 0.5, 0.3]), deltas([0.0, 0.2, 0.0, 0.5, 0.3, 0.0])
    assert valid_mass(chain, 7, some)[0].tolist() == pytest.approx(valid_mass(chain, 7, more)[0].tolist(), abs=1e-13)
    assert Schedule(more).rho.tolist() == pytest.approx([0, 0.2, 0, 0.625, 1, 0])
    assert Schedule(deltas("linear", 10**6)).rho[-1] == 1


@pytest.mark.parametrize(("steps", "length"), [(8, 40), (64, 128)])
def test_orders_alone_give_the_error_rate(steps, length):
    """Unbiased against the recursion; against counting invalid rows of a whole generation, with far less variance."""
    language = random_ngram(2, 4, **SHARP, seed=2)
    ours = ser_by_orders(first_order(language), length, deltas("linear", steps), rows=500, seed=7)
    counted = score(generate(language, steps=steps, length=length, rows=4000), language).ser
    assert abs(ours.value - counted.value) < 5 * math.hypot(ours.standard_error, counted.standard_error)
    assert ours.method == "rao-blackwell"
    if length <= 40:
        exact = 1 - valid_mass(first_order(language), length, deltas("linear", steps))[0][-1]
        assert abs(ours.value - exact) < 5 * ours.standard_error
        assert ours.standard_error < 0.8 * math.sqrt(exact * (1 - exact) / 500)


def test_refusals():
    chain = first_order(random_ngram(2, 3, **SHARP, seed=2))
    with pytest.raises(UnmaskError, match="this order has given positions"):
        valid_given_order(chain, torch.tensor([[0, 1]]))


@pytest.mark.parametrize("wrong", [lambda rho: rho * 0.99, lambda rho: np.roll(rho, 1), lambda rho: np.sqrt(rho)])
def test_wrong_rates_are_caught(monkeypatch, wrong):
    language, length = CHAINS["2-gram, pruned"]
    delta = deltas("cosine", 3)
    expected = valid_mass(first_order(language), length, delta)[0][-1]
    rho = torch.from_numpy(wrong(Schedule(delta).rho.numpy()))
    monkeypatch.setattr(recursion, "Schedule", lambda delta: SimpleNamespace(rho=rho))
    assert abs(valid_mass(first_order(language), length, delta)[0][-1] - expected) > 1e-3
