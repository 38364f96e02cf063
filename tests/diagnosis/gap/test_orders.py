"""Circulation of pairs, and accuracy from weights."""

from __future__ import annotations

from itertools import combinations

import pytest
import torch

import unmask
from tests.diagnosis.gap.toys import Toy, V, chained, path_of
from unmask.core.errors import UnmaskError
from unmask.diagnosis.gap import orders
from unmask.diagnosis.gap.accuracy import accuracy
from unmask.diagnosis.gap.reader import Reader

TEXT = (0, 1, 1, 2, 0)


@pytest.mark.parametrize("noise", [0.0, 0.4])
def test_circulation_telescopes_to_the_two_orders(noise):
    """The sum over all pairs is log c from the left less log c from the right; the ideal denoiser has none."""
    toy = Toy(5, noise)
    tokens = torch.tensor([TEXT])
    path = path_of(tokens, torch.ones_like(tokens), torch.ones((1, 5), dtype=torch.float64))
    first, second = torch.tensor(list(combinations(range(5), 2))).T
    circ = orders.circulation(Reader(toy, path), torch.zeros_like(first), first, second)
    left, right = (chained(toy, (V,) * 5, TEXT, order) for order in (tuple(range(5)), (4, 3, 2, 1, 0)))
    assert float(circ.sum()) == pytest.approx(left - right, abs=1e-12)
    assert bool((circ == 0).all()) == (noise == 0)


def test_pairs_are_uniform():
    first, second = orders.pairs(torch.full((60_000,), 4), torch.Generator().manual_seed(1))
    counts = torch.bincount(4 * first + second, minlength=16)
    assert bool((first < second).all())
    assert sum(counts[4 * i + j] for i, j in combinations(range(4), 2)) == 60_000
    for i, j in combinations(range(4), 2):  # each is binomial with mean 10,000 and deviation 91: 6.2 of them
        assert abs(int(counts[4 * i + j]) - 10_000) < 570


def test_lost_accuracy_is_a_covariance():
    """a_seq - a_par = Cov(f, w) with w of mean 1, and the weighted mean is that of the sequential model."""
    toy = Toy(4, 0.4)
    generation = unmask.generate(toy, sampler="fixed-size", steps=2, length=4, rows=4000, seed=2)
    gap = unmask.gap(toy, generation, calls="chain")
    score = (generation.tokens[:, 0] == generation.tokens[:, 1]).double()
    measured = gap.accuracy(score)
    weight = (-gap.chain).exp()
    weight = weight / weight.mean()
    covariance = float(((score - score.mean()) * (weight - 1)).mean())
    assert measured.lost.value == pytest.approx(covariance, abs=1e-12)
    assert measured.sequential.value - measured.parallel.value == pytest.approx(measured.lost.value, abs=1e-12)
    assert 0 < measured.effective < 1
    alone = unmask.generate(toy, sampler="fixed-size", steps=4, length=4, rows=4000, seed=3).tokens
    other = float((alone[:, 0] == alone[:, 1]).double().mean())
    error = (measured.sequential.standard_error**2 + other * (1 - other) / 4000) ** 0.5
    assert abs(measured.sequential.value - other) < 6.2 * error  # a false alarm in 1e-9 runs
    with pytest.raises(UnmaskError, match="expected calls='chain'"):
        unmask.gap(toy, generation).accuracy(score)
    with pytest.raises(UnmaskError, match=r"expected \(4000,\)"):
        gap.accuracy(score[:5])
    assert accuracy(torch.zeros(30), torch.ones(30)).lost.value == 0
