"""What is to be done with a list: copied, reversed, sorted, shuffled, or one of its items replaced.

Where an answer is one list (all but shuffle), positions do not depend on each other once the list is seen, and parallel
decoding costs nothing; of a shuffled list each position depends on all others (ParallelBench, arXiv 2510.04767). The
same as languages with exact denoisers: `list-operation` (docs/languages.md).
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from unmask.core import arguments
from unmask.tasks.contract import TASKS, Item
from unmask.tasks.made import Made

SAID = "amber basil cedar delta ember fjord grape hazel ivory jolly koala lemon mango north olive pearl quartz river"
WORDS = SAID.split()
ORDERS = {
    "copy": "Copy the list.",
    "reverse": "Reverse the list.",
    "sort": "Sort the list alphabetically.",
    "shuffle": "Shuffle the list: all of its items, in another order.",
    "replace": "In the list, replace {old} by {new}.",
}


class Row(NamedTuple):
    words: tuple[str, ...]
    old: str
    new: str


@TASKS.register("lists")
@dataclass(frozen=True)
class Lists(Made):
    """Copy, reverse, sort, shuffle a list, or replace one of its items."""

    operation: str = "copy"
    size: int = 5
    shots: int = 2
    many: int = 256
    items_seed: int = 0

    length: ClassVar[int] = 64
    until: ClassVar[tuple[str, ...]] = ("\n",)

    def __post_init__(self) -> None:
        arguments.word("operation", self.operation, ORDERS)
        arguments.whole("size", self.size, 2, len(WORDS) - 1)
        arguments.whole("shots", self.shots, 0, 8)
        self._check()

    def make(self, luck: random.Random) -> Row:
        *words, new = luck.sample(WORDS, self.size + 1)
        return Row(tuple(words), luck.choice(words), new)

    def asked(self, item: Item) -> str:
        shots = [self.make(random.Random(f"{self.items_seed}/shot {number}")) for number in range(self.shots)]
        told = [f"{self._question(shot)} {', '.join(self._solution(shot))}\n\n" for shot in shots]
        return "".join([*told, self._question(item.row)])

    def _question(self, row: Row) -> str:
        order = ORDERS[self.operation].format(old=row.old, new=row.new)
        return f"{order}\nList: {', '.join(row.words)}\nAnswer:"

    def _solution(self, row: Row) -> Sequence[str]:
        """One right answer."""
        ways: dict[str, Callable[[], Sequence[str]]] = {
            "copy": lambda: row.words,
            "reverse": lambda: row.words[::-1],
            "sort": lambda: sorted(row.words),
            "shuffle": lambda: [*row.words[1:], row.words[0]],
            "replace": lambda: [row.new if word == row.old else word for word in row.words],
        }
        return ways[self.operation]()

    def answer(self, item: Item, text: str) -> str | None:
        """Its words, with a space between."""
        return " ".join(re.findall("[a-z]+", text.strip().partition("\n")[0].lower())) or None

    def right(self, item: Item, answer: str) -> bool:
        words = tuple(answer.split())
        if self.operation == "shuffle":
            return sorted(words) == sorted(item.row.words) and words != item.row.words
        return list(words) == list(self._solution(item.row))
