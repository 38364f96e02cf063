"""Operations on a list of names (ParallelBench, arXiv 2510.04767); items, names and wordings are our own.

Copy, reverse, sort and the operations with an index have one right answer, so positions are independent given the
prompt, and parallel decoding adds no errors. The others have several: a shuffled list, or one that differs from the
given list at a position of the model's choice. There each position depends on all others.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import permutations
from typing import ClassVar, NamedTuple

from unmask.core import arguments
from unmask.tasks.contract import TASKS, Generated, Item

GIVEN_NAMES = "Ada Ben Cleo Dan Eva Finn Gina Hugo Iris Jack Kira Leo Mara Nils Olga Paul Rosa Sam Tara Vera"
FAMILY_NAMES = "Ash Bell Clay Dale East Field Glass Hill Iron Jade Lake Moss North Oak Pine Quill Reed Stone Thorn Vale"
GIVEN, FAMILY = GIVEN_NAMES.split(), FAMILY_NAMES.split()
LONGEST, MOST_LISTED = 15, 8  # names of a list; names whose orders are listed
REQUESTS = {  # of each operation; {new} is a name that is not in the list, {index} counts from 1
    "copy": "Copy the list.",
    "reverse": "Reverse the list.",
    "sort": "Sort the list by family name, which is the second word of each name.",
    "shuffle": "Shuffle the list: all of its names, in another order.",
    "insert-index": "Insert {new} into the list as number {index}; the first name is number 1.",
    "insert-random": "Insert {new} anywhere in the list.",
    "remove-index": "Remove name number {index} from the list; the first name is number 1.",
    "remove-random": "Remove any one name from the list.",
    "replace-index": "Replace name number {index} of the list by {new}; the first name is number 1.",
    "replace-random": "Replace any one name of the list by {new}.",
}
EFFECTS = {"insert": (1, 0), "remove": (0, 1), "replace": (1, 1)}  # names that come and names that go
Names = tuple[str, ...]


class Row(NamedTuple):
    names: Names
    new: str  # the name that is not in the list
    number: int  # index of a name, from 1
    shown: Names  # a right answer


@TASKS.register("lists")
@dataclass(frozen=True)
class Lists(Generated):
    """Copy, reverse, sort or shuffle a list of names; insert, remove or replace a name.

    Item i has low + i mod (high - low + 1) names, so all sizes are equally frequent. Indices count from 1.
    """

    operation: str = "copy"
    low: int = 3
    high: int = 6

    length: ClassVar[int] = 64
    until: ClassVar[tuple[str, ...]] = ("\n",)
    wording = "{order}\nList: {names}\nAnswer:"

    def __post_init__(self) -> None:
        arguments.word("operation", self.operation, REQUESTS)
        arguments.whole("low", self.low, 2, LONGEST)
        arguments.whole("high", self.high, self.low, LONGEST)
        self._check()

    def numbered(self, number: int, rng: random.Random) -> Row:
        return self._row(rng, self.low + number % (self.high - self.low + 1))

    def make(self, rng: random.Random) -> Row:
        return self._row(rng, rng.randint(self.low, self.high))

    def _row(self, rng: random.Random, size: int) -> Row:
        """Given and family names differ inside an item, so the key of `sort` has no ties."""
        both = zip(rng.sample(GIVEN, size + 1), rng.sample(FAMILY, size + 1), strict=True)
        *names, new = map(" ".join, both)
        index = rng.randint(1, size + (self.operation == "insert-index"))
        row = Row(tuple(names), new, index, ())

        if self.operation != "shuffle":
            return row._replace(shown=rng.choice(self._answers(row)))

        while (order := tuple(rng.sample(names, size))) == row.names:
            pass
        return row._replace(shown=order)

    def prompt(self, item: Item) -> str:
        shots = [f"{self.question(shot)} {listed(shot.shown)}\n\n" for shot in self.examples()]
        return "".join([*shots, self.question(item.row)])

    def question(self, row: Row) -> str:
        order = REQUESTS[self.operation].format(new=row.new, index=row.number)
        return self.wording.format(order=order, names=listed(row.names))

    def _answers(self, row: Row) -> list[Names]:
        """All right answers."""
        names = row.names
        match self.operation:
            case "copy":
                return [names]
            case "reverse":
                return [names[::-1]]
            case "sort":
                return [tuple(sorted(names, key=family))]
            case "shuffle":
                return [order for order in permutations(names) if order != names]

        # one name is inserted, removed or replaced, at the index or anywhere
        action, _, where = self.operation.partition("-")
        inserted, removed = EFFECTS[action]
        places: Iterable[int] = [row.number - 1]
        if where == "random":
            places = range(len(names) + 1 - removed)
        return [names[:at] + (row.new,) * inserted + names[at + removed :] for at in places]

    def answer(self, item: Item, text: str) -> str | None:
        """The names between the last "[" and the next "]", separated by commas, with or without quotes."""
        inside = text.rpartition("[")[2].partition("]")[0]
        names = [*filter(None, (part.strip(' "\t\r\n') for part in inside.split(",")))]
        return listed(names) if names else None

    def right(self, item: Item, answer: str) -> bool:
        names = tuple(json.loads(answer))
        if self.operation == "shuffle":
            return sorted(names) == sorted(item.row.names) and names != item.row.names
        return names in self._answers(item.row)

    def solutions(self, item: Item) -> Sequence[str] | None:
        """None for a shuffle of more than eight names, which has over 360,000 right answers."""
        if self.operation == "shuffle" and len(item.row.names) > MOST_LISTED:
            return None
        return list(map(listed, self._answers(item.row)))


def family(name: str) -> str:
    return name.split()[-1]


def listed(names: Sequence[str]) -> str:
    return json.dumps(list(names), ensure_ascii=False)
