"""Regular expressions and JSON templates over the text of tokens, as automata over tokens.

Python's own parser reads a pattern; it must match a whole text, so ^, $ and look-around are refused. A state is the set
of rests of the pattern that can follow the text so far: its partial derivatives (Antimirov 1996), which are finitely
many. Characters that the pattern never tells apart are one symbol. A token moves by all characters of its text.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from re import _parser  # type: ignore[attr-defined, unused-ignore]  # hypothesis builds on it too
from typing import Any, NamedTuple

import numpy as np

from unmask.core.errors import UnmaskError, shown
from unmask.core.reading import read_json
from unmask.languages.automata import Automaton, distinct_columns, explored, minimal
from unmask.languages.kernels.machine import Ints

DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"  # the text of tokens without names
AT_ONCE = 2**22  # moves of tokens that are compared at once
TYPES = {  # of values in a JSON template
    "integer": "-?(0|[1-9][0-9]*)",
    "number": r"-?(0|[1-9][0-9]*)(\.[0-9]+)?",
    "string": '"[^"\\\\\x00-\x1f]*"',
    "boolean": "true|false",
    "null": "null",
}
SPACE = " ?"  # after a comma or a colon


class Either(NamedTuple):
    parts: tuple[Sequence, ...]


class Repeat(NamedTuple):
    part: Sequence
    least: int
    most: int | None


Signs = frozenset[str]
Sequence = tuple["Signs | Either | Repeat", ...]  # one after another


class _Reader:
    """Turns a parsed pattern into sequences over an alphabet."""

    def __init__(self, pattern: str, alphabet: Signs) -> None:
        self.pattern, self.alphabet = pattern, alphabet

    def fail(self, problem: str, expected: str) -> UnmaskError:
        return UnmaskError(f"the pattern {shown(self.pattern)} {problem}; expected {expected}")

    def read(self) -> Sequence:
        try:
            tree = _parser.parse(self.pattern, re.DOTALL | re.ASCII)
        except (re.error, RecursionError, OverflowError) as error:
            where = f"breaks at character {error.pos}" if isinstance(error, re.error) else "is too large"
            raise self.fail(where, f"a regular expression ({error})") from error
        if tree.state.flags & ~(re.DOTALL | re.ASCII):
            raise self.fail("sets flags", "none")
        return self.sequence(tree)

    def sequence(self, tree: Any) -> Sequence:
        return tuple(self.item(str(operation), value) for operation, value in tree)

    def item(self, operation: str, value: Any) -> Signs | Either | Repeat:
        match operation:
            case "BRANCH":
                return Either(tuple(map(self.sequence, value[1])))
            case "SUBPATTERN" if not value[1] and not value[2]:
                return Either((self.sequence(value[3]),))
            case "MAX_REPEAT" | "MIN_REPEAT":
                least, most, part = value
                return Repeat(self.sequence(part), least, None if most is _parser.MAXREPEAT else int(most))
        return self.signs(operation, value)

    def signs(self, operation: str, value: Any) -> Signs:
        match operation:
            case "LITERAL":
                return frozenset(chr(value))
            case "NOT_LITERAL":
                return self.alphabet - {chr(value)}
            case "ANY":
                return self.alphabet
            case "RANGE":
                return frozenset(sign for sign in self.alphabet if value[0] <= ord(sign) <= value[1])
            case "CATEGORY":
                *_, which = str(value).split("_")
                escape = which[0] if "_NOT_" in str(value) else which[0].lower()
                return frozenset(sign for sign in self.alphabet if re.fullmatch(f"\\{escape}", sign, re.ASCII))
            case "IN":
                negated = str(value[0][0]) == "NEGATE"
                inside: Signs = frozenset().union(*(self.signs(str(one), what) for one, what in value[negated:]))
                return self.alphabet - inside if negated else inside
        raise self.fail(f"has {operation.lower()}", "characters, classes, groups, | and counts; it matches whole texts")


def _all_signs(sequence: Sequence) -> Iterator[Signs]:
    for item in sequence:
        if isinstance(item, frozenset):
            yield item
        else:
            for part in item.parts if isinstance(item, Either) else (item.part,):
                yield from _all_signs(part)


def _empty(sequence: Sequence) -> bool:
    """Whether the sequence matches the empty text."""
    for item in sequence:
        if isinstance(item, frozenset):
            return False
        if isinstance(item, Either) and not any(map(_empty, item.parts)):
            return False
        if isinstance(item, Repeat) and item.least and not _empty(item.part):
            return False
    return True


@lru_cache(maxsize=2**16)
def _after(sequence: Sequence, sign: str) -> frozenset[Sequence]:
    """The partial derivatives: the rests that can follow after this character."""
    found: set[Sequence] = set()
    for at, item in enumerate(sequence):
        found |= {begun + sequence[at + 1 :] for begun in _begun(item, sign)}
        if not _empty((item,)):
            break
    return frozenset(found)


def _begun(item: Signs | Either | Repeat, sign: str) -> set[Sequence]:
    if isinstance(item, frozenset):
        return {()} if sign in item else set()
    if isinstance(item, Either):
        return {rest for part in item.parts for rest in _after(part, sign)}
    if item.most == 0:
        return set()
    again = Repeat(item.part, max(item.least - 1, 0), None if item.most is None else item.most - 1)
    tail: Sequence = () if again.most == 0 else (again,)
    return {rest + tail for rest in _after(item.part, sign)}


def regex(pattern: str, vocabulary: int, names: tuple[str, ...] | None = None) -> Automaton:
    """The automaton of the token strings whose joined text matches the pattern.

    names: the text of each token; one without text is never allowed. (default: 0 to 9, then a to z)
    """
    texts = names or tuple(DIGITS[:vocabulary])
    if len(texts) != vocabulary:
        problem = f"{vocabulary} tokens have no names for a pattern"
        raise UnmaskError(f"{problem}; expected names, or at most {len(DIGITS)} tokens")
    alphabet = frozenset("".join(texts))
    whole = _Reader(pattern, alphabet).read()
    told_apart = list(set(_all_signs(whole)))
    kinds: dict[tuple[bool, ...], str] = {}  # the first character of each kind
    kind = {sign: tuple(sign in signs for signs in told_apart) for sign in sorted(alphabet)}
    for sign, its in kind.items():
        kinds.setdefault(its, sign)
    signs = list(kinds.values())

    def step(rests: frozenset[Sequence], symbol: int) -> frozenset[Sequence] | None:
        return frozenset().union(*(_after(rest, signs[symbol]) for rest in rests)) or None

    letters = explored(frozenset([whole]), step, lambda rests: any(map(_empty, rests)), len(signs))
    numbers = {its: number for number, its in enumerate(kinds)}
    columns = {sign: int(letters.classes[numbers[its]]) for sign, its in kind.items()}
    return _by_tokens(letters, [[columns[sign] for sign in text] for text in texts])


def _by_tokens(letters: Automaton, texts: list[list[int]]) -> Automaton:
    """The automaton over tokens, each a text of classes of characters."""
    states, stay = letters.moves.shape
    table = np.full((states + 1, stay + 1), states)  # a state without a future, and a class that stays
    table[:states, :stay] = np.where(letters.moves < 0, states, letters.moves)
    table[:, stay] = np.arange(states + 1)
    lengths = np.array(list(map(len, texts)))
    padded = np.full((len(texts), max(lengths.max(), 1)), stay)
    padded[np.arange(padded.shape[1]) < lengths[:, None]] = np.concatenate([np.array(text, int) for text in texts])
    ends = [*range(0, len(texts), max(AT_ONCE // states, 1)), len(texts)]
    tables, parts = [], []
    for first, last in pairwise(ends):
        state = np.repeat(np.arange(states)[:, None], last - first, 1)
        for column in padded[first:last].T:
            state = table[state, column]
        state[:, lengths[first:last] == 0] = states
        merged, which = distinct_columns(np.where(state == states, -1, state))
        parts.append(which + sum(one.shape[1] for one in tables))
        tables.append(merged)
    return minimal(np.hstack(tables), letters.final, np.concatenate(parts))


def schema(template: Any) -> str:
    """The regular expression of the JSON texts of a template: {"name": "string", "age": "integer", "who": ["a", "b"]}.

    A mapping has exactly its keys, in order. A list is a choice of values. A text names a type: integer, number,
    string, boolean or null. One space may follow a comma or a colon.
    """
    if isinstance(template, dict):
        pairs = [f"{re.escape(json.dumps(key))}:{SPACE}{schema(value)}" for key, value in template.items()]
        return r"\{" + f",{SPACE}".join(pairs) + r"\}"
    if isinstance(template, list) and template:
        return "(" + "|".join(re.escape(json.dumps(value, ensure_ascii=False)) for value in template) + ")"
    if isinstance(template, str) and template in TYPES:
        return f"({TYPES[template]})"
    expected = f"a mapping, a list of values, or one of {', '.join(TYPES)}"
    raise UnmaskError(f"the template has {shown(template)}; expected {expected}")


def read_schema(path: str | Path) -> str:
    """`schema` of a JSON file; spaces may follow the text, which fill the length."""
    return schema(read_json(path, Any)) + " *"
