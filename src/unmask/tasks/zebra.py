"""Zebra puzzles: the words of houses in a row, from clues about the same house and about neighbors."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import ClassVar, NamedTuple

from unmask.core import arguments
from unmask.tasks.contract import TASKS, Item
from unmask.tasks.lines import Line

WORDS = [
    line.split()
    for line in (
        "red blue green white black",
        "cat dog horse fish rabbit",
        "tea milk water juice coffee",
        "baker doctor farmer pilot teacher",
        "piano guitar violin flute drums",
    )
]
MOST = len(WORDS)  # attributes, and houses
CLUES = {
    "at": "{0} is in {1}",
    "same": "{0} and {1} are in the same house",
    "next": "{0} is next to {1}",
    "left": "{0} is directly left of {1}",
}


class Clue(NamedTuple):
    kind: str
    first: str
    second: str  # a word or, for kind "at", a house


class Row(NamedTuple):
    houses: tuple[tuple[str, ...], ...]  # a word of each attribute, in the order of `attributes`
    attributes: tuple[tuple[str, ...], ...]  # the words of each attribute, in random order
    clues: tuple[Clue, ...]


@TASKS.register("zebra")
@dataclass(frozen=True)
class Zebra(Line):
    """Logic puzzles about `houses` houses with `attributes` words each; no clue can be left out.

    The clues have one solution. `cells` is the fraction of words in the right house.
    """

    houses: int = 3
    attributes: int = 2

    length: ClassVar[int] = 64
    wordings = (
        "Each of the houses 1 to {houses}, from left to right, has {words}.\nClues: {clues}.\nSolution:",
        "A row has {houses} houses, number 1 on the left, each with {words}. {clues}. Who lives where?\nAnswer:",
        "Clues: {clues}.\nFind {words} of each of the {houses} houses, numbered from the left.\nHouses:",
        "Give every house (1 is leftmost, {houses} is rightmost) {words}, so that these are true: {clues}.\nResult:",
        "Puzzle with {houses} houses, counted from left to right. A house has {words}. Facts: {clues}.\nGrid:",
    )

    def __post_init__(self) -> None:
        arguments.whole("houses", self.houses, 2, MOST)
        arguments.whole("attributes", self.attributes, 1, MOST)
        self._check()

    def make(self, rng: random.Random) -> Row:
        attributes = tuple(tuple(rng.sample(words, self.houses)) for words in WORDS[: self.attributes])
        houses = tuple(zip(*(rng.sample(words, self.houses) for words in attributes), strict=True))
        clues = list(_true(houses))
        rng.shuffle(clues)
        low, high = 0, len(clues)  # the least number of clues, the first ones, that have one solution
        while low < high:
            middle = (low + high) // 2
            low, high = (low, middle) if _is_unique(clues[:middle], attributes) else (middle + 1, high)
        clues = clues[:low]
        for clue in clues[:-1]:  # the last is needed
            others = [other for other in clues if other != clue]
            clues = others if _is_unique(others, attributes) else clues
        return Row(houses, attributes, tuple(clues))

    def rules(self) -> str:
        return "Write the number of each house and its words in the given order, as in 1: a b; 2: c d."

    def question(self, row: Row) -> str:
        words = " and ".join(f"one of ({', '.join(group)})" for group in row.attributes)
        clues = "; ".join(CLUES[clue.kind].format(clue.first, clue.second) for clue in row.clues)
        return self.wording.format(houses=self.houses, words=words, clues=clues)

    def solution(self, row: Row) -> str:
        return _text({str(at): dict(enumerate(home)) for at, home in enumerate(row.houses, 1)})

    def answer(self, item: Item, text: str) -> str | None:
        """The first word of each attribute after the number of each house, in the requested format."""
        kinds = {word: kind for kind, words in enumerate(item.row.attributes) for word in words}
        cells: dict[str, dict[int, str]] = {str(at + 1): {} for at in range(self.houses)}
        number = ""
        for token in re.findall(r"\d+|[a-z]+", text.lower()):
            if token in cells:
                number = token
            elif number and token in kinds:
                cells[number].setdefault(kinds[token], token)
        return _text(cells) if any(cells.values()) else None

    def values(self, item: Item, answer: str | None, text: str) -> Mapping[str, float]:
        parts = [set(part.split()) for part in (answer or "").split(";")]
        count = sum(len(words & set(home)) for words, home in zip(parts, item.row.houses, strict=False))
        return {**super().values(item, answer, text), "cells": count / (self.houses * self.attributes)}


def _text(cells: Mapping[str, Mapping[int, str]]) -> str:
    return "; ".join(
        " ".join([f"{number}:", *(words[kind] for kind in sorted(words))]) for number, words in cells.items()
    )


def _true(houses: Sequence[Sequence[str]]) -> Iterator[Clue]:
    """All clues that are true of the houses."""
    for at, home in enumerate(houses):
        yield from (Clue("at", word, _named(at)) for word in home)
        yield from (Clue("same", *pair) for pair in combinations(home, 2))
        for left in houses[at - 1] if at else ():
            for word in home:
                yield Clue("next", *sorted((left, word)))
                yield Clue("left", left, word)


def _is_unique(clues: Sequence[Clue], attributes: Sequence[Sequence[str]]) -> bool:
    solutions = solve(clues, attributes)
    return next(solutions, None) is not None and next(solutions, None) is None


def solve(clues: Sequence[Clue], attributes: Sequence[Sequence[str]]) -> Iterator[dict[str, int]]:
    """All solutions, as the house of each word: domains are propagated, then the smallest one is split.

    A domain is a set of houses, whose bits are 1. A house has a domain, too: itself.
    """
    count = len(attributes[0])
    fixed = {_named(at): 1 << at for at in range(count)}
    stack = [{word: 2**count - 1 for words in attributes for word in words} | fixed]
    while stack:
        domains = stack.pop()
        if not _propagate(domains, clues, attributes):
            continue
        word = min(domains, key=lambda word: (domains[word].bit_count() == 1, domains[word].bit_count()))
        if domains[word].bit_count() == 1:
            yield {word: domains[word].bit_length() - 1 for words in attributes for word in words}
            continue
        stack += [domains | {word: 1 << at} for at in range(count) if domains[word] >> at & 1]


def _propagate(domains: dict[str, int], clues: Sequence[Clue], attributes: Sequence[Sequence[str]]) -> bool:
    """Remove impossible houses until nothing changes; False if a word has none left."""
    before: list[int] = []
    while before != (now := list(domains.values())):
        before = now
        for kind, first, second in clues:
            a, b = domains[first], domains[second]
            if kind == "next":
                domains[first], domains[second] = a & (b << 1 | b >> 1), b & (a << 1 | a >> 1)
            elif kind == "left":
                domains[first], domains[second] = a & b >> 1, b & a << 1
            else:
                domains[first] = domains[second] = a & b
        for words in attributes:
            for word in words:
                if domains[word].bit_count() == 1:
                    for other in words:
                        if other != word:
                            domains[other] &= ~domains[word]
    return all(domains.values())


def _named(at: int) -> str:
    return f"house {at + 1}"
