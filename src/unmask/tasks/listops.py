"""Nested operations on lists of digits: minimum, maximum, median and sum modulo ten (after arXiv 1804.06028)."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median_low
from typing import ClassVar

from unmask.core import arguments
from unmask.tasks.contract import TASKS
from unmask.tasks.lines import Stepwise

OPERATIONS: dict[str, Callable[[Sequence[int]], int]] = {
    "MIN": min,
    "MAX": max,
    "MED": median_low,
    "SUM": lambda numbers: sum(numbers) % 10,
}
NESTED = 0.25  # probability that an argument is an operation where it may be a digit
RULES = "MED is the median (of two, the lower one), and SUM is the sum modulo 10."

Row = int | tuple[str, tuple["Row", ...]]  # a digit, or an operation with its arguments


@TASKS.register("listops")
@dataclass(frozen=True, kw_only=True)
class ListOps(Stepwise):
    """Nested MIN, MAX, MED and SUM of digits; the results are written in the order of the closing brackets."""

    depth: int = 2
    fanout: int = 3
    shots: int = 3

    length: ClassVar[int] = 32
    wordings = (
        "{expression} =",
        "Evaluate the expression from the inside outwards.\nExpression: {expression}\nAnswer:",
        "Expression: {expression}\nCompute one bracket after another.\nAnswer:",
        "Which digit is {expression}?\nDigit:",
        "Work through all operations in the order of their closing brackets.\n{expression}:",
    )

    def __post_init__(self) -> None:
        arguments.whole("depth", self.depth, 1, 6)
        arguments.whole("fanout", self.fanout, 2, 8)
        self._check()

    def make(self, rng: random.Random) -> Row:
        return self._tree(rng, self.depth)

    def _tree(self, rng: random.Random, depth: int) -> Row:
        """An operation of exactly this depth: at least one argument is as deep as possible."""
        if depth == 0:
            return rng.randrange(10)
        deep = rng.randrange(self.fanout)
        others = [rng.randrange(depth) if rng.random() < NESTED else 0 for _ in range(self.fanout)]
        depths = [*others[:deep], depth - 1, *others[deep + 1 :]]
        return rng.choice(list(OPERATIONS)), tuple(self._tree(rng, below) for below in depths)

    def rules(self) -> str:
        return f"{RULES} {super().rules()}"

    def question(self, row: Row) -> str:
        return self.wording.format(expression=_text(row))

    def results(self, row: Row) -> list[int]:
        """The results of all operations, inner ones first."""
        assert isinstance(row, tuple)
        operation, parts = row
        inner = [self.results(part) if isinstance(part, tuple) else [] for part in parts]
        numbers = [done[-1] if isinstance(part, tuple) else part for part, done in zip(parts, inner, strict=True)]
        return [*(result for done in inner for result in done), OPERATIONS[operation](numbers)]


def _text(row: Row) -> str:
    return str(row) if isinstance(row, int) else f"{row[0]}({', '.join(map(_text, row[1]))})"
