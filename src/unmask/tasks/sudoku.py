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
GROUPS = [
    *([SIDE * row + column for column in range(SIDE)] for row in range(SIDE)),
    *([SIDE * row + column for row in range(SIDE)] for column in range(SIDE)),
    *(
        [SIDE * (2 * up + row) + 2 * left + column for row in (0, 1) for column in (0, 1)]
        for up in (0, 1)
        for left in (0, 1)
    ),
]
IGNORED = str.maketrans("", "", " \t\r,")


class Row(NamedTuple):
    puzzle: str  # 16 digits, 0 where a cell is empty
    solution: str


@TASKS.register("sudoku")
@dataclass(frozen=True)
class Sudoku(Generated):
    """Puzzles of 4 x 4 cells; `empty` cells have to be filled.

    With `unique`, each puzzle has one solution. Otherwise some have several: any of them is right by the rules, and
    only the generated one by `score="equality"` (ParallelBench, arXiv 2510.04767, scores in this way).
    """

    empty: int = 8
    unique: bool = True
    score: str = "rules"

    length: ClassVar[int] = 64
    until: ClassVar[tuple[str, ...]] = ("Puzzle:",)
    reading: ClassVar[frozenset[str]] = frozenset({"score"})
    wordings = (
        "Fill the 4x4 sudoku: each row, column and 2x2 quarter has 1, 2, 3 and 4; 0 is empty.",
        "Complete the grid. Every row, column and 2x2 quarter needs the digits 1 to 4; replace each 0.",
        "Zeros are empty cells. Write the digits 1-4 so that no row, column or 2x2 quarter repeats one.",
        "Solve these small sudokus of four rows and four columns. A 0 is a cell to fill with 1, 2, 3 or 4.",
        "Below are 4x4 sudoku puzzles with 0 for a missing digit; each solution has no missing digit.",
    )

    def __post_init__(self) -> None:
        arguments.whole("empty", self.empty, 1, 10)
        arguments.flag("unique", self.unique)
        arguments.word("score", self.score, ("rules", "equality"))
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

    def written(self, answer: str) -> str:
        return _lines(answer)

    def right(self, item: Item, answer: str) -> bool:
        if self.score == "equality":
            return answer == item.row.solution
        return is_grid(answer) and fits(item.row.puzzle, answer)

    def solutions(self, item: Item) -> Sequence[str]:
        right = completions(item.row.puzzle) if self.score == "rules" else [item.row.solution]
        return [self.written(grid) for grid in right]


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
    halves = [(a, b) for a in rows for b in rows if is_half(a + b)]
    return tuple(a + b + c + d for a, b in halves for c, d in halves if is_grid(a + b + c + d))


def is_half(cells: str) -> bool:
    return len(set(cells[:2] + cells[4:6])) == len(set(cells[2:4] + cells[6:])) == SIDE


def _lines(cells: str) -> str:
    return "\n".join(" ".join(cells[SIDE * row : SIDE * row + SIDE]) for row in range(SIDE))
