"""The best order of joint draws, against all orders by enumeration."""

from __future__ import annotations

from itertools import product

import pytest
import torch

from benchmarks import joint_theory_search as search
from tests.samplers.joints import sparse_chain
from unmask import UnmaskError
from unmask.languages import Interval, NGram, load
from unmask.samplers.schedules import deltas
from unmask.theory import joint_orders
from unmask.theory.chains import first_order, order_divergence

LENGTH = 5
CHAINS = {
    "uniform start": sparse_chain(1, 2),
    "sharp start": NGram(2, [0.9, 0.1, 0], [[0.5, 0.5, 0], [0.2, 0.2, 0.6], [0.4, 0.3, 0.3]]),
}


def enumerated(language, order, fitted):
    """KL(q || p_order), by tables of all strings and converged fits."""
    start, moves = (torch.as_tensor(one).double()[None] for one in (language.initial, language.transition))
    q = search.chain(start, moves, len(order))
    p, places = torch.ones(()).double(), range(len(order))
    for step in sorted({*order}):
        hidden, now = ([i for i in places if within(order[i], step)] for within in (int.__ge__, int.__eq__))
        joint = search.joints(q, hidden, 200)[fitted]
        p = p * search.total(joint, {*hidden} - {*now})
    return float(torch.where(q > 0, q * (q.log() - p.log()), 0.0).sum())


@pytest.mark.parametrize("name", CHAINS)
@pytest.mark.parametrize("fitted", [True, False])
def test_no_order_is_better(name, fitted):
    """The loss of an order, of one in six of two steps and in sixty of three, is that of its law."""
    language = CHAINS[name]
    for steps, checked in ((1, 1), (2, 6), (3, 60)):
        least, best = joint_orders.best(language, LENGTH, steps, fitted)
        assert joint_orders.loss(language, best, fitted) == pytest.approx(least, abs=1e-12)
        every = [*product(range(1, steps + 1), repeat=LENGTH)]
        losses = [joint_orders.loss(language, torch.tensor(order), fitted) for order in every]
        assert min(losses) == pytest.approx(least, abs=1e-12)
        laws = [enumerated(language, order, fitted) for order in every[::checked]]
        assert losses[::checked] == pytest.approx(laws, abs=1e-6)


def test_with_the_product_it_is_the_usual_sum():
    language = load("paper-2gram")
    orders = torch.randint(1, 4, (20, 12), generator=torch.Generator().manual_seed(1))
    known = order_divergence(first_order(language), orders)
    assert [joint_orders.loss(language, order, fitted=False) for order in orders] == pytest.approx(known.tolist())


def test_anchors_then_runs():
    """A chain that keeps its symbol: far anchors, one more in each gap, and all others together; dyadic loses more."""
    chain = NGram(2, [1 / 3] * 3, [[0.9, 0.1, 0], [0, 0.9, 0.1], [0.1, 0, 0.9]])
    least, order = joint_orders.best(chain, 16, 2)
    assert "".join(map(str, order.tolist())) == "2221222222221222"
    assert least == pytest.approx(0.379, abs=5e-4)
    assert joint_orders.loss(chain, torch.tensor([1, 2] * 8)) == pytest.approx(5.153, abs=5e-4)
    assert joint_orders.best_order(chain, 16, deltas("linear", 2)).value == least
    assert [joint_orders.enough(chain, 16, nats) for nats in (0.4, 0.37, 1e-9)] == [2, 3, 4]
    assert joint_orders.best(chain, 16, 50)[0] == pytest.approx(0, abs=1e-9)


@pytest.mark.parametrize(("language", "length"), [(Interval(3), 6), (load("paper-2gram"), 64)])
def test_what_is_refused(language, length):
    with pytest.raises(UnmaskError, match="expected a first-order chain, and at most"):
        joint_orders.best(language, length, 2)
