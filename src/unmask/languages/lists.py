"""A list, and what is done with it: copied, reversed, sorted, shuffled, or one of its items replaced.

Behind the list all but a shuffled or replaced one is determined, so that parallel decoding of it costs nothing; of a
shuffled one each position depends on all others (ParallelBench, arXiv 2510.04767).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple

from unmask.core import arguments
from unmask.core.errors import UnmaskError
from unmask.core.memory import counted
from unmask.languages.grammar import Grammar, Moves
from unmask.languages.registry import LANGUAGES

MAX_STATES = 2**16
LETTERS = "abcdefghijklmnopqrstuvwxyz"
Items = tuple[int, ...]
OPERATIONS: dict[str, Callable[[Items], Items]] = {  # what is to be written, but for chance
    "copy": lambda items: items,
    "reverse": lambda items: items[::-1],
    "sort": lambda items: tuple(sorted(items)),
    "shuffle": lambda items: tuple(sorted(items)),  # as a multiset: one state for all of its orders
    "replace": lambda items: items,
}


class Given(NamedTuple):
    token: int
    items: Items


class Made(NamedTuple):
    """rest: what is still to be written; in order, or where it is shuffled in any. spent: whether one was replaced."""

    token: int
    rest: Items
    spent: bool = False


@LANGUAGES.register("list-operation")
class ListOperation(Grammar):
    """`abca=acba`: `size` items, uniform letters, then the same ones as the operation has them; joined by `;`.

    A shuffled list is uniform over the orders of its items; where one is replaced, its place and the other letter are.
    Lengths are 2k+1 for k items, and 2k+2 more for each further list.
    """

    kind: ClassVar[str] = "list-operation"

    def __init__(self, operation: str = "shuffle", size: int = 4, letters: int = 6, stop: float | None = None) -> None:
        self.operation = arguments.word("operation", operation, OPERATIONS)
        self.size = arguments.whole("size", size, 2, 16)
        self.letters = arguments.whole("letters", letters, 2, len(LETTERS))
        states = 4 * letters**size
        if states > MAX_STATES:
            what = f"about {counted(states)} states, more than the {MAX_STATES:,} allowed"
            raise UnmaskError(f"lists of {size} of {letters} letters need {what}; lower one of them")
        self.equals, self.separator = letters, letters + 1
        super().__init__((*LETTERS[:letters], "=", ";"), stop)

    def parameters(self) -> dict[str, Any]:
        return {"operation": self.operation, "size": self.size, "letters": self.letters} | self._options()

    def starts(self) -> Moves:
        return [(1 / self.letters, Given(letter, (letter,))) for letter in range(self.letters)]

    def moves(self, state: Any) -> Moves:
        match state:
            case Given(_, items) if len(items) < self.size:
                return [(1 / self.letters, Given(letter, (*items, letter))) for letter in range(self.letters)]
            case Given(_, items):
                return [(1.0, Made(self.equals, OPERATIONS[self.operation](items)))]
            case Made(token=self.separator):
                return self.starts()
            case Made(_, ()):
                return [(1.0, Made(self.separator, ()))]
            case Made(_, rest, spent):
                return self._next(rest, spent)
        raise AssertionError(state)

    def complete(self, state: Any) -> bool:
        return isinstance(state, Made) and not state.rest and state.token != self.separator

    def _next(self, rest: Items, spent: bool) -> Moves:
        if self.operation == "shuffle":
            left = {item: rest.index(item) for item in rest}
            return [(rest.count(item) / len(rest), Made(item, rest[:at] + rest[at + 1 :])) for item, at in left.items()]
        first, others = rest[0], rest[1:]
        if self.operation != "replace" or spent:
            return [(1.0, Made(first, others, spent))]
        stays = [(1 - 1 / len(rest), Made(first, others))] if others else []
        each = 1 / (len(rest) * (self.letters - 1))
        return [*stays, *((each, Made(letter, others, True)) for letter in range(self.letters) if letter != first)]
