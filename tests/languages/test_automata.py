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
from unmask.languages import Answers, automata, load, patterns, schemas
from unmask.languages.patterns import regex
from unmask.languages.refinement import futures

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
    again = automata.smallest(moves, automaton.final)
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
    automaton = regex(schemas.schema({"a.b": kind, "c": ["x", 3, "d|e"]}), 128, tuple(map(chr, range(128))))
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
    pattern = schemas.read_schema(tmp_path / "t.json")
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
            schemas.schema({"k": wrong})


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


COSTLY = {
    "(0{1,1000}){1,1000}": "has over 262144 characters",
    "((()*){1,60000}){1,60000}": "has over 262144 characters",
    "(){3000000}": "needs over 2097152 steps",
    "(0|1|01|10|011){1,300}": "needs over 2097152 steps",
    "0?" * 3000: "needs over 2097152 steps",
    "(.?){1000}": "needs over 2097152 steps",
    "0" * (2**20 + 1): "has 1048577 characters",
}


@pytest.mark.parametrize("pattern", COSTLY, ids=lambda pattern: pattern[:30])
def test_a_pattern_is_limited_by_places_and_work(pattern):
    with pytest.raises(UnmaskError, match=COSTLY[pattern]):
        regex(pattern, 2)


def test_tokens_and_states_are_limited_together(monkeypatch):
    monkeypatch.setattr(patterns, "MOST_LOOKUPS", 100)
    with pytest.raises(UnmaskError, match="are too many to combine"):
        regex("(0[0-9]*){200}", 36)
    monkeypatch.undo()
    monkeypatch.setattr(patterns, "MOST_MOVES", 30)
    with pytest.raises(UnmaskError, match=r"separate over \d+ classes of tokens"):
        regex("0(123|45)0*", 36)


LONG = {"0" * 5000: "0" * 5000, f"({'01' * 1000})*": "01" * 1000, "0{20000}": "0" * 20000, "0{0,3000}1": "0" * 9 + "1"}


@pytest.mark.parametrize("pattern", LONG, ids=lambda pattern: pattern[:12])
def test_long_patterns_are_read(pattern):
    """In a second. Copies of the rest for each character, and Moore's rounds, took the square of the length."""
    automaton = regex(pattern, 2)
    for text in (LONG[pattern], LONG[pattern][:-1], LONG[pattern] + "1" * 99):
        accepted = automaton.accepts(torch.tensor([list(map(int, text))]))[0]
        assert accepted == bool(re.fullmatch(pattern, text))


def test_a_template_of_a_thousand_keys():
    kinds = list(VALUES)
    template = {f"key {number}": kinds[number % 5] for number in range(1000)} | {"of": [f"{n}" for n in range(2000)]}
    automaton = regex(schemas.schema(template), 128, tuple(map(chr, range(128))))
    examples = dict(zip(kinds, (-12, 0.5, "a", True, None), strict=True))
    right = {key: examples.get(kind, "1999") if isinstance(kind, str) else "1999" for key, kind in template.items()}
    for given, accepted in ((right, True), (right | {"of": "2000"}, False), (right | {"key 999": 1}, False)):
        assert automaton.accepts(torch.tensor([list(json.dumps(given).encode())]))[0] == accepted


@pytest.mark.parametrize("seed", range(20))
def test_states_are_merged_as_by_rounds(seed):
    """Random automata against Moore's rounds, which compare all moves of all states."""
    g = np.random.default_rng(seed)
    states, symbols = int(g.integers(1, 40)), int(g.integers(1, 4))
    moves = g.integers(-1, states, (states, symbols)) // int(g.integers(1, 4))
    final = g.random(states) < 0.3
    table = np.vstack([np.where(moves < 0, states, moves), np.full((1, symbols), states)])
    group, count = np.append(final, False).astype(int), 0
    while group.max() + 1 > count:
        count = group.max() + 1
        group = np.unique(np.column_stack([group, group[table]]), axis=0, return_inverse=True)[1].reshape(-1)
    firsts, groups = futures(moves, final)
    reached = groups >= 0
    same = group[:-1, None] == group[:-1]
    assert np.array_equal((groups[:, None] == groups)[np.ix_(reached, reached)], same[np.ix_(reached, reached)])
    assert groups[firsts].tolist() == list(range(len(firsts)))
    assert not reached[group[:-1] == group[-1]].any()
    assert bool(reached[0]) == (group[0] != group[-1])


def test_letters_of_a_template_are_written_in_both_ways():
    texts = tuple(sorted(set('{"é😀ü": .}\\u0123456789abcdef')))
    automaton = regex(schemas.schema({"é": ["ü😀"]}), len(texts), texts)
    for ascii in (True, False):
        text = json.dumps({"é": "ü😀"}, ensure_ascii=ascii)
        assert automaton.accepts(torch.tensor([[texts.index(sign) for sign in text]]))[0]
    mixed = '{"\\u00e9": "ü\\ud83d\\ude00"}'
    assert json.loads(mixed) == {"é": "ü😀"}
    assert automaton.accepts(torch.tensor([[texts.index(sign) for sign in mixed]]))[0]
    wrong = '{"e": "ü😀"}'
    assert not automaton.accepts(torch.tensor([[texts.index(sign) for sign in wrong]]))[0]


def nested(depth):
    return {"a": nested(depth - 1)} if depth > 1 else "null"


def test_a_template_is_64_deep_at_most(tmp_path):
    assert schemas.schema(nested(64)).count("{") == 63
    for depth in (65, 900):
        with pytest.raises(UnmaskError, match="nested more than 64 deep"):
            schemas.schema(nested(depth))


MACHINES = {
    "far": ({"vocabulary": 10**9, "moves": [{}], "final": [0]}, "vocabulary does not fit"),
    "none": ({"vocabulary": 0, "moves": [{"0": 0}], "final": [0]}, "vocabulary"),
    "large": ({"vocabulary": 2**22, "moves": [{}, {}], "final": [0]}, "2 states of 4194304 tokens"),
    "empty": ({"vocabulary": 2, "moves": [], "final": []}, "0 states of 2 tokens"),
    "names": ({"vocabulary": 2, "moves": [{"a": 0}], "final": [0]}, "expected 3, as many as there are names"),
}


@pytest.mark.parametrize("name", MACHINES)
def test_a_machine_is_checked_before_a_list_is_built(name, tmp_path):
    form, words = MACHINES[name]
    (tmp_path / "m.json").write_text(json.dumps(form))
    with pytest.raises(UnmaskError, match=words):
        automata.read(tmp_path / "m.json", ("a", "b", "c") if name == "names" else None)


@pytest.mark.parametrize("flags", ["(?u)0*", "(?L)0*", "[[0]*", "(?>0*)0"])
def test_flags_and_brackets_of_a_pattern_are_read_or_refused(flags):
    with suppress(UnmaskError):
        assert regex(flags, 2).states == 1


def test_names_may_be_a_list():
    assert regex("ab*", 2, ["a", "b"]) is regex("ab*", 2, ("a", "b"))
