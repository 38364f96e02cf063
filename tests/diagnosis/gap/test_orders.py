"""The order gap from cuts, and accuracy from weights."""

from __future__ import annotations

import pytest
import torch

import unmask
from tests.diagnosis.gap.toys import Toy, V, chained, fixed, walked
from unmask.core.errors import UnmaskError
from unmask.diagnosis.gap import estimators
from unmask.diagnosis.gap.accuracy import accuracy
from unmask.diagnosis.gap.reader import Reader


@pytest.mark.parametrize("logs", [False, True])
def test_cuts_estimate_the_difference_of_the_two_orders(logs):
    """Over all texts of one step, and all cuts: E log c from the left less E log c from the right, by enumeration."""
    toy = Toy(4, 0.4)
    path, probability = walked(toy, fixed([0, 1, 2, 3]))
    reader, steps = Reader(toy, path), torch.arange(len(path.row))
    every = [estimators._differences(reader, steps, torch.full_like(steps, cut), logs) for cut in (1, 2, 3)]
    left, right = (
        sum(
            float(p) * chained(toy, (V,) * 4, tuple(text), order)
            for text, p in zip(path.final.tolist(), probability, strict=True)
        )
        for order in ((0, 1, 2, 3), (3, 2, 1, 0))
    )
    assert float((probability * torch.stack(every).mean(0)).sum()) == pytest.approx(left - right, abs=1e-12)
    assert abs(left - right) > 0.01


def test_an_ideal_denoiser_has_no_order_gap_and_spends_nothing_on_it():
    generation = unmask.generate("sparse-hmm", steps=4, length=16, rows=20)
    gap = unmask.gap("sparse-hmm", generation)
    assert (gap.order_gap.low, gap.order_gap.high, len(gap.order)) == (0, 0, 20)
    assert gap.model_calls == 2 * len(gap.steps.row)
    tempered = unmask.generate("sparse-hmm", steps=4, length=16, rows=20, temperature=0.5)
    assert unmask.gap("sparse-hmm", tempered).order_gap.high != 0


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
