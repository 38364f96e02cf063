"""Regular expressions and JSON templates over the text of tokens, as automata over tokens.

Python's own parser reads a pattern, which must match a whole text. A state is the set of rests of the pattern that can
follow the text so far: its partial derivatives (Antimirov 1996), which are finitely many. Characters that the pattern
never distinguishes are one symbol. A token moves by all characters of its text.
"""

from __future__ import annotations

import json
import re
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from re import _compiler, _parser  # type: ignore[attr-defined, unused-ignore]  # as hypothesis does
from typing import Any, NamedTuple

import numpy as np

from unmask.core.errors import UnmaskError, shown
from unmask.core.reading import read_json
from unmask.languages.automata import Automaton, distinct_columns, explored

DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"  # the text of tokens without names
AT_ONCE = 2**22  # moves of tokens that are compared at once
TYPES = {  # of values in a JSON template
    "integer": "-?(0|[1-9][0-9]*)",
    "number": r"-?(0|[1-9][0-9]*)(\.[0-9]+)?",
    "string": '"[^"\\\\\x00-\x1f]*"',
    "boolean": "true|false",
    "null": "null",
}
EXPECTED = "expected characters, classes, groups, | and counts; it always matches the whole text"
Signs = frozenset[str]
Sequence = tuple["Signs | Either | Repeat", ...]  # one after another


class Either(NamedTuple):
    parts: tuple[Sequence, ...]


class Repeat(NamedTuple):
    part: Sequence
    least: int
    most: int | None


def _parsed(pattern: str, alphabet: Signs) -> tuple[Sequence, list[Signs]]:
    """(the pattern over an alphabet, its sets of characters)."""
    sets: list[Signs] = []

    def sequence(tree: Any) -> Sequence:
        return tuple(item(node, *node) for node in tree)

    def item(node: Any, operation: Any, value: Any) -> Signs | Either | Repeat:
        match str(operation):
            case "BRANCH":
                return Either(tuple(map(sequence, value[1])))
            case "SUBPATTERN" if not value[1] and not value[2]:  # without flags of its own
                return Either((sequence(value[3]),))
            case "MAX_REPEAT" | "MIN_REPEAT":
                return Repeat(sequence(value[2]), value[0], None if value[1] is _parser.MAXREPEAT else value[1])
            case "LITERAL" | "NOT_LITERAL" | "IN" | "ANY":
                one = _compiler.compile(_parser.SubPattern(whole.state, [node]), whole.state.flags)
                sets.append(frozenset(sign for sign in alphabet if one.fullmatch(sign)))
                return sets[-1]
        raise UnmaskError(f"the pattern {shown(pattern)} has {str(operation).lower()}; {EXPECTED}")

    try:
        whole = _parser.parse(pattern, re.DOTALL | re.ASCII)
        return sequence(whole), sets
    except (re.error, RecursionError, OverflowError) as error:
        where = f"breaks at character {error.pos}" if isinstance(error, re.error) else "is too large"
        raise UnmaskError(f"the pattern {shown(pattern)} {where}: {error}; {EXPECTED}") from error


def _empty(sequence: Sequence) -> bool:
    """Whether the sequence matches the empty text."""
    for item in sequence:
        if isinstance(item, Either):
            if not any(map(_empty, item.parts)):
                return False
        elif not isinstance(item, Repeat) or (item.least and not _empty(item.part)):
            return False
    return True


@lru_cache(maxsize=2**16)
def _after(sequence: Sequence, sign: str) -> frozenset[Sequence]:
    """The partial derivatives: the rests that can follow after this character."""
    rests: set[Sequence] = set()
    for at, item in enumerate(sequence):
        rests |= {begun + sequence[at + 1 :] for begun in _begun(item, sign)}
        if not _empty((item,)):
            break
    return frozenset(rests)


def _begun(item: Signs | Either | Repeat, sign: str) -> set[Sequence]:
    if isinstance(item, Either):
        return {rest for part in item.parts for rest in _after(part, sign)}
    if not isinstance(item, Repeat):
        return {()} if sign in item else set()
    if item.most == 0:
        return set()
    left = None if item.most is None else item.most - 1
    tail = () if left == 0 else (Repeat(item.part, max(item.least - 1, 0), left),)
    return {rest + tail for rest in _after(item.part, sign)}


@lru_cache(maxsize=16)
def regex(pattern: str, vocabulary: int, names: tuple[str, ...] | None = None) -> Automaton:
    """The automaton of the token strings whose joined text matches the pattern.

    names: the text of each token; one without text is never allowed. (default: 0 to 9, then a to z)
    """
    texts = names or tuple(DIGITS[:vocabulary])
    if len(texts) != vocabulary:
        problem = f"{vocabulary} tokens have no names for a pattern"
        raise UnmaskError(f"{problem}; expected names, or at most {len(DIGITS)} tokens")
    alphabet = frozenset("".join(texts))
    whole, sets = _parsed(pattern, alphabet)
    kinds = {sign: tuple(sign in one for one in sets) for sign in sorted(alphabet)}
    signs = {kind: sign for sign, kind in kinds.items()}  # one of each kind
    every = list(signs.values())

    def step(rests: frozenset[Sequence], symbol: int) -> frozenset[Sequence] | None:
        return frozenset().union(*(_after(rest, every[symbol]) for rest in rests)) or None

    letters = explored(frozenset([whole]), step, lambda rests: any(map(_empty, rests)), len(every))
    column = {sign: int(letters.classes[every.index(signs[kind])]) for sign, kind in kinds.items()}
    return _by_tokens(letters, [[column[sign] for sign in text] for text in texts])


def _by_tokens(letters: Automaton, texts: list[list[int]]) -> Automaton:
    """The automaton over tokens, each a text of classes of characters."""
    states, stay = letters.moves.shape
    table = np.full((states + 1, stay + 1), states)  # a state without a future, and a class that stays
    table[:states, :stay] = np.where(letters.moves < 0, states, letters.moves)
    table[:, stay] = np.arange(states + 1)
    longest = max(1, *map(len, texts))
    padded = np.array([text + [stay] * (longest - len(text)) for text in texts])
    tables, parts, count = [], [], 0
    for first, last in pairwise([*range(0, len(texts), max(AT_ONCE // states, 1)), len(texts)]):
        state = np.repeat(np.arange(states)[:, None], last - first, 1)
        for column in padded[first:last].T:
            state = table[state, column]
        state[:, padded[first:last, 0] == stay] = states
        merged, which = distinct_columns(np.where(state == states, -1, state))
        parts.append(which + count)
        tables.append(merged)
        count += merged.shape[1]
    moves, final, classes = np.hstack(tables).tolist(), letters.final.tolist(), np.concatenate(parts)

    def step(state: int, kind: int) -> int | None:
        return None if moves[state][kind] < 0 else moves[state][kind]

    return explored(0, step, lambda state: final[state], len(moves[0]), classes)


def schema(template: Any) -> str:
    """The regular expression of the JSON texts of a template: {"name": "string", "age": "integer", "who": ["a", "b"]}.

    A mapping has exactly its keys, in order. A list is a choice of values. A text names a type: integer, number,
    string, boolean or null. One space may follow a comma or a colon.
    """
    if isinstance(template, dict):
        pairs = [f"{re.escape(json.dumps(key))}: ?{schema(value)}" for key, value in template.items()]
        return r"\{" + ", ?".join(pairs) + r"\}"
    if isinstance(template, list) and template:
        return "(" + "|".join(re.escape(json.dumps(value, ensure_ascii=False)) for value in template) + ")"
    if isinstance(template, str) and template in TYPES:
        return f"({TYPES[template]})"
    expected = f"a mapping, a list of values, or one of {', '.join(TYPES)}"
    raise UnmaskError(f"the template has {shown(template)}; expected {expected}")


def read_schema(path: str | Path) -> str:
    """`schema` of a JSON file; spaces and line ends may follow the text, which fill the length."""
    return schema(read_json(path)) + r"[ \n]*"
