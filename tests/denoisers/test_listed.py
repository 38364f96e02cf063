"""The engine of a table of answers, against the posterior of each position given all others."""

from __future__ import annotations

from itertools import product

import pytest
import torch

from unmask.denoisers import Ideal
from unmask.languages.answers import Answers

V, L, ROWS = 3, 4, 6


@pytest.mark.parametrize("seed", range(8))
def test_every_position_is_predicted_from_all_others(seed):
    random = torch.Generator().manual_seed(seed)
    every = torch.tensor(list(product(range(V), repeat=L)))
    chosen = torch.randperm(len(every), generator=random)[: 1 + 3 * seed]
    weights = torch.rand(len(chosen), generator=random, dtype=torch.float64) + 0.1
    language = Answers(every[chosen], V, weights=weights.tolist())
    tokens = torch.randint(0, V + 1, (ROWS, L), generator=random)
    engine = Ideal(language).engine(tokens)
    entries = torch.arange(ROWS).repeat_interleave(L), torch.arange(L).repeat(ROWS)
    for _ in range(12):
        row, position, token = (int(torch.randint(0, most, (1,), generator=random)) for most in (ROWS, L, V + 1))
        tokens[row, position] = token
        engine.renew(torch.tensor([row]), torch.tensor([position]))
        alone = tokens.unsqueeze(1).repeat(1, L, 1)
        alone[:, torch.arange(L), torch.arange(L)] = V
        wanted = torch.stack([language.posterior(alone[:, j], [j])[:, 0] for j in range(L)], 1)
        torch.testing.assert_close(engine.at(*entries, None).view(ROWS, L, V), wanted, rtol=0, atol=1e-12)
        assert torch.equal(engine.dead(), language.log_evidence(tokens) == -torch.inf)


def test_changes_of_a_position_in_several_rows_at_once():
    language = Answers([[0, 1], [1, 0], [2, 2]], V)
    tokens = language.blank(3, 2)
    engine = Ideal(language).engine(tokens)
    tokens[:, 0] = torch.tensor([0, 1, 2])
    engine.renew(torch.arange(3), torch.zeros(3, dtype=torch.int64))
    assert engine.at(torch.arange(3), torch.ones(3, dtype=torch.int64), None).argmax(1).tolist() == [1, 0, 2]
