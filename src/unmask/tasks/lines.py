"""Generated tasks whose answer is one line after a question, with or without intermediate results."""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

from unmask.core import arguments
from unmask.tasks.contract import Generated, Item

REQUESTS = {  # where the intermediate results are: the sentence that asks for them there
    "before": "Write all results, then the last one again as the answer.",
    "after": "Write the answer first, then all results.",
    "none": "Write only the answer.",
}


@dataclass(frozen=True, kw_only=True)
class Line(Generated):
    """A task whose prompt has rules, shots and a question, and whose answer is the line after it."""

    until: ClassVar[tuple[str, ...]] = ("\n",)

    def rules(self) -> str:
        """The beginning of the prompt, before all questions."""
        return ""

    @abstractmethod
    def question(self, row: Any) -> str:
        """The request of one item in the chosen wording."""

    @abstractmethod
    def solution(self, row: Any) -> str:
        """A right answer in the requested format."""

    def prompt(self, item: Item) -> str:
        return self._beginning + self.question(item.row)

    @cached_property
    def _beginning(self) -> str:
        shots = [f"{self.question(shot)} {self.solution(shot)}\n\n" for shot in self.examples()]
        return "".join([f"{rules}\n\n" if (rules := self.rules()) else "", *shots])

    def right(self, item: Item, answer: str) -> bool:
        return answer == self.solution(item.row)

    def solutions(self, item: Item) -> Sequence[str] | None:
        return [self.solution(item.row)]


@dataclass(frozen=True, kw_only=True)
class Stepwise(Line):
    """A task whose answer is the last of several whole numbers, its intermediate results. `steps` is their position:

    before   3, 7, 9 so 9
    after    9 because 3, 7, 9
    none     9

    Only the answer decides. `steps_right` is the fraction of results that are right, each at its position.
    """

    steps: str = "before"

    def _check(self, shots: int = 8) -> None:
        super()._check(shots)
        arguments.word("steps", self.steps, REQUESTS)

    def rules(self) -> str:
        return REQUESTS[self.steps]

    @abstractmethod
    def results(self, row: Any) -> Sequence[int]:
        """All intermediate results; the last is the answer."""

    def solution(self, row: Any) -> str:
        results = [str(result) for result in self.results(row)]
        return arranged(results[-1], ", ".join(results), self.steps)

    def answer(self, item: Item, text: str) -> str | None:
        """The numbers of the first line that has any, in the requested format."""
        numbers = re.findall(r"\d+", first_line(text, r"\d"))
        most = len(self.results(item.row))
        if not numbers:
            return None
        result, *steps = numbers[: most + 1] if self.steps == "after" else [numbers[-1], *numbers[:-1][-most:]]
        return arranged(result, ", ".join(steps), self.steps)

    def right(self, item: Item, answer: str) -> bool:
        return self._parts(answer)[0] == str(self.results(item.row)[-1])

    def values(self, item: Item, answer: str | None, text: str) -> Mapping[str, float]:
        strict = super().values(item, answer, text)
        if self.steps == "none":
            return strict
        steps = [] if answer is None else self._parts(answer)[1]
        results = [str(result) for result in self.results(item.row)]
        share = sum(step == result for step, result in zip(steps, results, strict=False)) / len(results)
        return {"strict": strict["strict"] * (len(steps) == len(results)), "steps_right": share}

    def _parts(self, answer: str) -> tuple[str, list[str]]:
        """The answer and the results of a line that is in the requested format."""
        numbers = re.findall(r"\d+", answer)
        return (numbers[0], numbers[1:]) if self.steps == "after" else (numbers[-1], numbers[:-1])


def arranged(answer: str, steps: str, place: str) -> str:
    """The answer and its steps in the requested order."""
    return {"before": f"{steps} so {answer}", "after": f"{answer} because {steps}", "none": answer}[place]


def first_line(text: str, pattern: str) -> str:
    """The first line that contains a match of a pattern; empty without one."""
    match = re.search(pattern, text)
    if match is None:
        return ""
    return text[text.rfind("\n", 0, match.start()) + 1 :].partition("\n")[0].strip()
