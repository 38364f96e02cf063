"""Operations on a list: copy, reverse, sort, shuffle, insert, remove or replace (ParallelBench, arXiv 2510.04767).

Given the question, the result of copy, reverse, sort and of the operations with an index is determined, so parallel
decoding makes no errors. In the others each position depends on all others.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple

from unmask.core import arguments
from unmask.core.errors import UnmaskError
from unmask.core.memory import counted
from unmask.languages.base import LANGUAGES
from unmask.languages.grammar import Grammar, Moves

MAX_STATES = 2**16
LETTERS = "abcdefghijklmnopqrstuvwxyz"
Items = tuple[int, ...]
OPERATIONS: dict[str, Callable[[Items], Items]] = {  # the result, before random choices
    "copy": lambda items: items,
    "reverse": lambda items: items[::-1],
    "sort": lambda items: tuple(sorted(items)),
    "shuffle": lambda items: tuple(sorted(items)),  # as a multiset: one state for all of its orders
    "replace": lambda items: items,
}
EDITS: dict[str, Callable[[Items, Items, int], Items]] = {  # the result at an index from 0, with new letters or none
    "insert": lambda items, new, at: items[:at] + new + items[at:],
    "remove": lambda items, new, at: items[:at] + items[at + 1 :],
    "replace": lambda items, new, at: items[:at] + new + items[at + 1 :],
}
INDEXED = tuple(f"{edit}-{how}" for edit in EDITS for how in ("index", "random"))


class Input(NamedTuple):
    """While the list is written: the items so far."""

    token: int
    items: Items


class Output(NamedTuple):
    """While the result is written: the remaining items (for shuffle, in any order), and whether one was replaced."""

    token: int
    rest: Items
    replaced: bool = False


class Asked(NamedTuple):
    """After the list, the index or the new letter of the question: the new letters and indices so far."""

    token: int
    items: Items
    new: Items
    indices: Items


class Edited(NamedTuple):
    """While the result of an edit is written: its possible remainders, all equally likely."""

    token: int
    rests: tuple[Items, ...]


@LANGUAGES.register("list-operation")
class ListOperation(Grammar):
    """`abca=acba`: `size` items, uniform letters, then the result of the operation; lists are joined by `;`.

    A shuffled list is uniform over the orders of its items. For replace, the position and the new letter are uniform.
    Lengths are 2k+1 for k items, and 2k+2 more for each further list. With `distinct`, all letters of it differ.
    The question of insert, remove and replace with "-index" also has an index from 1, then the new letter: `abc2d=adc`.
    With "-random" it has no index, and the index is uniform: `abcd=adc`.
    """

    kind: ClassVar[str] = "list-operation"

    def __init__(
        self,
        operation: str = "shuffle",
        size: int = 4,
        letters: int = 6,
        stop: float | None = None,
        distinct: bool = False,
    ) -> None:
        self.operation = arguments.word("operation", operation, (*OPERATIONS, *INDEXED))
        self.edit, _, self.how = operation.rpartition("-")
        self.size = arguments.whole("size", size, 2, 16)
        self.letters = arguments.whole("letters", letters, 2, len(LETTERS))
        self.distinct = arguments.flag("distinct", distinct)
        self.inserts = self.edit in ("insert", "replace")
        if distinct and letters < size + self.inserts:
            raise UnmaskError(f"letters is {letters}; expected at least {size + self.inserts} distinct ones")
        self.indices = range(size + (self.edit == "insert"))
        each = len(self.indices) if self.how == "index" else 4  # of a list and its new letter
        states = each * letters ** (size + self.inserts)
        if states > MAX_STATES:
            problem = f"lists of {size} of {letters} letters need about {counted(states)} states"
            raise UnmaskError(f"{problem}; expected at most {MAX_STATES:,}. Lower one of them.")
        self.equals, self.separator = letters, letters + 1
        symbols = [str(index + 1) for index in self.indices] if self.how == "index" else []
        super().__init__((*LETTERS[:letters], "=", ";", *symbols), stop)

    def parameters(self) -> dict[str, Any]:
        content = {"operation": self.operation, "size": self.size, "letters": self.letters} | self._options()
        return content | ({"distinct": True} if self.distinct else {})

    def starts(self) -> Moves:
        return [(1 / self.letters, Input(letter, (letter,))) for letter in range(self.letters)]

    def moves(self, state: Any) -> Moves:
        match state:
            case Input(_, items) if len(items) < self.size:
                return _uniform([Input(letter, (*items, letter)) for letter in self._unlike(items)])
            case Input(_, items) if self.edit:
                return self._asked(Asked(state.token, items, (), ()))
            case Input(_, items):
                return [(1.0, Output(self.equals, OPERATIONS[self.operation](items)))]
            case Asked():
                return self._asked(state)
            case Edited(_, rests) if rests[0]:
                return [(len(after) / len(rests), Edited(letter, after)) for letter, after in _after(rests).items()]
            case Output(token=self.separator):
                return self.starts()
            case Output(_, ()) | Edited():
                return [(1.0, Output(self.separator, ()))]
            case Output(_, rest, replaced):
                return self._next(rest, replaced)
        raise AssertionError(state)

    def _unlike(self, items: Items) -> Items:
        """The letters that may follow in a list."""
        return tuple(letter for letter in range(self.letters) if not (self.distinct and letter in items))

    def _asked(self, state: Asked) -> Moves:
        """The index, then the new letter, then the sign."""
        items, new, indices = state.items, state.new, state.indices
        if self.how == "index" and not indices:
            return _uniform([Asked(self.separator + 1 + at, items, new, (at,)) for at in self.indices])
        if self.inserts and not new:
            return _uniform([Asked(letter, items, (letter,), indices) for letter in self._unlike(items)])
        results = tuple(EDITS[self.edit](items, new, at) for at in indices or self.indices)
        return [(1.0, Edited(self.equals, results))]

    def complete(self, state: Any) -> bool:
        if isinstance(state, Edited):
            return not state.rests[0]
        return isinstance(state, Output) and not state.rest and state.token != self.separator

    def _next(self, rest: Items, replaced: bool) -> Moves:
        if self.operation == "shuffle":
            left = {item: rest.index(item) for item in rest}
            return [
                (rest.count(item) / len(rest), Output(item, rest[:at] + rest[at + 1 :])) for item, at in left.items()
            ]
        first, later = rest[0], rest[1:]
        if self.operation != "replace" or replaced:
            return [(1.0, Output(first, later, replaced))]
        stays = [(1 - 1 / len(rest), Output(first, later))] if later else []
        each = 1 / (len(rest) * (self.letters - 1))
        return [*stays, *((each, Output(letter, later, True)) for letter in range(self.letters) if letter != first)]


def _uniform(states: list[Any]) -> Moves:
    return [(1 / len(states), state) for state in states]


def _after(rests: tuple[Items, ...]) -> dict[int, tuple[Items, ...]]:
    """The remainders after each possible letter, in one order for all states."""
    letters = dict.fromkeys(rest[0] for rest in rests)
    return {letter: tuple(sorted(rest[1:] for rest in rests if rest[0] == letter)) for letter in letters}
