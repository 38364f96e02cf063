"""Steps are drawn in proportion to their weights, a fixed number for each row."""

from __future__ import annotations

import pytest
import torch

from unmask.diagnosis.gap.choice import chosen, evenly

SIZES = torch.tensor([1, 2, 4, 3, 1, 6])


@pytest.mark.parametrize("most", [1, 2, 3, 9])
def test_sums_over_chosen_steps_are_unbiased(most):
    rows, count = 20_000, len(SIZES)
    size = SIZES.repeat(rows)
    row = torch.arange(rows).repeat_interleave(count)
    weight = size * (size - 1)
    steps, probability = chosen(weight, row, most, torch.Generator().manual_seed(4))
    times = torch.bincount(row[steps], minlength=rows)
    assert bool((times == min(most, 4)).all())  # steps of one token are never chosen
    which = steps % count
    taken = torch.bincount(which, minlength=count) / rows
    for step in (1, 2, 3, 5):
        expected = float(probability[which == step][0])
        assert abs(float(taken[step]) - expected) <= 6.2 * (expected * (1 - expected) / rows) ** 0.5 + 1e-12
    if most == 1:  # in proportion to n(n-1): 2, 12, 6, 30 of 50
        torch.testing.assert_close(probability, (weight[steps] / 50).double())


def test_rows_without_weight_have_no_step():
    steps, probability = chosen(torch.tensor([0, 2, 0]), torch.tensor([0, 1, 2]), 1, torch.Generator().manual_seed(0))
    assert steps.tolist() == [1]
    assert probability.tolist() == [1]
    assert not len(chosen(torch.zeros(0), torch.zeros(0, dtype=torch.int64), 1, torch.Generator())[0])


def test_rows_are_spread():
    assert evenly(10, 4).tolist() == [0, 2, 5, 7]
    assert evenly(3, 9).tolist() == [0, 1, 2]
    assert not len(evenly(3, 0))
