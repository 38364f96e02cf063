"""Tasks of the tests: questions of a file, whose answer is the last number; and texts without a prompt."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import msgspec

from unmask.core.reading import read_lines
from unmask.tasks import TASKS, Item, Task


class Row(msgspec.Struct, frozen=True):
    question: str
    answer: str


@TASKS.register("asked")
@dataclass(frozen=True)
class Asked(Task):
    """Questions of a file."""

    until: ClassVar[tuple[str, ...]] = ("Question:",)

    def items(self, data: str | Path | None) -> Sequence[Item]:
        rows = [row for _, row in read_lines(data or "missing.jsonl", Row)]
        return [Item(str(number), row) for number, row in enumerate(rows)]

    def prompt(self, item: Item) -> str:
        return f"Question: {item.row.question}\nAnswer:"

    def answer(self, item: Item, text: str) -> str | None:
        marked = re.search(r"#### ([0-9]+)", text)
        return marked[1] if marked else None

    def right(self, item: Item, answer: str) -> bool:
        return answer == item.row.answer.rpartition("#### ")[2]


@TASKS.register("blank")
@dataclass(frozen=True)
class Blank(Task):
    """Texts without a prompt, which are all right."""

    def items(self, data: str | Path | None) -> Sequence[Item]:
        return [Item(str(number), None) for number in range(50)]

    def prompt(self, item: Item) -> str:
        return ""

    def right(self, item: Item, answer: str) -> bool:
        return True
