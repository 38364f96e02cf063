"""Automata of supports and patterns against enumeration."""

from __future__ import annotations

import itertools
import json
import re
from contextlib import suppress

import numpy as np
import pytest
import torch

from tests.brute import distribution, sequences, tiny_languages
from unmask import UnmaskError
from unmask.languages import Answers, automata, load, patterns
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
PATTERNS += ["(a??b|[^ab])*", "((a?)*b?){2,3}", "(?:ab)|(cd)", "(?i)A[^B]*", r"[\Dc]\S*", "a{0}b", "(a|){3}b"]
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
    moves = automaton.moves[:, automaton.classes]
    again = automata.explored(
        0, lambda s, v: None if moves[s, v] < 0 else moves[s, v], automaton.final.__getitem__, len(automaton.classes)
    )
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


VALUES = {
    "integer": ["0", "-7", "120", "-", "01", "1.5", "a"],
    "number": ["0.5", "-1", "2.", ".5"],
    "string": ['""', '"a b"', "a", '"a', '"a"b"'],
    "boolean": ["true", "True"],
    "null": ["null", "nul"],
}


@pytest.mark.parametrize("kind", VALUES)
def test_a_template_accepts_the_json_that_python_reads(kind):
    automaton = regex(patterns.schema({"a.b": kind, "c": ["x", 3, "d|e"]}), 128, tuple(map(chr, range(128))))
    for value in VALUES[kind]:
        for choice, of in (('"x"', True), ("3", True), ('"d|e"', True), ('"d"', False), ("x", False)):
            for text in (f'{{"a.b": {value}, "c": {choice}}}', f'{{"a.b":{value},"c":{choice}}}'):
                with suppress(json.JSONDecodeError):
                    json.loads(text)
                    expected = of and value != "1.5"
                    assert automaton.accepts(torch.tensor([list(text.encode())]))[0] == expected, text
                    continue
                assert not automaton.accepts(torch.tensor([list(text.encode())]))[0], text


def test_a_template_in_a_file_is_followed_by_spaces(tmp_path):
    (tmp_path / "t.json").write_text('{"k": [true, null]}')
    pattern = patterns.read_schema(tmp_path / "t.json")
    assert [
        bool(re.fullmatch(pattern, text)) for text in ('{"k": true}  ', '{"k":null}', '{"k": 1}', '{"k": true} x')
    ] == [
        True,
        True,
        False,
        False,
    ]
    for wrong in ("text", 3, []):
        with pytest.raises(UnmaskError, match="the template has"):
            patterns.schema({"k": wrong})


def test_many_tokens_are_few_classes(monkeypatch):
    """Tokens of several characters, in parts; each moves as its text does."""
    monkeypatch.setattr(patterns, "AT_ONCE", 5000)
    texts = tuple(f"{a}{b}"[: 1 + (a + b) % 5] for a in range(1000) for b in range(20))
    automaton = regex("1*(23)*4.*", len(texts), texts)
    assert automaton.moves.shape[1] < 50
    g = np.random.default_rng(0)
    rows = g.integers(len(texts), size=(4000, 3))
    rows[:, 0] = g.choice([k for k, text in enumerate(texts) if text[0] in "124"], 4000)
    expected = [re.fullmatch("1*(23)*4.*", "".join(texts[token] for token in row)) is not None for row in rows]
    assert automaton.accepts(torch.from_numpy(rows)).tolist() == expected
    assert any(expected)


@pytest.mark.parametrize("pattern", ["(a", "a)", "[a", "a{3,2}", "*a", "a\\", r"\q"])
def test_unreadable_patterns_name_the_character(pattern):
    with pytest.raises(UnmaskError, match="breaks at character"):
        regex(pattern, 4, ("a", "b", "c", "d"))


@pytest.mark.parametrize("pattern", ["^a", r"\bc", "(?=a)", r"(a)\1", "(?i:a)b", "a{9999999999}"])
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
