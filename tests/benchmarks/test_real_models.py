"""Local masking of the study of real models, against enumeration; and its pattern."""

from __future__ import annotations

import itertools
import json
import re

import pytest
import torch

from benchmarks import real_models, real_text
from benchmarks.real_models import HEAVY, LETTERS, TRASTUZUMAB, Local, completable
from unmask import generate
from unmask.denoisers import Ideal
from unmask.languages import load
from unmask.languages.patterns import regex

PATTERN = "0*1(2|3.)*4"
HIDDEN, LENGTH = 8, 5


@pytest.mark.parametrize(
    "row", list(itertools.product((HIDDEN, 1), (HIDDEN, 2, 4), (HIDDEN, 3), (HIDDEN,), (HIDDEN, 4)))
)
def test_what_can_be_completed_is_what_enumeration_finds(row):
    strings = torch.cartesian_prod(*[torch.arange(HIDDEN)] * LENGTH)
    automaton = regex(PATTERN, HIDDEN)
    fits = automaton.accepts(strings)
    known = torch.tensor(row)
    expected = torch.zeros(LENGTH, HIDDEN, dtype=torch.bool)
    for place in range(LENGTH):
        others = (known == HIDDEN) | (torch.arange(LENGTH) == place)  # a revealed token says nothing of its own place
        some = strings[fits & ((strings == known) | others).all(1)]
        expected[place, some[:, place]] = True
    assert torch.equal(completable(automaton, known), expected)


def test_local_masking_writes_valid_rows_one_at_a_time():
    language = load("paper-2gram(pruned=False)")
    automaton = regex(PATTERN, HIDDEN)
    how = {"length": LENGTH, "rows": 200, "seed": 1}
    made = generate(Local(Ideal(language), automaton), sampler="fixed-size", steps=LENGTH, **how).tokens
    assert automaton.accepts(made).all()
    together = generate(Local(Ideal(language), automaton), sampler="fixed-size", steps=1, **how).tokens
    assert 0 < automaton.accepts(together).double().mean() < 0.5


def test_the_pattern_is_that_of_a_heavy_chain():
    assert re.fullmatch(HEAVY, TRASTUZUMAB)
    assert not re.fullmatch(HEAVY, TRASTUZUMAB[::-1])
    assert set(TRASTUZUMAB) <= set(LETTERS)


def test_the_page_has_the_tables_of_the_records():
    text = real_models.PAGE.read_text()
    assert real_models.page(text, real_models.kept()) == text
    assert real_text.table(json.loads(real_text.RESULTS.read_text())) in text
    assert real_models.page(text.replace("| given | 16 | 320 |", "| given | 16 | 321 |"), real_models.kept()) == text
