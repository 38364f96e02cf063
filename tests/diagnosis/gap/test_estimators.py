"""By enumeration: the mean over all texts of a rule is the KL divergence of the rule from the model's own chain."""

from __future__ import annotations

import math
from itertools import permutations

import pytest
import torch

from tests.diagnosis.gap.toys import (
    Toy,
    V,
    all_subsets,
    chained,
    confident,
    fixed,
    path_of,
    prefixes,
    summed,
    surest,
    walked,
)
from unmask.diagnosis.gap.estimators import read, subsets
from unmask.diagnosis.gap.path import Path, Reader

HALVES = fixed([0, 2, 4], [1, 3])
RULES = {"halves": HALVES, "two lowest entropies": surest(2), "threshold": confident(0.5), "at once": surest(5)}
GOLDEN = {("halves", 0.0): 0.1517, ("two lowest entropies", 0.0): 0.6303, ("halves", 0.4): 0.370}  # theory sheet, A1
SIGMAS = 6.2  # standard errors: a false alarm in 1e-9 runs


def mean_chain(toy: Toy, path: Path, row: int) -> float:
    """Mean over all orders of each step of log c_s of the row's tokens."""
    total, text = 0.0, tuple(path.final[row].tolist())
    for k in (path.row == row).nonzero().flatten().tolist():
        context = tuple(path.contexts(torch.tensor([k]))[0].tolist())
        positions = path.entries.positions[path.step == k].tolist()
        orders = list(permutations(positions))
        total += math.fsum(chained(toy, context, text, order) for order in orders) / len(orders)
    return total


@pytest.mark.sampled(4)
@pytest.mark.parametrize("noise", [0.0, 0.4])
@pytest.mark.parametrize("rule", RULES)
def test_the_mean_over_all_paths_is_the_divergence(rule, noise):
    toy = Toy(4 if rule == "at once" else 5, noise)
    path, probability = walked(toy, surest(4) if rule == "at once" else RULES[rule])
    every = all_subsets(path)
    readings = read(Reader(toy, path), every)
    chain = torch.tensor([mean_chain(toy, path, row) for row in range(len(probability))], dtype=torch.float64)
    exact = float((probability * (probability.log() - chain)).sum())
    assert float(probability.sum()) == pytest.approx(1, abs=1e-12)
    for values in (readings.nats, readings.logs):  # the token summed out, and log ratios: equal means
        assert float(probability @ summed(path, every, values)) == pytest.approx(exact, abs=1e-12)
    torch.testing.assert_close(summed(path, every, readings.logs), probability.log() - chain, atol=1e-12, rtol=0)
    if (golden := GOLDEN.get((rule, noise))) is not None:
        assert exact == pytest.approx(golden, abs=6e-4)
    wrong = probability @ summed(path, every, readings.nats * 4 / 3)  # planted: the weight n in place of n - 1
    assert abs(float(wrong) - exact) > 0.01


@pytest.mark.parametrize("noise", [0.0, 0.4])
@pytest.mark.parametrize("rule", RULES)
def test_the_chain_of_one_order_is_a_distribution(rule, noise):
    """E exp(-gap) = 1, and 1 - E min(1, exp(-gap)) is the total variation of the two distributions."""
    toy = Toy(5, noise)
    path, probability = walked(toy, RULES[rule])
    every = prefixes(path)
    readings = read(Reader(toy, path), every)
    gap = summed(path, every, readings.follows)
    assert float(probability @ (-gap).exp()) == pytest.approx(1, abs=1e-12)
    other = probability * (-gap).exp()
    variation = float((probability - other).abs().sum()) / 2
    assert float(probability @ (1 - (-gap).exp().clamp(max=1))) == pytest.approx(variation, abs=1e-12)
    if (rule, noise) == ("at once", 0.0):
        assert variation == pytest.approx(0.5826, abs=5e-5)
        every = all_subsets(path)
        assert variation < float(probability @ summed(path, every, read(Reader(toy, path), every).changed))


def test_greedy_decoding_has_first_flips():
    """Six at once, noisy: .3667 over all orders (theory sheet, A6)."""
    toy = Toy(6, 0.4)
    blank = torch.full((1, 6), V)
    best = toy.posterior(blank).argmax(2)
    path = path_of(best, torch.ones_like(best), toy.posterior(blank).amax(2))
    every = all_subsets(path)
    readings = read(Reader(toy, path, temperature=0.0), every)
    changed = {permuted: 0 for permuted in permutations(range(6))}
    for order in changed:
        now = [V] * 6
        for i in order:
            changed[order] += int(toy.posterior(torch.tensor([now]))[0, i].argmax()) != int(best[0, i])
            now[i] = int(best[0, i])
    assert float(summed(path, every, readings.changed)) == pytest.approx(sum(changed.values()) / 720, abs=1e-12)
    assert float(summed(path, every, readings.changed)) == pytest.approx(0.3667, abs=5e-5)


@pytest.mark.parametrize("estimator", ["one", "chain"])
def test_estimators_are_unbiased(estimator):
    """4000 repetitions of one row, to SIGMAS standard errors; the wrong weight is seen."""
    toy = Toy(5, 0.4)
    row = torch.tensor([[0, 1, 1, 2, 0]])
    probability = toy.posterior(torch.full((1, 5), V)).gather(2, row.unsqueeze(2)).squeeze(2)
    path = path_of(row, torch.ones_like(row), probability)
    exact = summed(path, all_subsets(path), read(Reader(toy, path), all_subsets(path)).nats)
    many = path_of(row.repeat(4000, 1), torch.ones(4000, 5, dtype=torch.int64), probability.repeat(4000, 1))
    every = subsets(many, torch.arange(4000), estimator, torch.Generator().manual_seed(1))
    estimates = summed(many, every, read(Reader(toy, many), every).nats)
    error = float(estimates.std()) / 4000**0.5
    assert abs(float(estimates.mean() - exact)) < SIGMAS * error
    if estimator != "chain":
        assert abs(float(estimates.mean() * 5 / 4 - exact)) > SIGMAS * error * 5 / 4  # n in place of n - 1
    assert len(every.step) == 4000 * {"one": 1, "chain": 4}[estimator]
