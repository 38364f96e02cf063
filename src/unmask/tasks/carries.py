"""Sums of two long numbers with a chain of carries (after arXiv 2605.29123)."""

from __future__ import annotations

import random
import re
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import zip_longest
from typing import ClassVar, NamedTuple

from unmask.core import arguments
from unmask.tasks.contract import TASKS, Item
from unmask.tasks.lines import Line, first_line

NUMBER = r"\d(?:[\d,]*\d)?"


class Row(NamedTuple):
    first: int
    second: int
    start: int  # the digit whose carry enters the chain, counted from the right, from 0


@TASKS.register("carries")
@dataclass(frozen=True)
class Carries(Line):
    """Sums of two numbers of `digits` digits, in which a carry passes through `chain` pairs of digits that sum to 9.

    No other pair of digits sums to 9, so no other carry passes through a pair. Of incorrect sums, `first_wrong` is the
    position of the first wrong digit from the right, and `in_chain` is 1 if the chain's carry decides it.
    """

    digits: int = 6
    chain: int = 3

    length: ClassVar[int] = 32
    wordings = (
        "{first} + {second} =",
        "How much is {first} plus {second}?\nSum:",
        "Add the numbers {first} and {second}.\nAnswer:",
        "First number: {first}\nSecond number: {second}\nTheir sum:",
        "Calculate the total of {first} and {second}. Write only digits.\nTotal:",
    )

    def __post_init__(self) -> None:
        arguments.whole("digits", self.digits, 1, 64)
        arguments.whole("chain", self.chain, 0, self.digits - 1, ", fewer than digits")
        self._check()

    def make(self, rng: random.Random) -> Row:
        start = rng.randrange(self.digits - self.chain)
        pairs = [rng.choice(self._pairs(at, start)) for at in reversed(range(self.digits))]
        first, second = (int("".join(map(str, digits))) for digits in zip(*pairs, strict=True))
        return Row(first, second, start)

    def _pairs(self, at: int, start: int) -> list[tuple[int, int]]:
        """The possible digits of both numbers at one position."""
        least = at == self.digits - 1
        pairs = [(a, b) for a in range(least, 10) for b in range(least, 10)]
        if at == start:
            return [pair for pair in pairs if sum(pair) > 9]
        return [pair for pair in pairs if (sum(pair) == 9) == (start < at <= start + self.chain)]

    def question(self, row: Row) -> str:
        return self.wording.format(first=row.first, second=row.second)

    def solution(self, row: Row) -> str:
        return str(row.first + row.second)

    def answer(self, item: Item, text: str) -> str | None:
        """The last number of the first line that has one, without commas."""
        numbers = re.findall(NUMBER, first_line(text, r"\d"))
        return numbers[-1].replace(",", "") if numbers else None

    def values(self, item: Item, answer: str | None, text: str) -> Mapping[str, float]:
        values = super().values(item, answer, text)
        if answer is None or self.right(item, answer):
            return values
        pairs = zip_longest(reversed(answer), reversed(self.solution(item.row)))
        wrong = next(at for at, (digit, true) in enumerate(pairs) if digit != true)
        in_chain = item.row.start < wrong <= item.row.start + self.chain + 1
        return {**values, "first_wrong": wrong + 1.0, "in_chain": float(in_chain)}
