"""Operations on a list of names (ParallelBench, arXiv 2510.04767); items, names and wordings are our own.

Copy, reverse, sort and the operations with an index have one right answer, so positions are independent given the
prompt, and parallel decoding adds no errors. The others have several: a shuffled list, or one that differs from the
given list at a position of the model's choice. There each position depends on all others.
"""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import permutations
from typing import ClassVar, NamedTuple

from unmask.core import arguments
from unmask.tasks.contract import TASKS, Item, Line

GIVEN_NAMES = "Ada Ben Cleo Dan Eva Finn Gina Hugo Iris Jack Kira Leo Mara Nils Olga Paul Rosa Sam Tara Vera"
FAMILY_NAMES = "Ash Bell Clay Dale East Field Glass Hill Iron Jade Lake Moss North Oak Pine Quill Reed Stone Thorn Vale"
GIVEN, FAMILY = GIVEN_NAMES.split(), FAMILY_NAMES.split()
LONGEST, MOST_LISTED = 15, 8  # names of a list; names whose orders are listed
REQUESTS = {  # the requests of each operation; {new} is a name that is not in the list, {index} counts from 1
    "copy": (
        "Copy the list.",
        "Repeat the list without a change.",
        "Write the same list again.",
        "Return the list as it is.",
        "Write down all names in the given order.",
    ),
    "reverse": (
        "Reverse the list.",
        "Write the list backwards, from the last name to the first.",
        "Turn the order of the names around.",
        "Begin with the last name and end with the first.",
        "Write all names in the opposite order.",
    ),
    "sort": (
        "Sort the list by family name, which is the second word of each name.",
        "Put the names into alphabetical order of their family names, the second words.",
        "Order the people by their second word, the family name, from A to Z.",
        "Sort from A to Z. Only the family name counts, which comes second.",
        "Arrange the list alphabetically; compare the family names, which come last.",
    ),
    "shuffle": (
        "Shuffle the list: all of its names, in another order.",
        "Write the same names in a different order of your choice.",
        "Mix the names at random; the order must change.",
        "Rearrange the list in any way that differs from the given one.",
        "Give every name once, not in the given order.",
    ),
    "insert-index": (
        "Insert {new} into the list as number {index}; the first name is number 1.",
        "Add {new} so that this name is number {index} of the new list, counted from 1.",
        "Put {new} at position {index} (the first position is 1) and keep the order of the others.",
        "{new} joins the list at position {index}, counted from 1; later names move back.",
        "Make {new} number {index} of the list, where the first name is number 1.",
    ),
    "insert-random": (
        "Insert {new} anywhere in the list.",
        "Add {new} at a position of your choice and keep the order of the others.",
        "Put {new} somewhere into the list: at the beginning, between two names or at the end.",
        "{new} joins the list at any position; the others keep their order.",
        "Choose a random position for {new} and add this name there.",
    ),
    "remove-index": (
        "Remove name number {index} from the list; the first name is number 1.",
        "Leave out the name at position {index}, counted from 1.",
        "Delete entry {index} (the first entry is 1) and keep the others.",
        "The name at position {index}, counted from 1, leaves the list.",
        "Write the list without number {index}, where the first name is number 1.",
    ),
    "remove-random": (
        "Remove any one name from the list.",
        "Leave out one name of your choice and keep the order of the others.",
        "Delete exactly one entry, whichever you like.",
        "One name leaves the list; choose it at random.",
        "Write the list without one of its names.",
    ),
    "replace-index": (
        "Replace name number {index} of the list by {new}; the first name is number 1.",
        "Write {new} instead of the name at position {index}, counted from 1.",
        "Exchange entry {index} (the first entry is 1) for {new}.",
        "{new} takes position {index}, counted from 1, from the name that has it.",
        "Change number {index} to {new}, where the first name is number 1.",
    ),
    "replace-random": (
        "Replace any one name of the list by {new}.",
        "Write {new} instead of one name of your choice.",
        "Exchange exactly one entry, whichever you like, for {new}.",
        "{new} takes the position of one of the names; choose it at random.",
        "Change one of the names to {new} and keep all others.",
    ),
}
Names = tuple[str, ...]


class Row(NamedTuple):
    names: Names
    new: str  # the name that is not in the list
    number: int  # index of a name, from 1
    shown: Names  # a right answer


@TASKS.register("lists")
@dataclass(frozen=True)
class Lists(Line):
    """Copy, reverse, sort or shuffle a list of names; insert, remove or replace a name.

    Item i has low + i mod (high - low + 1) names, so all sizes are equally frequent. Indices count from 1.
    """

    operation: str = "copy"
    low: int = 3
    high: int = 6

    length: ClassVar[int] = 64
    wordings = (
        "{order}\nList: {names}\nAnswer:",
        "{order} This is the list: {names}\nNew list:",
        "List: {names}\n{order}\nResult:",
        "People wait in this order: {names}\n{order} Write only the list.\nList:",
        "Task: {order}\nInput: {names}\nOutput:",
    )

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
        *names, new = (f"{given} {family}" for given, family in both)
        index = rng.randint(1, size + (self.operation == "insert-index"))
        row = Row(tuple(names), new, index, ())
        if self.operation != "shuffle":
            return row._replace(shown=rng.choice(self._answers(row)))
        while (order := tuple(rng.sample(names, size))) == row.names:
            pass
        return row._replace(shown=order)

    def solution(self, row: Row) -> str:
        return listed(row.shown)

    def question(self, row: Row) -> str:
        order = REQUESTS[self.operation][self.template].format(new=row.new, index=row.number)
        return self.wording.format(order=order, names=listed(row.names))

    def _answers(self, row: Row) -> list[Names]:
        """All right answers."""
        names, new, at = row.names, (row.new,), row.number - 1
        slots = range(len(names))
        match self.operation:
            case "copy":
                return [names]
            case "reverse":
                return [names[::-1]]
            case "sort":
                return [tuple(sorted(names, key=family))]
            case "shuffle":
                return [order for order in permutations(names) if order != names]
            case "insert-index":
                return [names[:at] + new + names[at:]]
            case "insert-random":
                return [names[:i] + new + names[i:] for i in range(len(names) + 1)]
            case "remove-index":
                return [names[:at] + names[at + 1 :]]
            case "remove-random":
                return [names[:i] + names[i + 1 :] for i in slots]
            case "replace-index":
                return [names[:at] + new + names[at + 1 :]]
            case "replace-random":
                return [names[:i] + new + names[i + 1 :] for i in slots]
        raise AssertionError(self.operation)

    def answer(self, item: Item, text: str) -> str | None:
        """The names between the last "[" and the next "]", separated by commas, with or without quotes."""
        inside = text.rpartition("[")[2].partition("]")[0]
        names = [name for part in inside.split(",") if (name := part.strip(' "\t\r\n'))]
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
        return [listed(names) for names in self._answers(item.row)]


def family(name: str) -> str:
    return name.split()[-1]


def listed(names: Sequence[str]) -> str:
    return json.dumps(list(names), ensure_ascii=False)
