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
PLACES = {
    "before": "",
    "after": " Write the last result first, then the steps.",
    "none": " Write only the last result.",
}


class Row(NamedTuple):
    question: str  # "7+5+9"
    solution: str  # "2+9=1"


@TASKS.register("sums")
@dataclass(frozen=True)
class Sums(Generated):
    """Chains of sums modulo ten; the last result decides, and `every_step` checks each step.

    1+2+3=4+3=6 has the right answer and an incorrect step. The mean of `every_step` is 1 - SER of the language
    `modular-sum`, given the question. `steps` is before, after (`6 because 3+3=6`) or none (`6`).
    """

    terms: int = 4
    steps: str = "before"

    length: ClassVar[int] = 48
    wordings = (
        "Add from the left, one sum at a time, and keep the last digit of each sum.",
        "Sum from left to right. Write every intermediate sum modulo 10.",
        "Replace the first two numbers by their sum modulo 10 until one number is left.",
        "Reduce each chain: add its two leftmost digits, drop tens, and repeat.",
        "Calculate modulo 10, one addition per step, starting at the left.",
    )
    until: ClassVar[tuple[str, ...]] = ("\n",)

    def __post_init__(self) -> None:
        arguments.whole("terms", self.terms, 2, 4)
        arguments.word("steps", self.steps, PLACES)
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
        shots = [f"{shot.question}={self._arranged(shot.solution)}\n" for shot in self.examples()]
        return "".join([self.wording, PLACES[self.steps], "\n", *shots, f"{item.row.question}="])

    def _arranged(self, chain: str) -> str:
        return chain if self.steps == "before" else arranged(_last(chain), chain, self.steps)

    def answer(self, item: Item, text: str) -> str | None:
        """The sums of the first line, without spaces; their result is before them if steps=after."""
        sums = re.match(r"([0-9+= ]+)(?:because([0-9+= ]*))?", text.strip())
        if sums is None or self.steps != "after":
            return _plain(sums[1]) if sums else None
        return arranged(_plain(sums[1]), _plain(sums[2] or ""), self.steps)

    def right(self, item: Item, answer: str) -> bool:
        return _last(answer.partition(" because ")[0]) == _last(item.row.solution)

    def solutions(self, item: Item) -> Sequence[str]:
        return [self._arranged(item.row.solution)]

    def values(self, item: Item, answer: str | None, text: str) -> Mapping[str, float]:
        strict = super().values(item, answer, text)
        return strict if self.steps == "none" else {"every_step": self._every_step(item, answer), **strict}

    def _every_step(self, item: Item, answer: str | None) -> float:
        if answer is None:
            return 0.0
        chain = answer.rpartition(" because ")[2]
        if len(chain) != len(item.row.solution):  # each of its numbers has one digit
            return 0.0
        chain = f"{item.row.question}={chain}"
        tokens = torch.tensor([[SIGNS.index(sign) for sign in chain]])
        return float(self.language.supports(tokens))


def _plain(sums: str) -> str:
    return sums.replace(" ", "").strip("+=")


def _last(chain: str) -> str:
    """The last number of a chain of sums."""
    return re.split(r"[+=]", chain)[-1]


def arranged(answer: str, steps: str, place: str) -> str:
    """The answer and its steps in the requested order."""
    return {"before": f"{steps} so {answer}", "after": f"{answer} because {steps}", "none": answer}[place]
