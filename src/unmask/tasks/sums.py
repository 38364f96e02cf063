"""Chains of sums, checked against a language: the answer can be right although a step is incorrect."""

from __future__ import annotations

import random
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, NamedTuple

import torch

from unmask.core import arguments
from unmask.languages import ModularSum
from unmask.tasks.contract import TASKS, Generated, Item

SIGNS = "0123456789+=;"  # of the language


class Row(NamedTuple):
    question: str  # "7+5+9"
    solution: str  # "2+9=1"


@TASKS.register("sums")
@dataclass(frozen=True)
class Sums(Generated):
    """Chains of sums modulo ten; the last result decides, and `every_step` checks each step.

    1+2+3=4+3=6 has the right answer and an incorrect step. The mean of `every_step` is 1 - SER of the language
    `modular-sum`, given the question.
    """

    terms: int = 4

    length: ClassVar[int] = 48
    wording = "Add from the left, one sum at a time, and keep the last digit of each sum."
    until: ClassVar[tuple[str, ...]] = ("\n",)

    def __post_init__(self) -> None:
        arguments.whole("terms", self.terms, 2, 4)
        self._check()

    @cached_property
    def language(self) -> ModularSum:
        return ModularSum(terms=self.terms)

    def make(self, rng: random.Random) -> Row:
        operands = [rng.randrange(10) for _ in range(self.terms)]
        question, steps = "+".join(map(str, operands)), []
        while len(operands) > 1:
            operands = [sum(operands[:2]) % 10, *operands[2:]]
            steps.append("+".join(map(str, operands)))
        return Row(question, "=".join(steps))

    def prompt(self, item: Item) -> str:
        shots = [f"{shot.question}={shot.solution}\n" for shot in self.examples()]
        return "".join([self.wording, "\n", *shots, f"{item.row.question}="])

    def answer(self, item: Item, text: str) -> str | None:
        """The sums of the first line, without spaces."""
        sums = re.match(r"[0-9+= ]+", text.strip())
        return sums[0].replace(" ", "").strip("+=") if sums else None

    def right(self, item: Item, answer: str) -> bool:
        return _last(answer) == _last(item.row.solution)

    def solutions(self, item: Item) -> Sequence[str]:
        return [item.row.solution]

    def values(self, item: Item, answer: str | None, text: str) -> Mapping[str, float]:
        """Whether each step is correct; each of its numbers has one digit."""
        if answer is None or len(answer) != len(item.row.solution):
            return {"every_step": 0.0}
        tokens = torch.tensor(list(map(SIGNS.index, f"{item.row.question}={answer}")))
        return {"every_step": float(self.language.supports(tokens.unsqueeze(0)))}


def _last(chain: str) -> str:
    """The last number of a chain of sums."""
    return re.split(r"[+=]", chain)[-1]
