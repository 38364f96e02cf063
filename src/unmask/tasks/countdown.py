"""Countdown: an expression of given numbers, each used once, that comes to a target."""

from __future__ import annotations

import ast
import operator
import random
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar, NamedTuple

from unmask.core import arguments
from unmask.tasks.contract import TASKS, Item
from unmask.tasks.made import Made

OPERATORS: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
}
LONGEST = 200  # characters of an expression
EXPRESSION = re.compile(r"[\d\s+\-*/()]+")


class Row(NamedTuple):
    numbers: tuple[int, ...]
    target: int


@TASKS.register("countdown")
@dataclass(frozen=True)
class Countdown(Made):
    """Reach a target by +, -, * and / from given numbers, each of which is used once; all items have a solution."""

    numbers: int = 4
    shots: int = 2
    many: int = 256
    items_seed: int = 0

    length: ClassVar[int] = 64
    until: ClassVar[tuple[str, ...]] = ("\n",)

    def __post_init__(self) -> None:
        arguments.whole("numbers", self.numbers, 2, 6)
        arguments.whole("shots", self.shots, 0, len(EXAMPLES))
        self._check()

    def make(self, luck: random.Random) -> Row:
        """Numbers are joined two by two in some order until one is left, which is the target if it is a natural one."""
        while True:
            numbers = tuple(luck.randint(1, 25) for _ in range(self.numbers))
            left = [Fraction(number) for number in numbers]
            while len(left) > 1:
                first, second = (left.pop(luck.randrange(len(left))) for _ in range(2))
                chosen = luck.choice([operator.add, operator.sub, operator.mul, operator.truediv])
                if chosen is operator.truediv and second == 0:
                    break
                left.append(chosen(first, second))
            if len(left) == 1 and left[0].denominator == 1 and 1 <= left[0] <= 100:
                return Row(numbers, int(left[0]))

    def asked(self, item: Item) -> str:
        told = [f"{_question(*shot)} {solution}\n\n" for shot, solution in EXAMPLES[: self.shots]]
        return "".join([*told, _question(*item.row)])

    def answer(self, item: Item, text: str) -> str | None:
        """The expression that the text begins with, or the last one of it, without what it comes to."""
        found = [_trimmed(part) for line in text.split("\n") for part in EXPRESSION.findall(line.partition("=")[0])]
        found = [part for part in found if any(sign in part for sign in "+-*/")]
        return found[-1] if found else None

    def right(self, item: Item, answer: str) -> bool:
        return solves(answer, *item.row)


def _trimmed(part: str) -> str:
    """From the first digit or opening bracket to the last digit or closing one."""
    first = next((at for at, sign in enumerate(part) if sign.isdecimal() or sign == "("), len(part))
    last = next((at for at in reversed(range(len(part))) if part[at].isdecimal() or part[at] == ")"), -1)
    return part[first : last + 1]


EXAMPLES = (
    (Row((3, 8, 2), 22), "(3 + 8) * 2"),
    (Row((19, 6, 5, 7), 25), "19 + 6 * (7 - 5) / 2"),
)


def _question(numbers: tuple[int, ...], target: int) -> str:
    return f"Numbers: {', '.join(map(str, numbers))}. Target: {target}. Expression:"


def solves(expression: str, numbers: tuple[int, ...], target: int) -> bool:
    """Whether it has these numbers, each once, and comes to the target."""
    if len(expression) > LONGEST:
        return False
    try:
        used: list[int] = []
        value = _value(ast.parse(expression.strip(), mode="eval").body, used)
    except (SyntaxError, ValueError, ZeroDivisionError, RecursionError, MemoryError):
        return False
    return Counter(used) == Counter(numbers) and value == target


def _value(node: ast.expr, used: list[int]) -> Fraction:
    match node:
        case ast.Constant(value=int(number)) if not isinstance(number, bool):
            used.append(number)
            return Fraction(number)
        case ast.BinOp(left, sign, right) if type(sign) in OPERATORS:
            found: Fraction = OPERATORS[type(sign)](_value(left, used), _value(right, used))
            return found
    raise ValueError
