"""Operations on a list: copy, reverse, sort, shuffle, or replace one item (ParallelBench, arXiv 2510.04767).

All operations but shuffle have one correct answer, so positions are independent given the prompt, and parallel decoding
adds no errors. In a shuffled list each position depends on all others. The language `list-operation` has the same
operations with an exact denoiser (docs/languages.md).
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from unmask.core import arguments
from unmask.tasks.contract import TASKS, Generated, Item

TEXT = "amber basil cedar delta ember fjord grape hazel ivory jolly koala lemon mango north olive pearl quartz river"
WORDS = TEXT.split()
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
class Lists(Generated):
    """Copy, reverse, sort, shuffle a list, or replace one of its items."""

    operation: str = "copy"
    size: int = 5
    shots: int = 2
    many: int = 256
    items_seed: int = 0
    template: int = 0

    length: ClassVar[int] = 64
    wordings = (
        "{order}\nList: {words}\nAnswer:",
        "{order} The list is: {words}\nResult:",
        "List: {words}\n{order}\nNew list:",
        "Given the list {words}. {order}\nAnswer:",
        "Task: {order}\nInput: {words}\nOutput:",
    )
    until: ClassVar[tuple[str, ...]] = ("\n",)

    def __post_init__(self) -> None:
        arguments.word("operation", self.operation, ORDERS)
        arguments.whole("size", self.size, 2, len(WORDS) - 1)
        self._check()

    def make(self, rng: random.Random) -> Row:
        *words, new = rng.sample(WORDS, self.size + 1)
        return Row(tuple(words), rng.choice(words), new)

    def prompt(self, item: Item) -> str:
        shots = [f"{self._question(shot)} {', '.join(self._solution(shot))}\n\n" for shot in self.examples()]
        return "".join([*shots, self._question(item.row)])

    def _question(self, row: Row) -> str:
        order = ORDERS[self.operation].format(old=row.old, new=row.new)
        return self.wording.format(order=order, words=", ".join(row.words))

    def _solution(self, row: Row) -> Sequence[str]:
        """A correct answer."""
        ways: dict[str, Callable[[], Sequence[str]]] = {
            "copy": lambda: row.words,
            "reverse": lambda: row.words[::-1],
            "sort": lambda: sorted(row.words),
            "shuffle": lambda: [*row.words[1:], row.words[0]],
            "replace": lambda: [row.new if word == row.old else word for word in row.words],
        }
        return ways[self.operation]()

    def answer(self, item: Item, text: str) -> str | None:
        """The words of the first line, separated by spaces."""
        return " ".join(re.findall("[a-z]+", text.strip().partition("\n")[0].lower())) or None

    def right(self, item: Item, answer: str) -> bool:
        words = tuple(answer.split())
        if self.operation == "shuffle":
            return sorted(words) == sorted(item.row.words) and words != item.row.words
        return list(words) == list(self._solution(item.row))
