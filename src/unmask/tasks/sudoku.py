"""Sudoku of 4 x 4: each row, column and quarter has 1 to 4; given cells stay as they are."""

from __future__ import annotations

import random
import re
from dataclasses import dataclass
from functools import cache
from itertools import permutations
from typing import ClassVar, NamedTuple

from unmask.core import arguments
from unmask.tasks.contract import TASKS, Item
from unmask.tasks.made import Made

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
RULES = "Fill the 4x4 sudoku: each row, column and 2x2 quarter has 1, 2, 3 and 4; 0 is empty."


class Row(NamedTuple):
    puzzle: str  # 16 digits, 0 where a cell is empty
    solution: str


@TASKS.register("sudoku")
@dataclass(frozen=True)
class Sudoku(Made):
    """Grids of 4 x 4 with one solution each, of which so many cells are empty."""

    empty: int = 8
    shots: int = 2
    many: int = 256
    items_seed: int = 0

    length: ClassVar[int] = 64
    until: ClassVar[tuple[str, ...]] = ("Puzzle:",)

    def __post_init__(self) -> None:
        arguments.whole("empty", self.empty, 1, 10)
        arguments.whole("shots", self.shots, 0, 8)
        self._check()

    def make(self, luck: random.Random) -> Row:
        while True:
            solution = luck.choice(grids())
            hidden = set(luck.sample(range(SIDE**2), self.empty))
            puzzle = "".join("0" if place in hidden else digit for place, digit in enumerate(solution))
            if sum(fits(puzzle, grid) for grid in grids()) == 1:
                return Row(puzzle, solution)

    def asked(self, item: Item) -> str:
        shots = [self.make(random.Random(f"{self.items_seed}/shot {number}")) for number in range(self.shots)]
        told = [f"Puzzle:\n{_lines(shot.puzzle)}\nSolution:\n{_lines(shot.solution)}\n\n" for shot in shots]
        return "".join([RULES, "\n\n", *told, f"Puzzle:\n{_lines(item.row.puzzle)}\nSolution:\n"])

    def answer(self, item: Item, text: str) -> str | None:
        """The first sixteen of its digits 1 to 4."""
        digits = "".join(re.findall("[1-4]", text))
        return digits[: SIDE**2] if len(digits) >= SIDE**2 else None

    def right(self, item: Item, answer: str) -> bool:
        return is_grid(answer) and fits(item.row.puzzle, answer)


def is_grid(cells: str) -> bool:
    """Whether sixteen digits are a grid."""
    return all({cells[place] for place in group} == set("1234") for group in GROUPS)


def fits(puzzle: str, cells: str) -> bool:
    return all(given in ("0", cell) for given, cell in zip(puzzle, cells, strict=True))


@cache
def grids() -> tuple[str, ...]:
    """All 288."""
    rows = ["".join(row) for row in permutations("1234")]
    halves = [(a, b) for a in rows for b in rows if is_half(a + b)]
    return tuple(a + b + c + d for a, b in halves for c, d in halves if is_grid(a + b + c + d))


def is_half(cells: str) -> bool:
    return len(set(cells[:2] + cells[4:6])) == len(set(cells[2:4] + cells[6:])) == SIDE


def _lines(cells: str) -> str:
    return "\n".join(" ".join(cells[SIDE * row : SIDE * row + SIDE]) for row in range(SIDE))
