"""A penalty on the left neighbour's token: its specimen by the rule, and the statistic that sees it."""

from __future__ import annotations

import pytest
import torch

from unmask import generate, languages
from unmask.denoisers import Ideal
from unmask.diagnosis.audit.changes import PENALTY, Altered, penalised
from unmask.diagnosis.audit.specimens import Meant, specimens
from unmask.diagnosis.audit.suspects import neighbours
from unmask.diagnosis.audit.verdict import ALARM
from unmask.samplers.contract import as_sampler
from unmask.samplers.schedules import deltas

LANGUAGE = languages.load("paper-2gram")
V = LANGUAGE.vocabulary


def test_the_specimen_takes_a_tenth_of_the_left_neighbours_token():
    rows = torch.tensor([[0, V, V, 3, V], [V, 1, V, V, 4]])
    plain, found = Ideal(LANGUAGE).posterior(rows), Altered(Ideal(LANGUAGE), penalised).posterior(rows)
    for row, place in (rows == V).nonzero().tolist():
        wanted = plain[row, place].clone()
        if place and rows[row, place - 1] < V:
            wanted[rows[row, place - 1]] *= PENALTY
        torch.testing.assert_close(found[row, place], wanted / wanted.sum(), rtol=0, atol=1e-12)


@pytest.mark.rotates(3)
def test_repeats_of_the_left_neighbour_see_it_and_accuse_no_right_rows():
    """20,000 rows are seen, as 5.8 standard deviations are expected; right ones have p-values that are even."""
    sampler = as_sampler("ancestral")
    bent = next(
        each.sampler
        for each in specimens(Meant(sampler, "linear", deltas("linear", 16), Ideal(LANGUAGE)))
        if each.fault == "repetition penalty"
    )
    ours = generate(LANGUAGE, sampler=sampler, steps=16, length=32, rows=60_000, seed=5).tokens
    theirs = generate(LANGUAGE, sampler=bent, steps=16, length=32, rows=20_000, seed=6).tokens
    assert neighbours(theirs, ours) < ALARM / 20
    right = generate(LANGUAGE, sampler=sampler, steps=16, length=32, rows=60_000, seed=7).tokens
    p_values = [neighbours(part, ours) for part in right.split(200)]
    assert min(p_values) > 1e-5
    assert 0.4 < sum(p_values) / len(p_values) < 0.6  # six standard errors of the mean of 300


def test_where_few_repeats_are_expected_nothing_is_said():
    rows = torch.arange(6).expand(300, 6).clone()
    assert neighbours(torch.zeros_like(rows), rows) == 1
