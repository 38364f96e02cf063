"""The plug-in best_order.py: the best order against every order, by enumeration."""

from __future__ import annotations

import math
from itertools import combinations

import pytest
import torch

from tests.examples.test_samplers import module, plugin
from tests.theory.small import CHAINS, every_order
from unmask import UnmaskError, generate
from unmask.core.chance import Randomness
from unmask.languages import Interval, NGram, load
from unmask.samplers.rules.fixed_orders import Dyadic
from unmask.samplers.schedules import Fit, deltas
from unmask.theory import known
from unmask.theory.chains import first_order, order_divergence

pytestmark = pytest.mark.long
SAMPLER = plugin("best-order")
STICKY = NGram(2, [0.5, 0.5], [[0.9, 0.1], [0.1, 0.9]])
UNLIKE = NGram(2, [0.01, 0.52, 0.47], [[0.0, 0.05, 0.95], [0.09, 0.0, 0.91], [0.0, 1.0, 0.0]])  # a parity, and slips


def best_order(language, hidden, steps):
    """(B, L) of patterns (B, L)."""
    return torch.stack([module("best-order").best_order(language, pattern, steps) for pattern in hidden])


@pytest.mark.parametrize("name", [name for name in CHAINS if name != "one token"])
def test_no_order_is_better(name):
    language, length = CHAINS[name]
    chain = first_order(language)
    for steps in (1, 2, 3):
        every = 1 + torch.cartesian_prod(*[torch.arange(steps)] * length).view(-1, length)
        least = order_divergence(chain, every).min()
        hidden = torch.ones((1, length), dtype=torch.bool)
        found = best_order(language, hidden, steps)
        assert order_divergence(chain, found)[0] == pytest.approx(least, abs=1e-11)


def test_the_sticky_chain():
    """Optimum, dyadic order and the best random order, in nats."""
    hidden, chain = torch.ones((1, 24), dtype=torch.bool), first_order(STICKY)
    best = [float(order_divergence(chain, best_order(STICKY, hidden, n))[0]) for n in (2, 3, 4)]
    assert best == pytest.approx([1.397, 0.339, 0.028], abs=5e-4)
    made = [Dyadic().order(torch.ones(n), hidden, Randomness(0, torch.arange(1))) for n in (2, 3, 4)]
    dyadic = [float(order_divergence(chain, order)[0]) for order in made]
    assert dyadic == pytest.approx([2.439, 0.432, 0.028], abs=5e-4)
    curve = known.curve(STICKY, 24)
    random = [curve.divergence(deltas("optimal", n, Fit(STICKY, 24))).value for n in (2, 3, 4)]
    assert random == pytest.approx([3.30, 2.03, 1.47], abs=5e-3)


def test_three_steps_are_exact():
    assert best_order(STICKY, torch.ones((1, 7), dtype=torch.bool), 3).tolist() == [[3, 2, 3, 1, 3, 2, 3]]


@pytest.mark.parametrize("length", [4, 5])
def test_intervals_are_cut_evenly(length):
    language = Interval(3)
    for steps in (1, 2, 3):
        found = best_order(language, torch.ones((1, length), dtype=torch.bool), steps)[0]
        pairs = sum(found[i] == found[j] for i, j in combinations(range(length), 2) if i // 3 == j // 3)
        least = every_order(language, length, deltas("linear", steps)).divergence.min()
        assert least == pytest.approx(math.log(2) * float(pairs), abs=1e-10)


def test_what_is_given_is_left_alone_and_counts():
    """Of a row whose position 3 is given the best order is that of two gaps: by every order of the rest."""
    chain, hidden = first_order(STICKY), torch.ones((2, 6), dtype=torch.bool)
    hidden[1, 2] = False
    found = best_order(STICKY, hidden, 2)
    assert found[0].tolist() == best_order(STICKY, hidden[:1], 2)[0].tolist()
    assert (found > 0).tolist() == hidden.tolist()

    def cost(order):  # of the whole, the given place first
        return order_divergence(chain, order + 1)[0]

    rest = 1 + torch.cartesian_prod(*[torch.arange(2)] * 5)
    every = torch.cat([rest[:, :2], torch.zeros((len(rest), 1), dtype=torch.int64), rest[:, 2:]], 1)
    assert cost(found[1:]) == pytest.approx(min(cost(order[None]) for order in every), abs=1e-12)


def test_the_sampler_follows_it():
    language = load("paper-2gram")
    made = generate(language, sampler=SAMPLER, steps=3, length=20, rows=5)
    assert made.order.tolist() == best_order(language, torch.ones((5, 20), dtype=torch.bool), 3).tolist()
    given = torch.full((2, 20), 8)
    given[1, :4] = made.tokens[0, :4]
    for steps in (1, 2, 40):
        ragged = generate(language, sampler=SAMPLER, steps=steps, length=20, rows=2, given=given)
        assert ragged.order.tolist() == best_order(language, given == 8, steps).tolist()
    inside = generate(language, sampler=f"blocks(block_length=10, inner={SAMPLER!r})", steps=4, length=20, rows=2)
    assert inside.order.max() == 4


@pytest.mark.parametrize(
    ("language", "length", "message"),
    [
        (load("brackets"), 8, "the best order of 8 positions of brackets is not known"),
        (STICKY, 300, "at most 256 positions"),
    ],
)
def test_what_is_refused(language, length, message):
    with pytest.raises(UnmaskError, match=message):
        generate(language, sampler=SAMPLER, steps=3, length=length, rows=2)
