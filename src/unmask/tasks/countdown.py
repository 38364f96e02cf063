"""Countdown: combine given numbers, each used once, into an expression whose value is the target."""

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
from unmask.tasks.contract import TASKS, Generated, Item

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
class Countdown(Generated):
    """Combine all given numbers by +, -, * and / into a target value; each item has a solution."""

    numbers: int = 4

    length: ClassVar[int] = 64
    wordings = (
        "Numbers: {numbers}. Target: {target}. Expression:",
        "Combine {numbers} by + - * / into {target}; use each number once.\nExpression:",
        "Which expression of {numbers}, each used once, has the value {target}?\nAnswer:",
        "Reach {target} from the numbers {numbers}. Every number occurs exactly once.\nExpression:",
        "Given: {numbers}\nWanted: {target}\nArithmetic with each given number once:",
    )
    until: ClassVar[tuple[str, ...]] = ("\n",)

    def __post_init__(self) -> None:
        arguments.whole("numbers", self.numbers, 2, 6)
        self._check(shots=len(EXAMPLES))

    def make(self, rng: random.Random) -> Row:
        """Combine random pairs of numbers until one number is left; it is the target if it is a whole one in 1..100."""
        while True:
            numbers = tuple(rng.randint(1, 25) for _ in range(self.numbers))
            left = [Fraction(number) for number in numbers]
            while len(left) > 1:
                first, second = (left.pop(rng.randrange(len(left))) for _ in range(2))
                chosen = rng.choice([operator.add, operator.sub, operator.mul, operator.truediv])
                if chosen is operator.truediv and second == 0:
                    break
                left.append(chosen(first, second))
            if len(left) == 1 and left[0].denominator == 1 and 1 <= left[0] <= 100:
                return Row(numbers, int(left[0]))

    def prompt(self, item: Item) -> str:
        shots = [f"{self._question(shot)} {solution}\n\n" for shot, solution in EXAMPLES[: self.shots]]
        return "".join([*shots, self._question(item.row)])

    def _question(self, row: Row) -> str:
        return self.wording.format(numbers=", ".join(map(str, row.numbers)), target=row.target)

    def answer(self, item: Item, text: str) -> str | None:
        """The last expression of the text, without its value."""
        parts = [_trimmed(part) for line in text.split("\n") for part in EXPRESSION.findall(line.partition("=")[0])]
        parts = [part for part in parts if any(sign in part for sign in "+-*/")]
        return parts[-1] if parts else None

    def right(self, item: Item, answer: str) -> bool:
        return solves(answer, *item.row)


def _trimmed(part: str) -> str:
    """The part from the first digit or opening bracket to the last digit or closing bracket."""
    first = next((at for at, sign in enumerate(part) if sign.isdecimal() or sign == "("), len(part))
    last = next((at for at in reversed(range(len(part))) if part[at].isdecimal() or part[at] == ")"), -1)
    return part[first : last + 1]


EXAMPLES = (
    (Row((3, 8, 2), 22), "(3 + 8) * 2"),
    (Row((19, 6, 5, 7), 25), "19 + 6 * (7 - 5) / 2"),
)


def solves(expression: str, numbers: tuple[int, ...], target: int) -> bool:
    """Whether an expression uses these numbers, each once, and has the target as its value."""
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
            value: Fraction = OPERATORS[type(sign)](_value(left, used), _value(right, used))
            return value
    raise ValueError
