"""Sudoku of 4 x 4: each row, column and quarter contains 1 to 4."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, partial
from itertools import permutations, product
from typing import ClassVar, NamedTuple

import numpy as np

from unmask.core import arguments
from unmask.tasks.contract import TASKS, Generated, Item

SIDE = 4
CELLS = np.arange(SIDE**2).reshape(SIDE, SIDE)
QUARTERS = CELLS.reshape(2, 2, 2, 2).swapaxes(1, 2).reshape(SIDE, SIDE)
GROUPS = np.concatenate([CELLS, CELLS.T, QUARTERS])  # rows, columns and quarters
IGNORED = str.maketrans("", "", " \t\r,")


class Row(NamedTuple):
    puzzle: str  # 16 digits, 0 where a cell is empty
    solution: str


@TASKS.register("sudoku")
@dataclass(frozen=True)
class Sudoku(Generated):
    """Puzzles of 4 x 4 cells; `empty` cells have to be filled.

    With `unique`, each puzzle has one solution. Otherwise some have several, and any of them is right.
    """

    empty: int = 8
    unique: bool = True

    length: ClassVar[int] = 64
    until: ClassVar[tuple[str, ...]] = ("Puzzle:",)
    wording = "Fill the 4x4 sudoku: each row, column and 2x2 quarter has 1, 2, 3 and 4; 0 is empty."

    def __post_init__(self) -> None:
        arguments.whole("empty", self.empty, 1, 10)
        arguments.flag("unique", self.unique)
        self._check()

    def make(self, rng: random.Random) -> Row:
        while True:
            solution = rng.choice(grids())
            cells = list(solution)
            for hidden in rng.sample(range(SIDE**2), self.empty):
                cells[hidden] = "0"
            puzzle = "".join(cells)
            if not self.unique or len(completions(puzzle)) == 1:
                return Row(puzzle, solution)

    def prompt(self, item: Item) -> str:
        shots = [f"Puzzle:\n{_lines(shot.puzzle)}\nSolution:\n{_lines(shot.solution)}\n\n" for shot in self.examples()]
        return "".join([self.wording, "\n\n", *shots, f"Puzzle:\n{_lines(item.row.puzzle)}\nSolution:\n"])

    def answer(self, item: Item, text: str) -> str | None:
        """The first four lines that consist of four digits from 1 to 4, with or without spaces and commas."""
        rows = re.findall("^[1-4]{4}$", text.translate(IGNORED), re.MULTILINE)
        return "".join(rows[:SIDE]) if len(rows) >= SIDE else None

    def right(self, item: Item, answer: str) -> bool:
        return is_grid(answer) and fits(item.row.puzzle, answer)

    def solutions(self, item: Item) -> Sequence[str]:
        return list(map(_lines, completions(item.row.puzzle)))


def is_grid(cells: str) -> bool:
    """Whether sixteen digits are a grid."""
    digits = np.array(list(cells))
    return bool((np.sort(digits[GROUPS]) == list("1234")).all())


def fits(puzzle: str, cells: str) -> bool:
    return re.fullmatch(puzzle.replace("0", "."), cells) is not None


def completions(puzzle: str) -> list[str]:
    """All grids that have the given digits of a puzzle."""
    return list(filter(partial(fits, puzzle), grids()))


@cache
def grids() -> tuple[str, ...]:
    """All 288 complete grids."""
    rows = list(map("".join, permutations("1234")))
    halves = [a + b for a, b in product(rows, rows) if len({*a[:2], *b[:2]}) == len({*a[2:], *b[2:]}) == SIDE]
    return tuple(filter(is_grid, map("".join, product(halves, halves))))


def _lines(cells: str) -> str:
    return "\n".join(map(" ".join, re.findall("....", cells)))
