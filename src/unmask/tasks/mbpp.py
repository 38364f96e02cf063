"""MBPP: small functions described in one sentence (Austin et al., arXiv 2108.07732), full or sanitized."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import msgspec

from unmask.core import arguments
from unmask.core.errors import UnmaskError
from unmask.hub.chat import Message
from unmask.tasks.contract import TASKS, Item, Program, Task
from unmask.tasks.data import Dataset, read, shots_file
from unmask.tasks.extraction import fenced, functions, longest

FULL = Dataset(("mbpp.jsonl",), ("google-research-datasets/mbpp", "full", "train+test+validation+prompt"))
SANITIZED = Dataset(("sanitized-mbpp.json",), ("google-research-datasets/mbpp", "sanitized", "test"))
TESTED = range(11, 511)  # ids of the test set; 1 to 10 are for shots
SHOWN = (2, 3, 4)  # the usual three shots
ASK = "You are an expert Python programmer, and here is your task: {} Your code should pass these tests:\n\n{}\n"
BEGIN, DONE = "[BEGIN]\n", "\n[DONE]"
TALK = "{} It must pass these tests:\n\n{}\n\nAnswer with the function in a block of Python."


class Row(msgspec.Struct, frozen=True):
    """A row of either file: the full one has `text`, the sanitized one `prompt`."""

    task_id: int
    code: str
    test_list: list[str]
    text: str = ""
    prompt: str = ""
    test_setup_code: str = ""
    test_imports: list[str] = []

    @property
    def question(self) -> str:
        return self.text or self.prompt


@TASKS.register("mbpp")
@dataclass(frozen=True)
class MBPP(Task):
    """Functions described by one sentence and three tests; three shots by default.

    items_of: "full", the 500 items of the test set; "sanitized", the 257 of them that were reviewed by hand; or "all",
    with the training items. shots_file: the file of the full set, which has the shots.
    """

    shots: int = 3
    items_of: str = "full"
    shots_file: str = ""

    length: ClassVar[int] = 512
    until: ClassVar[tuple[str, ...]] = ("[DONE]", "\n```")
    kind: ClassVar[str] = "programs"
    source: ClassVar[str] = "google-research-datasets/mbpp, CC BY 4.0"

    def __post_init__(self) -> None:
        arguments.whole("shots", self.shots, 0, 10)
        arguments.word("items_of", self.items_of, ("full", "sanitized", "all"))

    @property
    def dataset(self) -> Dataset:
        return SANITIZED if self.items_of == "sanitized" else FULL

    def items(self, data: str | Path | None) -> Sequence[Item]:
        rows = read(self.dataset, Row, data).valid
        shots = self._shots(data)
        return [Item(str(row.task_id), (row, shots)) for row in rows if self.items_of == "all" or row.task_id in TESTED]

    def _shots(self, data: str | Path | None) -> list[Row]:
        if not self.shots:
            return []
        rows = {row.task_id: row for row in read(FULL, Row, shots_file(FULL, data, self.shots_file)).valid}
        order = [number for number in (*SHOWN, *range(1, 11)) if number in rows]
        chosen = list(dict.fromkeys(order))[: self.shots]
        if len(chosen) < self.shots:
            problem = f"shots is {self.shots}, but only {len(chosen)} of the items 1 to 10 are available"
            raise UnmaskError(f"{problem}. Pass the path of mbpp.jsonl, the full set, as shots_file")
        return [rows[number] for number in chosen]

    def prompt(self, item: Item) -> str:
        row, shots = item.row
        examples = [f"{_question(shot)}{BEGIN}{_lines(shot.code)}{DONE}\n\n" for shot in shots]
        return "".join([*examples, _question(row), BEGIN])

    def messages(self, item: Item) -> Sequence[Message]:
        row, shots = item.row
        turns = []
        for shot in shots:
            turns += [Message("user", _talk(shot)), Message("assistant", f"```python\n{_lines(shot.code)}\n```")]
        return [*turns, Message("user", _talk(row))]

    def answer(self, item: Item, text: str) -> str | None:
        inside = fenced(text)
        code = text.partition(DONE.strip())[0] if inside is None else inside
        return longest(code.partition(BEGIN.strip())[2] or code) if code.strip() else None

    def program(self, item: Item, answer: str) -> Program:
        row = item.row[0]
        tests = "\n".join([*row.test_imports, row.test_setup_code, *row.test_list])
        named = [name for name in functions(_lines(row.code)) if f"{name}(" in tests]
        return Program(answer, tests, named[-1] if named else "")


def _lines(text: str) -> str:
    return text.replace("\r\n", "\n").strip("\n")


def _question(row: Row) -> str:
    return ASK.format(row.question, "\n".join(row.test_list))


def _talk(row: Row) -> str:
    return TALK.format(row.question, "\n".join(row.test_list))
