"""Regular expressions over the text of tokens, as automata over tokens.

A pattern has literals, ., classes [a-c^..], escapes (\\d \\w \\s, \\ before a sign), groups (..), alternatives | and
the counts * + ? {m} {m,} {m,n}. It must match a whole string. Glushkov's construction needs no empty moves: a state is
the set of those positions in the pattern that can have read the last character. A token moves by all characters of its
text at once.
"""

from __future__ import annotations

import string
from collections.abc import Callable
from typing import NamedTuple

from unmask.core.errors import UnmaskError, shown
from unmask.languages.automata import Automaton, explored

DIGITS = string.digits + string.ascii_lowercase  # the text of tokens without names
CLASSES = {"d": string.digits, "w": string.ascii_letters + string.digits + "_", "s": " \t\n\r\f\v"}
MOST_PLACES = 2**12
Places = frozenset[int]


class Signs(NamedTuple):
    """The characters at one position: those listed, or all others."""

    listed: frozenset[str]
    others: bool = False

    def has(self, sign: str) -> bool:
        return (sign in self.listed) != self.others


class Part(NamedTuple):
    """A part of a pattern: whether it matches the empty text, and its possible first and last positions."""

    empty: bool
    first: Places
    last: Places


NOTHING = Part(True, frozenset(), frozenset())
Build = Callable[[], Part]  # adds the places of a part; a repeated part is built several times


class _Reader:
    """Reads a pattern from left to right into functions that build it."""

    def __init__(self, pattern: str) -> None:
        self.pattern, self.at = pattern, 0
        self.places: list[Signs] = []
        self.follow: list[set[int]] = []

    def fail(self, expected: str) -> UnmaskError:
        return UnmaskError(f"the pattern {shown(self.pattern)} breaks at character {self.at}; expected {expected}")

    @property
    def next(self) -> str:
        return self.pattern[self.at : self.at + 1]

    def take(self, expected: str = "") -> str:
        if not (sign := self.next) or (expected and sign != expected):
            raise self.fail(expected or "another character")
        self.at += 1
        return sign

    def alternatives(self) -> Build:
        parts = [self.sequence()]
        while self.next == "|":
            self.take()
            parts.append(self.sequence())
        return lambda: self.either([part() for part in parts])

    def either(self, parts: list[Part]) -> Part:
        first, last = frozenset[int](), frozenset[int]()
        for part in parts:
            first, last = first | part.first, last | part.last
        return Part(any(part.empty for part in parts), first, last)

    def sequence(self) -> Build:
        parts: list[Build] = []
        while self.next and self.next not in "|)":
            parts.append(self.counted(self.one()))
        return lambda: self.chained([part() for part in parts])

    def chained(self, parts: list[Part]) -> Part:
        whole = NOTHING
        for part in parts:
            self.link(whole.last, part.first)
            first = whole.first | part.first if whole.empty else whole.first
            last = whole.last | part.last if part.empty else part.last
            whole = Part(whole.empty and part.empty, first, last)
        return whole

    def link(self, sources: Places, targets: Places) -> None:
        for source in sources:
            self.follow[source] |= targets

    def one(self) -> Build:
        sign = self.take()
        if sign == "(":
            inside = self.alternatives()
            self.take(")")
            return inside
        if sign == "[":
            return self.place(self.listed())
        if sign == ".":
            return self.place(Signs(frozenset(), others=True))
        if sign in "*+?{^$":
            raise self.fail(f"a character before {sign!r}; the pattern always matches the whole text")
        return self.place(Signs(frozenset(self.escaped() if sign == "\\" else sign)))

    def escaped(self) -> str:
        sign = self.take()
        if sign not in CLASSES and (sign.isalnum() or not sign.isprintable()):
            raise self.fail(f"one of {', '.join(CLASSES)}, or a sign after the backslash")
        return CLASSES.get(sign, sign)

    def listed(self) -> Signs:
        others = self.next == "^"
        self.at += others
        signs: set[str] = set()
        while self.next != "]" or not signs:
            first = self.take()
            some = self.escaped() if first == "\\" else first
            if self.next == "-" and self.pattern[self.at + 1 : self.at + 2] not in ("", "]") and len(some) == 1:
                self.take()
                last = self.take()
                last = self.escaped() if last == "\\" else last
                some = "".join(map(chr, range(ord(some), ord(last[0]) + 1)))
            signs |= set(some)
        self.take("]")
        return Signs(frozenset(signs), others)

    def place(self, signs: Signs) -> Build:
        def build() -> Part:
            if len(self.places) == MOST_PLACES:
                raise UnmaskError(
                    f"the pattern {shown(self.pattern)} is too long, over {MOST_PLACES} positions; use smaller counts"
                )
            here = frozenset([len(self.places)])
            self.places.append(signs)
            self.follow.append(set())
            return Part(False, here, here)

        return build

    def counted(self, part: Build) -> Build:
        while self.next and self.next in "*+?{":
            least, most = self.count(self.take())
            part = self.repeated(part, least, most)
        return part

    def count(self, sign: str) -> tuple[int, int | None]:
        if sign != "{":
            return {"*": (0, None), "+": (1, None), "?": (0, 1)}[sign]
        inside, brace, _ = self.pattern[self.at :].partition("}")
        least, comma, most = inside.partition(",")
        if not brace or not least.isdecimal() or not (most.isdecimal() or not most) or len(inside) > 8:
            raise self.fail("{m}, {m,} or {m,n}")
        self.at += len(inside) + 1
        if most and int(most) < int(least):
            raise self.fail(f"at least {least} after the comma")
        return int(least), int(most) if most else None if comma else int(least)

    def repeated(self, part: Build, least: int, most: int | None) -> Build:
        def build() -> Part:
            parts = [part() for _ in range(least)]
            if most is None:
                again = part()
                self.link(again.last, again.first)
                parts.append(again._replace(empty=True))
            parts += [part()._replace(empty=True) for _ in range((most or 0) - least)]
            return self.chained(parts)

        return build


def regex(pattern: str, vocabulary: int, names: tuple[str, ...] | None = None) -> Automaton:
    """The automaton of the token strings whose joined text matches the pattern.

    names: the text of each token. (default: 0 to 9, then a to z)
    """
    texts = names or tuple(DIGITS[:vocabulary])
    if len(texts) != vocabulary:
        raise UnmaskError(
            f"{vocabulary} tokens have no names for a regex; expected names, or at most {len(DIGITS)} tokens"
        )
    reader = _Reader(pattern)
    build = reader.alternatives()
    if reader.next:
        raise reader.fail("the end of the pattern")
    whole = build()
    places, follow, start = reader.places, reader.follow, -1
    signs = {sign: frozenset(k for k, place in enumerate(places) if place.has(sign)) for sign in set("".join(texts))}

    def step(state: Places, token: int) -> Places | None:
        for sign in texts[token]:
            reached = whole.first if start in state else frozenset().union(*(follow[place] for place in state))
            state = reached & signs[sign]
        return state or None

    def final(state: Places) -> bool:
        return whole.empty if start in state else bool(state & whole.last)

    return explored(frozenset([start]), step, final, vocabulary)
