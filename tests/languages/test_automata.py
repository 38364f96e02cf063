"""Automata of supports and patterns against enumeration."""

from __future__ import annotations

import itertools
import json
import re

import numpy as np
import pytest
import torch

from tests.brute import distribution, sequences, tiny_languages
from unmask import UnmaskError
from unmask.languages import Answers, automata, load
from unmask.languages.patterns import regex

SIZES = {  # states and edges of the minimal automata
    "paper-2gram": (7, 45),
    "paper-3gram": (64, 332),
    "paper-4gram": (447, 2617),
    "sparse-hmm": (80, 400),
    "paper-hmm": (2, 16),
    "interval-5": (162, 560),
    "brackets": (32, 62),
    "modular-sum": (61, 160),
}
PATTERNS = ["a*b", "(ab|c)*a?", "[a-b]{2,3}c+", "[^a]*a[^a]*", "a{2}|b{3,}|", "(a|b)*abb", ".*ab.*", "(a?b?){2}c"]
PATTERNS += ["(a??b|[^ab])*", "((a?)*b?){2,3}", "(?:ab)|(cd)", r"[\Dc]\S*", "a{0}b", "(a|){3}b"]
PATTERNS += ["((a|bc)+d?){1,3}", r"\w{4}", "(a*)*b", r"a\|?b", "[]a]b", "[a-]*"]


@pytest.mark.parametrize("name", tiny_languages())
def test_a_support_accepts_exactly_the_possible_strings(name):
    language, length = tiny_languages()[name]
    automaton = automata.support(language)
    strings = torch.from_numpy(sequences(language.vocabulary, length))
    assert np.array_equal(automaton.accepts(strings).numpy(), distribution(language, length) > 0)


@pytest.mark.parametrize("name", SIZES)
def test_supports_are_minimal(name):
    automaton = automata.support(load(name))
    assert (automaton.states, automaton.edges) == SIZES[name]
    again = automata.minimal(automaton.moves, automaton.final)
    assert np.array_equal(again.moves, automaton.moves)


def test_listed_answers_share_prefixes_and_ends():
    listed = torch.tensor([[0, 1, 2], [0, 2, 2], [1, 1, 2]])
    automaton = automata.support(Answers(listed, vocabulary=3))
    strings = torch.from_numpy(sequences(3, 3))
    assert automaton.states == 5
    assert {tuple(row) for row in strings[automaton.accepts(strings)].tolist()} == {(0, 1, 2), (0, 2, 2), (1, 1, 2)}


@pytest.mark.parametrize("pattern", PATTERNS)
def test_patterns_match_what_python_matches(pattern):
    automaton = regex(pattern, 4, ("a", "b", "c", "d"))
    for length in range(1, 6):
        strings = sequences(4, length)
        texts = ["".join("abcd"[token] for token in row) for row in strings]
        expected = [re.fullmatch(pattern, text) is not None for text in texts]
        assert automaton.accepts(torch.from_numpy(strings)).tolist() == expected


def test_a_pattern_reads_the_text_of_tokens_of_several_characters():
    automaton = regex("(ab|cd)+", 3, ("a", "bc", "d"))
    accepted = {row for row in itertools.product(range(3), repeat=3) if automaton.accepts(torch.tensor([row]))[0]}
    assert accepted == {(0, 1, 2)}  # a bc d


@pytest.mark.parametrize("pattern", ["(a", "a)", "[a", "a{3,2}", "*a", "a\\", r"\q"])
def test_unreadable_patterns_name_the_character(pattern):
    with pytest.raises(UnmaskError, match="breaks at character"):
        regex(pattern, 4, ("a", "b", "c", "d"))


@pytest.mark.parametrize("pattern", ["^a", r"\bc", "(?=a)", "(?i)a", r"(a)\1", "(?i:a)b", "a{9999999999}"])
def test_patterns_beyond_texts_are_refused(pattern):
    with pytest.raises(UnmaskError, match="the pattern"):
        regex(pattern, 4, ("a", "b", "c", "d"))


def test_an_automaton_in_a_file(tmp_path):
    form = {"vocabulary": 3, "moves": [{"0": 1}, {"1": 0, "2": 1}], "final": [1]}
    (tmp_path / "a.json").write_text(json.dumps(form))
    automaton = automata.read(tmp_path / "a.json")
    assert automaton.accepts(torch.tensor([[0, 2, 2], [0, 1, 0], [0, 1, 1], [2, 2, 2]])).tolist() == [
        True,
        True,
        False,
        False,
    ]
    (tmp_path / "a.json").write_text(json.dumps(form | {"final": [2]}))
    with pytest.raises(UnmaskError, match="final is"):
        automata.read(tmp_path / "a.json")


def test_the_first_position_without_a_completion():
    automaton = regex("0*12*", 3)
    tokens = [[3, 3, 3], [2, 3, 3], [0, 1, 1], [0, 0, 0], [3, 0, 2]]
    assert [automaton.first_dead(torch.tensor(row)) for row in tokens] == [None, 0, 2, 2, 2]


def test_too_many_states_are_refused():
    with pytest.raises(UnmaskError, match="more than 65536 states"):
        regex(".*1.{20}", 2)
