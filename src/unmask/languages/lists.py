"""Operations on a list: copy, reverse, sort, shuffle, or replace one of its items.

Given the list, the result of copy, reverse and sort is determined, so parallel decoding makes no errors. In a shuffled
list each position depends on all others (ParallelBench, arXiv 2510.04767).
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


class Input(NamedTuple):
    """While the list is written: the items so far."""

    token: int
    items: Items


class Output(NamedTuple):
    """While the result is written: the remaining items (for shuffle, in any order), and whether one was replaced."""

    token: int
    rest: Items
    replaced: bool = False


@LANGUAGES.register("list-operation")
class ListOperation(Grammar):
    """`abca=acba`: `size` items, uniform letters, then the result of the operation; lists are joined by `;`.

    A shuffled list is uniform over the orders of its items. For replace, the position and the new letter are uniform.
    Lengths are 2k+1 for k items, and 2k+2 more for each further list.
    """

    kind: ClassVar[str] = "list-operation"

    def __init__(self, operation: str = "shuffle", size: int = 4, letters: int = 6, stop: float | None = None) -> None:
        self.operation = arguments.word("operation", operation, OPERATIONS)
        self.size = arguments.whole("size", size, 2, 16)
        self.letters = arguments.whole("letters", letters, 2, len(LETTERS))
        states = 4 * letters**size
        if states > MAX_STATES:
            problem = f"lists of {size} of {letters} letters need about {counted(states)} states"
            raise UnmaskError(f"{problem}; expected at most {MAX_STATES:,}. Lower one of them.")
        self.equals, self.separator = letters, letters + 1
        super().__init__((*LETTERS[:letters], "=", ";"), stop)

    def parameters(self) -> dict[str, Any]:
        return {"operation": self.operation, "size": self.size, "letters": self.letters} | self._options()

    def starts(self) -> Moves:
        return [(1 / self.letters, Input(letter, (letter,))) for letter in range(self.letters)]

    def moves(self, state: Any) -> Moves:
        match state:
            case Input(_, items) if len(items) < self.size:
                return [(1 / self.letters, Input(letter, (*items, letter))) for letter in range(self.letters)]
            case Input(_, items):
                return [(1.0, Output(self.equals, OPERATIONS[self.operation](items)))]
            case Output(token=self.separator):
                return self.starts()
            case Output(_, ()):
                return [(1.0, Output(self.separator, ()))]
            case Output(_, rest, replaced):
                return self._next(rest, replaced)
        raise AssertionError(state)

    def complete(self, state: Any) -> bool:
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
