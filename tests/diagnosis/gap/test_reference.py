"""The loss by the order against enumeration, the variety that a sampler loses, and the steps that are needed."""

from __future__ import annotations

import math
from itertools import permutations, product

import pytest
import torch

import unmask
from tests.diagnosis.gap.test_gap import near
from tests.diagnosis.gap.toys import Families, Toy, V, chained, surest, walked
from unmask.core.estimates import Estimate
from unmask.core.means import exceeds
from unmask.metrics.windows import variety

L = 4
ORDERS = list(permutations(range(L)))


def order_losses(noise):
    """(of the lowest entropy first, of random orders, KL of the first from the mixture of random orders)."""
    toy, texts = Toy(L, noise), list(product(range(V), repeat=L))
    rows = [[chained(toy, (V,) * L, text, order) for order in ORDERS] for text in texts]
    random = torch.tensor(rows, dtype=torch.float64)
    own = walked(toy, surest(1))[1].log()  # the same texts, one token at a time
    mixture = random.exp().mean(1).log()
    first = own.exp() @ (own - random.mean(1))
    second = (random.exp() * (random - random.mean(1, keepdim=True))).sum(0).mean()
    return float(first), float(second), float(own.exp() @ (own - mixture))


@pytest.mark.sampled(3)
@pytest.mark.parametrize("noise", [0.0, 0.4, 1.0])
def test_the_order_loss_is_that_of_enumeration(noise):
    """It is 0 for a consistent model; else it bounds the divergence from random orders."""
    first, second, kl = order_losses(noise)
    assert first >= kl - 1e-12
    assert (abs(first) < 1e-9) == (abs(second) < 1e-9) == (noise == 0)
    beside = unmask.gap(
        Toy(L, noise), sampler="entropy", steps=2, length=L, rows=1500, reference=1500, seed=2
    ).reference
    assert near(beside.order, first)
    assert near(beside.itself, second)
    if noise == 1:
        assert not near(beside.order, -first)  # planted: the other sign
        assert not near(beside.order, first + second)
    random = unmask.gap(Toy(L, noise), steps=2, length=L, rows=100, reference=100).reference
    assert random.order == random.itself  # the sampler's order is a random one


def test_samplers_without_a_serial_order_have_no_order_loss():
    for how in ({"sampler": "low-confidence"}, {"sampler": "remdm"}, {"sampler": "threshold(threshold=0.2)"}):
        beside = unmask.gap(Toy(L, 0.4), steps=2, length=L, rows=30, **how).reference
        assert beside.order is None
        assert beside.itself is not None


def test_a_loss_that_is_small_because_the_sampler_repeats_itself_is_named():
    """Families that are too sure: `entropy` loses 9 times fewer nats, and writes one family. Sure enough, nothing."""
    found = {}
    for sampler in ("ancestral", "entropy"):
        for power in (1.0, 2.0):
            found[sampler, power] = unmask.gap(Families(power), sampler=sampler, steps=12, rows=100, length=24, seed=1)
    small, usual = found["entropy", 2.0], found["ancestral", 2.0]
    assert small.sequence.value < usual.sequence.value / 5
    assert small.reference.collapsed
    assert small.verdict.startswith("The sampler loses variety: two sequences share 9")
    assert "Do not choose it for a small loss." in small.verdict
    assert small.reference.variety.entropy < small.reference.random.entropy / 3
    assert small.reference.variety.distinct < 20
    for other in (usual, found["entropy", 1.0], found["ancestral", 1.0]):
        assert not other.reference.collapsed
        assert "variety" not in other.verdict


def test_the_order_is_named_where_it_costs_more():
    beside = unmask.gap(Families(2.0), sampler="entropy", steps=12, rows=300, length=24, seed=1, reference=300)
    assert beside.reference.costs
    assert "Its order alone loses up to" in beside.verdict


def test_variety_is_that_of_its_definition():
    tokens = torch.tensor([[0, 1, 2, 0], [0, 1, 0, 0], [0, 2, 2, 1]])
    counted = torch.tensor([[1, 1, 1, 1], [1, 1, 1, 0], [1, 1, 1, 1]]).bool()
    found = variety(tokens, counted)
    assert found.distinct == 3
    assert found.identity.value == pytest.approx((2 / 3 + 2 / 4 + 1 / 3) / 3)
    two, half = -(2 / 3) * math.log(2 / 3) - (1 / 3) * math.log(1 / 3), math.log(2)
    assert found.entropy == pytest.approx((0 + two + two + half) / 4)
    assert variety(tokens[[0, 0]], counted[[0, 0]]).identity.value == 1


def test_identity_has_the_standard_error_of_a_mean_over_pairs():
    """The spread of 400 values against their mean standard error, to 20%: five of its own standard errors."""
    rng = torch.Generator().manual_seed(3)
    draws = [variety(torch.randint(3, (30, 8), generator=rng).clamp(min=1), torch.ones(30, 8).bool()).identity
             for _ in range(400)]  # fmt: skip
    spread = torch.tensor([one.value for one in draws]).std()
    assert float(torch.tensor([one.standard_error for one in draws]).mean()) == pytest.approx(float(spread), rel=0.2)


def test_the_steps_are_those_of_the_exact_curve():
    """A 2-gram: fixed sizes of random positions, by the information curve of the language."""
    language = unmask.languages.load("paper-2gram(pruned=False)")
    gap = unmask.gap(language, steps=8, length=16, rows=400, reference=400, seed=3)
    exact = unmask.theory.sampled.information_curve(language, 16, rows=4000, seed=5)
    for target, (steps, most) in gap.reference.steps.items():
        deltas = {n: unmask.samplers.schedules.deltas("linear", n) for n in range(1, 17)}
        needed = next(n for n in deltas if exact.divergence(deltas[n], fixed_size=True).value <= 16 * target or n == 16)
        assert steps <= most <= 16
        assert abs(steps - needed) <= 1


def test_more_than_noise():
    one, other = Estimate(1.0, 0.8, 1.2, 50), Estimate(0.7, 0.6, 0.8, 50)
    assert exceeds(one, other)  # .3 against a noise of .224
    assert not exceeds(one, other, 0.1)
    assert not exceeds(Estimate(1.0, -math.inf, math.inf, 3), other)
