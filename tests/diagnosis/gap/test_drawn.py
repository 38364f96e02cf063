"""Low-confidence draws before it chooses: its distribution by all draws of a step, and its gap by all paths."""

from __future__ import annotations

import math
from itertools import combinations, permutations, product

import numpy as np
import pytest
import torch

from tests.diagnosis.gap.toys import Toy, V, chained, path_of, table
from unmask.diagnosis.gap.drawn import corrections, log_chosen
from unmask.diagnosis.gap.reader import Reader


def kept(draws: np.ndarray, scores: np.ndarray, count: int) -> dict[tuple[tuple[int, ...], tuple[int, ...]], float]:
    """r(S, x_S) by all draws; equal scores in all orders."""
    found: dict[tuple[tuple[int, ...], tuple[int, ...]], float] = {}
    hidden = range(len(draws))
    for text in product(range(draws.shape[1]), repeat=len(draws)):
        p = math.prod(draws[i][token] for i, token in zip(hidden, text, strict=True))
        level = sorted((scores[i][text[i]] for i in hidden), reverse=True)[count - 1]
        above = [i for i in hidden if scores[i][text[i]] > level]
        equal = list(combinations([i for i in hidden if scores[i][text[i]] == level], count - len(above)))
        for some in equal:
            chosen = tuple(sorted([*above, *some]))
            key = chosen, tuple(text[i] for i in chosen)
            found[key] = found.get(key, 0.0) + p / len(equal)
    return found


def exactly(draws: np.ndarray, scores: np.ndarray, chosen: tuple[int, ...], tokens: tuple[int, ...]):
    mask, text = torch.zeros((1, len(draws)), dtype=torch.bool), torch.zeros((1, len(draws)), dtype=torch.int64)
    mask[0, list(chosen)], text[0, list(chosen)] = True, torch.tensor(tokens)
    joint, positions = log_chosen(torch.tensor(draws)[None], torch.tensor(scores)[None], mask, ~mask, text)
    return math.exp(float(joint)), math.exp(float(positions))


@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize("count", [1, 2, 3, 4])
def test_the_distribution_of_a_step_is_that_of_all_draws(count, ties):
    rng = np.random.default_rng(count)
    draws = rng.dirichlet(np.ones(V), 4)
    scores = rng.integers(1, 4, (4, V)) if ties else np.round(draws * 1e9).astype(np.int64)
    exact = kept(draws, scores, count)
    total = 0.0
    for (chosen, tokens), r in exact.items():
        joint, positions = exactly(draws, scores, chosen, tokens)
        assert joint == pytest.approx(r, abs=1e-13)
        own = math.fsum(p for (other, _), p in exact.items() if other == chosen)
        assert positions == pytest.approx(own, abs=1e-13)
        total += joint
    assert total == pytest.approx(1, abs=1e-12)


def test_the_gap_of_two_of_four_is_that_of_the_theory():
    """Noisy, two tokens in each of two steps: 1.150; without the correction .443 (theory sheet, A5)."""
    toy, found = Toy(4, 0.4), []

    def steps(context: tuple[int, ...]) -> dict:
        hidden = [i for i in range(4) if context[i] == V]
        marginals = table(4, 0.4, context)[hidden]
        every = kept(marginals, np.round(marginals * 1e9).astype(np.int64), 2)
        return {(tuple(hidden[i] for i in chosen), tokens): p for (chosen, tokens), p in every.items()}

    for (first, tokens), p in steps((V,) * 4).items():
        now = [V] * 4
        for i, token in zip(first, tokens, strict=True):
            now[i] = token
        for (second, last), then in steps(tuple(now)).items():
            text = list(now)
            for i, token in zip(second, last, strict=True):
                text[i] = token
            found.append((tuple(now), tuple(text), first, p * then))
    weight = torch.tensor([p for *_, p in found], dtype=torch.float64)
    text = torch.tensor([one for _, one, _, _ in found])
    order = torch.tensor([[1 if i in first else 2 for i in range(4)] for *_, first, _ in found])
    path = path_of(text, order, torch.ones_like(order).double())
    correction = corrections(Reader(toy, path), torch.arange(len(path.row)), torch.zeros_like(text))
    naive, corrected = 0.0, 0.0
    for k, row in enumerate(path.row.tolist()):
        context = tuple(path.contexts(torch.tensor([k]))[0].tolist())
        positions, tokens = path.position[path.step == k].tolist(), found[row][1]
        chain = np.mean([chained(toy, context, tokens, one) for one in permutations(positions)])
        ratio = sum(math.log(table(4, 0.4, context)[i][tokens[i]]) for i in positions) - chain
        naive += float(weight[row]) * ratio
        corrected += float(weight[row]) * (ratio + float(correction[k]))
    assert float(weight.sum()) == pytest.approx(1, abs=1e-12)
    assert naive == pytest.approx(0.443, abs=2e-3)
    assert corrected == pytest.approx(1.150, abs=1e-3)
