"""Sudoku of 4 x 4: each row, column and quarter contains 1 to 4."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import permutations
from typing import ClassVar, NamedTuple

from unmask.core import arguments
from unmask.tasks.contract import TASKS, Generated, Item

SIDE = 4
ROWS = [[SIDE * row + column for column in range(SIDE)] for row in range(SIDE)]
COLUMNS = [[SIDE * row + column for row in range(SIDE)] for column in range(SIDE)]
QUARTERS = [[corner, corner + 1, corner + SIDE, corner + SIDE + 1] for corner in (0, 2, 2 * SIDE, 2 * SIDE + 2)]
GROUPS = ROWS + COLUMNS + QUARTERS
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
            hidden = set(rng.sample(range(SIDE**2), self.empty))
            puzzle = "".join("0" if cell in hidden else digit for cell, digit in enumerate(solution))
            if not self.unique or len(completions(puzzle)) == 1:
                return Row(puzzle, solution)

    def prompt(self, item: Item) -> str:
        shots = [f"Puzzle:\n{_lines(shot.puzzle)}\nSolution:\n{_lines(shot.solution)}\n\n" for shot in self.examples()]
        return "".join([self.wording, "\n\n", *shots, f"Puzzle:\n{_lines(item.row.puzzle)}\nSolution:\n"])

    def answer(self, item: Item, text: str) -> str | None:
        """The first four lines that consist of four digits from 1 to 4, with or without spaces and commas."""
        lines = [line.translate(IGNORED) for line in text.split("\n")]
        rows = [line for line in lines if re.fullmatch("[1-4]{4}", line)][:SIDE]
        return "".join(rows) if len(rows) == SIDE else None

    def right(self, item: Item, answer: str) -> bool:
        return is_grid(answer) and fits(item.row.puzzle, answer)

    def solutions(self, item: Item) -> Sequence[str]:
        return [_lines(grid) for grid in completions(item.row.puzzle)]


def is_grid(cells: str) -> bool:
    """Whether sixteen digits are a grid."""
    return all({cells[cell] for cell in group} == set("1234") for group in GROUPS)


def fits(puzzle: str, cells: str) -> bool:
    return all(given in ("0", cell) for given, cell in zip(puzzle, cells, strict=True))


def completions(puzzle: str) -> list[str]:
    """All grids that have the given digits of a puzzle."""
    return [grid for grid in grids() if fits(puzzle, grid)]


@cache
def grids() -> tuple[str, ...]:
    """All 288 complete grids."""
    rows = ["".join(row) for row in permutations("1234")]
    halves = [(a, b) for a in rows for b in rows if len({*a[:2], *b[:2]}) == len({*a[2:], *b[2:]}) == SIDE]
    return tuple(a + b + c + d for a, b in halves for c, d in halves if is_grid(a + b + c + d))


def _lines(cells: str) -> str:
    return "\n".join(" ".join(cells[SIDE * row : SIDE * row + SIDE]) for row in range(SIDE))
