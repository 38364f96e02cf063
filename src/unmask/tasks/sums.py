"""Sums evaluated one at a time, whose truth is a language's: the answer may be right where the steps are not."""

from __future__ import annotations

import random
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, NamedTuple

import torch

from unmask.core import arguments
from unmask.languages import ModularSum
from unmask.tasks.contract import TASKS, Item
from unmask.tasks.made import Made

SIGNS = "0123456789+=;"  # of the language
RULES = "Add from the left, one sum at a time, and keep the last digit of each sum."


class Row(NamedTuple):
    question: str  # "7+5+9"
    solution: str  # "2+9=1"


@TASKS.register("sums")
@dataclass(frozen=True)
class Sums(Made):
    """Chains of sums modulo ten: right where the last result is, and whether each step of it is stands beside it.

    1+2+3=4+3=6 has the right answer by a wrong step. `every_step` is 1 - SER of the language `modular-sum`, given the
    question.
    """

    terms: int = 4
    shots: int = 2
    many: int = 256
    items_seed: int = 0

    length: ClassVar[int] = 48
    until: ClassVar[tuple[str, ...]] = ("\n",)

    def __post_init__(self) -> None:
        arguments.whole("terms", self.terms, 2, 4)
        arguments.whole("shots", self.shots, 0, 8)
        self._check()

    @cached_property
    def language(self) -> ModularSum:
        return ModularSum(terms=self.terms)

    def make(self, luck: random.Random) -> Row:
        operands = [luck.randrange(10) for _ in range(self.terms)]
        question, steps = "+".join(map(str, operands)), []
        while len(operands) > 1:
            operands = [sum(operands[:2]) % 10, *operands[2:]]
            steps.append("+".join(map(str, operands)))
        return Row(question, "=".join(steps))

    def asked(self, item: Item) -> str:
        shots = [self.make(random.Random(f"{self.items_seed}/shot {number}")) for number in range(self.shots)]
        told = [f"{shot.question}={shot.solution}\n" for shot in shots]
        return "".join([RULES, "\n", *told, f"{item.row.question}="])

    def answer(self, item: Item, text: str) -> str | None:
        """What stands in the first line, without spaces."""
        found = re.match(r"[\d+= ]+", text.strip())
        return found[0].replace(" ", "").strip("+=") if found else None

    def right(self, item: Item, answer: str) -> bool:
        return re.split(r"[+=]", answer)[-1] == re.split(r"[+=]", item.row.solution)[-1]

    def values(self, item: Item, answer: str | None) -> Mapping[str, float]:
        text = f"{item.row.question}={answer}"
        if answer is None or not self.language.possible_lengths(len(text))[-1]:
            return {"every_step": 0.0}
        tokens = torch.tensor([[SIGNS.index(sign) for sign in text]])
        return {"every_step": float(self.language.supports(tokens))}
