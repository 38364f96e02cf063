"""A gap in a sequence of a language: any sequence that is possible there and keeps the rest is right."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, NamedTuple

import torch

from unmask import languages
from unmask.core import arguments
from unmask.core.errors import UnmaskError
from unmask.languages import Language
from unmask.tasks.contract import TASKS, Item, Line, first_line

GAP = "_"
MOST = 4096  # right answers that are listed
RULES = {  # of a kind of language, in terms of its parameters
    "brackets": "Each bracket is closed by its own kind in the right order; at most {depth} are open at once.",
    "modular-sum": "`;` separates equations; each adds its first two numbers modulo {modulus} until one is left.",
}
CHAINED = " The next equation begins with the last result."


class Row(NamedTuple):
    sequence: str
    start: int  # of the gap


@TASKS.register("infill")
@dataclass(frozen=True, kw_only=True)
class Infill(Line):
    """Sequences of a `language` with a gap of `span` of their `size` signs; the answer is the whole sequence.

    Every possible sequence is right if it keeps the shown signs. `solutions` lists them, the generated one first,
    unless there are more than 4096.
    """

    language: str = "brackets(depth=8)"
    size: int = 12
    span: int = 4
    shots: int = 3

    length: ClassVar[int] = 32
    wording = "Gap: {gap}\nFull:"

    def __post_init__(self) -> None:
        self.exact.check_length(arguments.whole("size", self.size, 1, 256))
        names = self.exact.names or ()
        if not all(len(name) == 1 and name.isprintable() and name not in (GAP, " ") for name in names) or not names:
            raise UnmaskError(f"language {self.language} has no sign for each token. Choose one of: {', '.join(RULES)}")
        if self.exact.end is not None:
            raise UnmaskError(f"language {self.language} has sequences of several lengths. Leave out its option stop")
        arguments.whole("span", self.span, 1, self.size, ", the size at most")
        self._check()

    @cached_property
    def exact(self) -> Language:
        return languages.load(self.language)

    def make(self, rng: random.Random) -> Row:
        (tokens,) = self.exact.sample(1, self.size, seed=rng.randrange(2**31))
        return Row(self.exact.render(tokens), rng.randrange(self.size - self.span + 1))

    def rules(self) -> str:
        parameters = self.exact.parameters()
        chained = CHAINED if parameters.get("chained") else ""
        return RULES.get(self.exact.kind, "All lines follow one rule.").format(**parameters) + chained

    def question(self, row: Row) -> str:
        return self.wording.format(gap=self._shown(row))

    def _shown(self, row: Row) -> str:
        return row.sequence[: row.start] + GAP * self.span + row.sequence[row.start + self.span :]

    def solution(self, row: Row) -> str:
        return row.sequence

    def answer(self, item: Item, text: str) -> str | None:
        """The signs of the language in the first line that has any, without spaces: the first run of the right size."""
        sign = f"[{re.escape(''.join(self.exact.names or ()))}]"
        runs = re.findall(f"{sign}+", "".join(first_line(text, sign).split()))
        return next((run for run in runs if len(run) == self.size), runs[0] if runs else None)

    def right(self, item: Item, answer: str) -> bool:
        shown = self._shown(item.row)
        keeps = len(answer) == self.size and all(a in (GAP, b) for a, b in zip(shown, answer, strict=True))
        return keeps and bool(self.exact.supports(self.exact.encode([answer])))

    def solutions(self, item: Item) -> Sequence[str] | None:
        """Extend the sequence from the left through the gap, by every token whose posterior is positive."""
        hidden = torch.arange(item.row.start, item.row.start + self.span)
        rows = self.exact.encode([item.row.sequence])
        rows[:, hidden] = self.exact.vocabulary
        for position in hidden:
            row, token = (self.exact.posterior(rows, position.view(1))[:, 0] > 0).nonzero(as_tuple=True)
            if len(row) > MOST:
                return None
            rows = rows[row]
            rows[:, position] = token
        others = {self.exact.render(tokens) for tokens in rows} - {item.row.sequence}
        return [item.row.sequence, *sorted(others)]
