"""Latin squares: each row and each column contains each symbol once (ParallelBench, arXiv 2510.04767)."""

from __future__ import annotations

import csv
import random
import string
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, partial
from itertools import permutations
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from unmask.core import arguments
from unmask.tasks.contract import TASKS, Generated, Item

SYMBOLS = string.ascii_uppercase + string.digits
SIDES = 5  # cells of the longest row


class Row(NamedTuple):
    symbols: tuple[str, ...]
    shown: str  # one of the squares


@TASKS.register("latin")
@dataclass(frozen=True)
class Latin(Generated):
    """Write any Latin square of the given symbols: 576 are right of order 4, and 161,280 of order 5."""

    order: int = 4

    length: ClassVar[int] = 64
    until: ClassVar[tuple[str, ...]] = ("\n\n",)
    wording = (
        "Write a Latin square of order {order}: rows and columns have {symbols} once; commas between cells.\nSquare:\n"
    )

    def __post_init__(self) -> None:
        arguments.whole("order", self.order, 4, 5)
        self._check()

    def make(self, rng: random.Random) -> Row:
        symbols = tuple(rng.sample(SYMBOLS, self.order))
        return Row(symbols, written(symbols, squares(self.order)[rng.randrange(len(squares(self.order)))]))

    def prompt(self, item: Item) -> str:
        shots = [f"{self._question(shot)}{shot.shown}\n\n" for shot in self.examples()]
        return "".join([*shots, self._question(item.row)])

    def _question(self, row: Row) -> str:
        return self.wording.format(symbols=", ".join(row.symbols), order=self.order)

    def answer(self, item: Item, text: str) -> str | None:
        """The first lines with each symbol once, as many as the order; other lines are ignored."""
        lines = [list(map(str.strip, line.split(",", SIDES))) for line in text.split("\n")]
        rows = [",".join(cells) for cells in lines if sorted(cells) == sorted(item.row.symbols)]
        return "\n".join(rows[: self.order]) if len(rows) >= self.order else None

    def right(self, item: Item, answer: str) -> bool:
        """Whether no column has a symbol twice; `answer` has checked the rows."""
        columns = zip(*csv.reader(answer.split("\n")), strict=True)
        return set(map(len, map(set, columns))) == {self.order}

    def solutions(self, item: Item) -> Sequence[str]:
        return list(map(partial(written, item.row.symbols), squares(self.order)))


def written(symbols: Sequence[str], square: NDArray[np.int64]) -> str:
    return "\n".join(map(",".join, np.array(symbols)[square]))


@cache
def squares(order: int) -> NDArray[np.int64]:
    """(M, order, order) all squares, extended row by row by the permutations that clash with no row above."""
    rows = np.array(list(permutations(range(order))))
    apart = (rows[:, None] != rows).all(-1)  # (order!, order!)
    partial = np.arange(len(rows))[:, None]  # (M, rows so far)
    for _ in range(order - 1):
        above, row = apart[partial].all(1).nonzero()
        partial = np.column_stack([partial[above], row])
    return rows[partial]
