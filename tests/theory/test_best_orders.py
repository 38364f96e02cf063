"""The best order and the best choice: against every order, and every choice in every context, by enumeration."""

from __future__ import annotations

from functools import cache
from itertools import combinations, product

import numpy as np
import pytest
import torch

from tests.brute import distribution, sequences
from tests.theory.small import CHAINS, every_order
from unmask import UnmaskError, generate
from unmask.languages import Interval, NGram, load, random_ngram
from unmask.samplers import orders
from unmask.samplers.schedules import Fit, deltas
from unmask.theory import best_orders, known
from unmask.theory.chains import first_order, order_divergence

STICKY = NGram(2, [0.5, 0.5], [[0.9, 0.1], [0.1, 0.9]])
UNLIKE = NGram(2, [0.01, 0.52, 0.47], [[0.0, 0.05, 0.95], [0.09, 0.0, 0.91], [0.0, 1.0, 0.0]])  # a parity, and slips


def least_choice(language, length, steps):
    """The least E TC over all rules that look at what is revealed: Bellman over every context, nothing of gaps."""
    strings, q = sequences(language.vocabulary, length), distribution(language, length)

    def nats(p, places):
        codes = strings[:, list(places)] @ language.vocabulary ** np.arange(len(places))
        mass = np.bincount(codes, p)
        mass = mass[mass > 0]
        return -float(mass @ np.log(mass))

    @cache
    def paid(shown, n):
        hidden = [j for j in range(length) if j not in dict(shown)]
        if not hidden:
            return 0.0
        if n == 0:
            return np.inf
        fits = np.all([strings[:, j] == t for j, t in shown], 0) if shown else np.ones(len(strings), bool)
        p = fits * q / (fits @ q)
        best = np.inf
        for size in range(1, len(hidden) + 1):
            for places in combinations(hidden, size):
                total = sum(nats(p, [j]) for j in places) - nats(p, places)
                for tokens in product(range(language.vocabulary), repeat=size):
                    chance = float(p @ np.all(strings[:, places] == tokens, 1))
                    if chance > 0 and total < best:
                        new = tuple(sorted((*shown, *zip(places, tokens, strict=True))))
                        total += chance * paid(new, n - 1)
                best = min(best, total)
        return best

    return [paid((), n) for n in range(1, steps + 1)]


@pytest.mark.parametrize("name", [name for name in CHAINS if name != "one token"])
def test_no_order_is_better(name):
    language, length = CHAINS[name]
    chain = first_order(language)
    for steps, least in enumerate(best_orders.of_orders(language, length, 3), 1):
        every = 1 + torch.cartesian_prod(*[torch.arange(steps)] * length).view(-1, length)
        assert least == pytest.approx(order_divergence(chain, every).min(), abs=1e-11)
        hidden = torch.ones((1, length), dtype=torch.bool)
        found = language.best_order(hidden, steps)
        assert order_divergence(chain, found)[0] == pytest.approx(least, abs=1e-11)


@pytest.mark.parametrize(
    ("language", "length"),
    [(STICKY, 5), (UNLIKE, 4), (random_ngram(2, 3, 2.0, 0.15, seed=7), 4), (random_ngram(2, 2, 2.0, seed=3), 5)],
)
def test_no_choice_is_better(language, length):
    found = best_orders.of_choices(language, length, 3)
    assert found == pytest.approx(least_choice(language, length, 3), abs=1e-10)
    assert (found <= best_orders.of_orders(language, length, 3) + 1e-12).all()


def test_what_stands_can_tell_what_to_do():
    """A chain that goes back and forth and slips now and then: whether it has slipped says where to look next."""
    choices, every = best_orders.of_choices(UNLIKE, 11, 3), best_orders.of_orders(UNLIKE, 11, 3)
    assert choices[:2] == pytest.approx(every[:2])  # what is seen before the last round changes nothing of it
    assert choices[2] < 0.3 * every[2]


def test_the_sticky_chain():
    """Optimum, dyadic order and the best random order, in nats."""
    found = best_orders.of_orders(STICKY, 24, 4)
    assert found[1:] == pytest.approx([1.397, 0.339, 0.028], abs=5e-4)
    assert best_orders.of_choices(STICKY, 24, 4) == pytest.approx(found, abs=1e-9)  # its tokens are alike: none helps
    hidden, chain = torch.ones((1, 24), dtype=torch.bool), first_order(STICKY)
    dyadic = [float(order_divergence(chain, orders.dyadic(n, hidden))[0]) for n in (2, 3, 4)]
    assert dyadic == pytest.approx([2.439, 0.432, 0.028], abs=5e-4)
    curve = known.curve(STICKY, 24)
    random = [curve.divergence(deltas("optimal", n, Fit(STICKY, 24))).value for n in (2, 3, 4)]
    assert random == pytest.approx([3.30, 2.03, 1.47], abs=5e-3)


def test_three_steps_are_exact():
    assert best_orders.of_choices(STICKY, 7, 3)[-1] == pytest.approx(0, abs=1e-12)
    assert STICKY.best_order(torch.ones((1, 7), dtype=torch.bool), 3).tolist() == [[3, 2, 3, 1, 3, 2, 3]]


@pytest.mark.parametrize("length", [4, 5])
def test_intervals_are_cut_evenly(length):
    language = Interval(3)
    found = best_orders.of_orders(language, length, 3)
    assert best_orders.of_choices(language, length, 3).tolist() == found.tolist()
    assert found == pytest.approx(least_choice(language, length, 3) if length == 4 else found, abs=1e-10)
    for steps in (1, 2, 3):
        assert every_order(language, length, deltas("linear", steps)).divergence.min() == pytest.approx(
            found[steps - 1], abs=1e-10
        )


def test_what_is_given_is_left_alone_and_counts():
    """Of a row whose position 3 is given the best order is that of two gaps: by every order of the rest."""
    chain, hidden = first_order(STICKY), torch.ones((2, 6), dtype=torch.bool)
    hidden[1, 2] = False
    found = STICKY.best_order(hidden, 2)
    assert found[0].tolist() == STICKY.best_order(hidden[:1], 2)[0].tolist()
    assert (found > 0).tolist() == hidden.tolist()

    def cost(order):  # of the whole, the given place first
        return order_divergence(chain, order + 1)[0]

    rest = 1 + torch.cartesian_prod(*[torch.arange(2)] * 5)
    every = torch.cat([rest[:, :2], torch.zeros((len(rest), 1), dtype=torch.int64), rest[:, 2:]], 1)
    assert cost(found[1:]) == pytest.approx(min(cost(order[None]) for order in every), abs=1e-12)


def test_the_sampler_follows_it():
    language = load("paper-2gram")
    made = generate(language, sampler="best-order", steps=3, length=20, rows=5)
    assert made.order.tolist() == language.best_order(torch.ones((5, 20), dtype=torch.bool), 3).tolist()
    given = torch.full((2, 20), 8)
    given[1, :4] = made.tokens[0, :4]
    for steps in (1, 2, 40):
        ragged = generate(language, sampler="best-order", steps=steps, length=20, rows=2, given=given)
        assert ragged.order.tolist() == language.best_order(given == 8, steps).tolist()
    inside = generate(language, sampler="blocks(block_length=10, inner='best-order')", steps=4, length=20, rows=2)
    assert inside.order.max() == 4


@pytest.mark.parametrize(
    ("language", "length", "message"),
    [(load("brackets"), 8, "the best order of brackets is not known"), (STICKY, 300, "takes too long")],
)
def test_what_is_refused(language, length, message):
    with pytest.raises(UnmaskError, match=message):
        generate(language, sampler="best-order", steps=3, length=length, rows=2)
    with pytest.raises(UnmaskError, match="is not known, or takes too long"):
        best_orders.of_orders(language, length, 3)
