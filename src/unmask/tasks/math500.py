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
from unmask.tasks import numbers
from unmask.tasks.contract import TASKS, Item, Task
from unmask.tasks.data import Dataset, read

TEST = Dataset(("math500.jsonl", "math_500.jsonl"), ("HuggingFaceH4/MATH-500", None, "test"))
ASK = "Problem:\n{}\n\nReason step by step, and put the final answer in \\boxed{{}}.\n\nSolution:"
BOXED = re.compile(r"\\(?:boxed|fbox)\s*\{")
SAME = (  # spellings of one thing
    (re.compile(r"\\(?:left|right|displaystyle|!|,|;|:| )|\\text\s*\{\s*\}|\^\\circ|\^\{\\circ\}|\\%|%|\\\$|\$|°"), ""),
    (re.compile(r"\\[dt]frac"), r"\\frac"),
    (re.compile(r"\\frac\s*(\d)\s*(\d)"), r"\\frac{\1}{\2}"),
    (re.compile(r"\\sqrt\s*(\d)"), r"\\sqrt{\1}"),
    (re.compile(r"\\(?:text|mathrm|textbf|mbox)\s*\{([^{}]*)\}"), r"\1"),
    (re.compile(r"(?<=\d),(?=\d{3}(?:\D|$))"), ""),
    (re.compile(r"\s+"), ""),
)
FRACTION = re.compile(r"(-?)\\frac\{(-?\d+)\}\{(-?\d+)\}|(-?\d+)/(\d+)")
LONGEST = 1000  # characters of an answer that can be one


class Row(msgspec.Struct, frozen=True):
    problem: str
    answer: str
    subject: str = ""
    level: int = 0
    unique_id: str = ""


@TASKS.register("math500")
@dataclass(frozen=True)
class Math500(Task):
    r"""Competition mathematics; right where what stands in the last \boxed{} is the answer, however it is spelt.

    levels: of difficulty, the highest that is asked.
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
        rows = [row for row in read(self.dataset, Row, data).found if row.level <= self.levels]
        return [Item(row.unique_id or str(number), row) for number, row in enumerate(rows)]

    def asked(self, item: Item) -> str:
        return ASK.format(item.row.problem)

    def answer(self, item: Item, text: str) -> str | None:
        return boxed(text)

    def right(self, item: Item, answer: str) -> bool:
        return same(answer, item.row.answer)


def boxed(text: str) -> str | None:
    r"""What stands in the last \boxed{} of a text, whose brackets are closed."""
    marks, begun = {mark.end() for mark in BOXED.finditer(text)}, []
    found = (-1, -1)
    for bracket in re.finditer("[{}]", text):
        if bracket[0] == "{":
            begun.append(bracket.end())
        elif begun and (begin := begun.pop()) in marks:
            found = max(found, (begin, bracket.start()))
    return None if found[0] < 0 else text[slice(*found)]


def same(first: str, second: str) -> bool:
    """Whether two answers are one: as numbers where both are some, as text otherwise."""
    one, other = plain(first), plain(second)
    return one == other or (value(one) is not None and value(one) == value(other))


def plain(answer: str) -> str:
    """The usual spelling."""
    answer = answer[:LONGEST].strip().rstrip(".")
    for pattern, spelling in SAME:
        answer = pattern.sub(spelling, answer)
    name, equals, rest = answer.partition("=")
    return rest if equals and len(name) == 1 else answer  # x=5 is 5


def value(answer: str) -> Fraction | None:
    found = FRACTION.fullmatch(answer)
    if found is None:
        return None if "," in answer else numbers.value(answer)
    sign, above, below, over, under = found.groups()
    numerator, denominator = int(above or over), int(below or under)
    return None if denominator == 0 else Fraction(numerator, denominator) * (-1 if sign else 1)
