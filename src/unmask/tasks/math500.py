r"""MATH-500: 500 problems of MATH (Hendrycks et al., arXiv 2103.03874), the answer in \boxed{}."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import ClassVar

import msgspec

from unmask.core import arguments
from unmask.tasks.contract import TASKS, Item, Task
from unmask.tasks.data import Dataset, read
from unmask.tasks.extraction import number

TEST = Dataset(("math500.jsonl", "math_500.jsonl"), ("HuggingFaceH4/MATH-500", None, "test"))
ASK = "Problem:\n{}\n\nReason step by step, and put the final answer in \\boxed{{}}.\n\nSolution:"
BOXED = re.compile(r"\\(?:boxed|fbox)\s*\{")
SAME = (  # spellings of the same answer
    (re.compile(r"\\(?:left|right|displaystyle|!|,|;|:| )|\\text\s*\{\s*\}|\^\\circ|\^\{\\circ\}|\\%|%|\\\$|\$|°"), ""),
    (re.compile(r"\\[dt]frac"), r"\\frac"),
    (re.compile(r"\\frac\s*(\d)\s*(\d)"), r"\\frac{\1}{\2}"),
    (re.compile(r"\\sqrt\s*(\d)"), r"\\sqrt{\1}"),
    (re.compile(r"\\(?:text|mathrm|textbf|mbox)\s*\{([^{}]*)\}"), r"\1"),
    (re.compile(r"(?<=\d),(?=\d{3}(?:\D|$))"), ""),
    (re.compile(r"\s+"), ""),
)
FRACTION = re.compile(r"(-?)\\frac\{(-?\d+)\}\{(-?\d+)\}|(-?\d+)/(\d+)")
LONGEST = 1000  # characters of an answer


class Row(msgspec.Struct, frozen=True):
    problem: str
    answer: str
    subject: str = ""
    level: int = 0
    unique_id: str = ""


@TASKS.register("math500")
@dataclass(frozen=True)
class Math500(Task):
    r"""Competition mathematics; the content of the last \boxed{} is compared with the answer in any usual spelling.

    levels: the highest level of difficulty.
    """

    levels: int = 5

    length: ClassVar[int] = 512
    until: ClassVar[tuple[str, ...]] = ("Problem:",)
    source: ClassVar[str] = "HuggingFaceH4/MATH-500, MIT"

    def __post_init__(self) -> None:
        arguments.whole("levels", self.levels, 1, 5)

    @property
    def dataset(self) -> Dataset:
        return TEST

    def items(self, data: str | Path | None) -> Sequence[Item]:
        rows = [row for row in read(self.dataset, Row, data).valid if row.level <= self.levels]
        return [Item(row.unique_id or str(n), row) for n, row in enumerate(rows)]

    def prompt(self, item: Item) -> str:
        return ASK.format(item.row.problem)

    def answer(self, item: Item, text: str) -> str | None:
        return boxed(text)

    def right(self, item: Item, answer: str) -> bool:
        return same(answer, item.row.answer)


def boxed(text: str) -> str | None:
    r"""The content of the last \boxed{} with closed brackets."""
    marks, opened = {mark.end() for mark in BOXED.finditer(text)}, []
    last = (-1, -1)
    for bracket in re.finditer("[{}]", text):
        if bracket[0] == "{":
            opened.append(bracket.end())
        elif opened and (begin := opened.pop()) in marks:
            last = max(last, (begin, bracket.start()))
    return None if last[0] < 0 else text[slice(*last)]


def same(first: str, second: str) -> bool:
    """Whether two answers are equal, as normalised text or as numbers."""
    one, other = plain(first), plain(second)
    return one == other or (value(one) is not None and value(one) == value(other))


def plain(answer: str) -> str:
    """The normalised spelling."""
    answer = answer[:LONGEST].strip().rstrip(".")
    for pattern, spelling in SAME:
        answer = pattern.sub(spelling, answer)
    name, equals, rest = answer.partition("=")
    return rest if equals and len(name) == 1 else answer  # x=5 is 5


def value(answer: str) -> Fraction | None:
    fraction = FRACTION.fullmatch(answer)
    if fraction is None:
        return None if "," in answer else number(answer)
    sign, above, below, over, under = fraction.groups()
    numerator, denominator = int(above or over), int(below or under)
    return None if denominator == 0 else Fraction(numerator, denominator) * (-1 if sign else 1)
