"""Open text without correct answers: a scoring model computes the likelihood of each text (diagnosis/judge.py)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import msgspec

from unmask.core import arguments
from unmask.core.reading import read_lines
from unmask.tasks.contract import TASKS, Item, Task


class Row(msgspec.Struct, frozen=True):
    prompt: str


@TASKS.register("open-text")
@dataclass(frozen=True)
class OpenText(Task):
    """Texts without a prompt, or after the prompts of a file: generative perplexity under an AR model, and entropy.

    many: number of texts without a file. judge: an AR model: a repository, or a directory.
    """

    many: int = 256
    judge: str = "HuggingFaceTB/SmolLM2-135M-Instruct"

    reading: ClassVar[frozenset[str]] = frozenset({"judge"})
    length: ClassVar[int] = 256
    kind: ClassVar[str] = "judged"
    source: ClassVar[str] = "no items, or a file of prompts"

    def __post_init__(self) -> None:
        arguments.whole("many", self.many, 1, 10**6)

    def items(self, data: str | Path | None) -> Sequence[Item]:
        if data is None:
            return [Item(str(number), Row("")) for number in range(self.many)]
        return [Item(str(number), row) for number, (_, row) in enumerate(read_lines(data, Row))]

    def prompt(self, item: Item) -> str:
        prompt: str = item.row.prompt
        return prompt
