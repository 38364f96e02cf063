"""Our attention kernel and the first block's tally, against the plain trunk."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch.nn import functional

from tests.networks.small import V, trunk
from unmask import generate
from unmask.networks import Network, attention
from unmask.networks.memory import Memory
from unmask.networks.tally import MOST_NATS, Tally
from unmask.networks.trunk import rotated

LONG, ROWS = 19, 6


def plain(qkv, heads, turn):
    """By torch, in the precision of what is given."""
    query, key, value = qkv.unflatten(2, (3, heads, -1)).unbind(2)
    parts = (part.transpose(1, 2) for part in (rotated(query, turn), rotated(key, turn), value))
    return functional.scaled_dot_product_attention(*parts).transpose(1, 2).flatten(2)


@pytest.mark.parametrize(
    ("rows", "length", "heads", "size"), [(2, 64, 2, 16), (3, 33, 3, 6), (1, 1, 1, 2), (2, 130, 1, 64)]
)
@pytest.mark.parametrize("spread", [0.0, 1.0, 6.0])
def test_attention_is_as_exact_as_that_of_torch(rows, length, heads, size, spread):
    """Lengths that fill no whole vector, heads of any even width, flat and sharp weights; scores far below 0 too."""
    generator = torch.Generator().manual_seed(1)
    qkv = spread * torch.randn((rows, length, 3 * heads * size), generator=generator)
    qkv[0, :, : heads * size] += 8
    qkv[0, :, heads * size : 2 * heads * size] -= 8  # so that what is padded, whose scores are 0, would come first
    angles = torch.arange(length).unsqueeze(1) * 3.0 ** -torch.arange(size // 2)
    turn = angles.cos().repeat(1, 2), torch.cat([-angles.sin(), angles.sin()], 1)
    wide = [part.unsqueeze(1) for part in turn]
    exact = plain(qkv.double(), heads, [part.double() for part in wide])
    ours = attention.attend(qkv, heads, *turn)
    theirs = float((plain(qkv, heads, wide) - exact).abs().max())
    assert float((ours - exact).abs().max()) <= 2 * theirs + 2e-6


def test_who_attends():
    weight = torch.ones(1)
    with torch.no_grad():
        assert attention.fits(weight)
        assert not attention.fits(weight.double())
        torch.set_num_threads(2)
        assert not attention.fits(weight)
        torch.set_num_threads(1)
    assert not attention.fits(weight)


@torch.no_grad()
@pytest.mark.parametrize("rows", [ROWS, 2])
def test_reading_on_is_what_the_plain_step_computes(rows):
    """Of all rows of a memory, or of the first ones."""
    made, exact = (trunk("ar", length=LONG, dtype=dtype) for dtype in (torch.float32, torch.float64))
    plain_memory, turned = (
        Memory(made.shape, ROWS, LONG, made.device, dtype) for dtype in (torch.float64, torch.float32)
    )
    kept = turned.kept.transpose(4, 5).contiguous()
    tokens = contexts(3).clamp(max=V - 1)
    for place in range(LONG):
        expected = exact.step(tokens[:, place], place, plain_memory.kept)
        ours = made.step(tokens[:rows, place], place, kept, True)
        torch.testing.assert_close(ours.double(), expected[:rows], atol=1e-4, rtol=1e-4)


def contexts(seed, rows=ROWS):
    return torch.randint(0, V + 1, (rows, LONG), generator=torch.Generator().manual_seed(seed))


@torch.no_grad()
def test_below_is_what_the_plain_trunk_computes():
    made = trunk(length=LONG, layers=3, dtype=torch.float32)
    exact = trunk(length=LONG, layers=3).below(contexts(1))
    tally = Tally.of(made, ROWS, LONG)
    mixed = tally.mixed(torch.arange(ROWS), contexts(1))
    for ours in (made.below(contexts(1)), made.below(contexts(1), None, mixed)):
        assert float((ours - exact).abs().max()) < 1e-4 * float(exact.abs().max())


@torch.no_grad()
def test_a_tally_follows_whatever_becomes_of_the_tokens():
    """Reveals, other tokens, hides, of some rows and not of others: always what the block itself says."""
    made = trunk(length=LONG, dtype=torch.float32, spread=0.4)
    block = made.blocks[0]
    tally, tokens, chance = Tally.of(made, ROWS, LONG), torch.full((ROWS, LONG), V), np.random.default_rng(0)
    for turn in range(40):
        where = torch.from_numpy(chance.random((ROWS, LONG)) < (0.9 if turn % 10 == 9 else 0.1))
        tokens = torch.where(where, torch.from_numpy(chance.integers(0, V + 1, (ROWS, LONG))), tokens)
        rows = torch.from_numpy(np.flatnonzero(chance.random(ROWS) < 0.6))
        if not len(rows):
            continue
        turned = [part[:LONG].unsqueeze(1) for part in (made.cos, made.sin)]
        expected = block.out(plain(block.qkv(block.before(made.embed(tokens[rows]))), 2, turned))
        mixed = tally.mixed(rows, tokens[rows])
        torch.testing.assert_close(mixed, expected, atol=2e-5, rtol=1e-5)
    fresh = Tally.of(made, ROWS, LONG)
    for one in (tally, fresh):
        one.mixed(torch.arange(ROWS), tokens)
    assert np.array_equal(tally.sums, fresh.sums)  # nothing of the way is left
    assert np.array_equal(tally.sums.sum((2, 3)) > 0, np.ones((ROWS, LONG), bool))


@torch.no_grad()
def test_where_a_tally_would_not_do():
    good = trunk(length=LONG, dtype=torch.float32)
    assert Tally.of(good, ROWS, LONG) is not None
    for other in (
        trunk(length=LONG),
        trunk(length=LONG, dtype=torch.float32, layers=1),
        trunk(length=LONG, dtype=torch.float32, time_free=False),
        trunk(length=LONG, dtype=torch.float32, vocabulary=400),
    ):
        assert Tally.of(other, ROWS, LONG) is None
    good.blocks[0].qkv.weight *= 50  # weights too far apart for whole numbers
    assert Tally.of(good, ROWS, LONG) is None
    assert math.exp(MOST_NATS) * 2.0**-53 < 1e-6


def test_tokens_are_the_same_with_and_without(monkeypatch):
    """float32 on both ways: a draw could differ within float tolerance of a boundary; none does."""
    options = dict(rows=60, length=LONG, steps=9, seed=2)
    for sampler in ("ancestral", "remdm", "gibbs"):  # whose choices are no contest between scores
        network = Network(trunk(length=LONG, layers=3, dtype=torch.float32))
        ours = generate(network, sampler=sampler, **options)
        with monkeypatch.context() as patch:
            patch.setattr(Tally, "of", lambda *given: None)
            patch.setattr(attention, "fits", lambda weight: False)
            assert torch.equal(generate(network, sampler=sampler, **options).tokens, ours.tokens)
