"""GSM8K: grade-school word problems with a number for an answer (Cobbe et al., arXiv 2110.14168)."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, ClassVar

import msgspec

from unmask.core import arguments
from unmask.core.errors import UnmaskError
from unmask.core.reading import read_yaml
from unmask.hub.chat import Message
from unmask.tasks.contract import TASKS, Item, Task
from unmask.tasks.data import Dataset, read, shots_file
from unmask.tasks.extraction import last_number, number

TEST = Dataset(("gsm8k_test.jsonl", "test.jsonl"), ("openai/gsm8k", "main", "test"))
TRAIN = Dataset(("gsm8k_train.jsonl", "train.jsonl"), ("openai/gsm8k", "main", "train"))
MARK = "####"  # precedes the number in the answers of the data set
LAYOUTS = {"question": ("Question: ", "\nAnswer:"), "cot": ("Q: ", "\n\nA:")}  # of gsm8k and of gsm8k_cot in lm-eval
STRICT = {  # as in lm-eval; the last "." of its gsm8k_cot matches any symbol, so it can take the last digit
    "question": re.compile(r"#### (-?[0-9.,]+)"),
    "cot": re.compile(r"The answer is (-?[0-9.,]+)."),
}
DRAWS = ("first", "lm-eval", "cot")
LM_EVAL_SEED = 1234  # of lm-eval's shots


class Row(msgspec.Struct, frozen=True):
    question: str
    answer: str


@TASKS.register("gsm8k")
@dataclass(frozen=True)
class GSM8K(Task):
    """Word problems whose answer is a number; the shots are part of the prompt or turns of a conversation.

    draw: the shots: "first" of the training set, "lm-eval" (drawn per item as lm-eval does), or "cot" (the eight of
    lm-eval's gsm8k_cot). shots_file: the file of the training set. layout: "question" or "cot", as in lm-eval's gsm8k
    and gsm8k_cot. answer_by: "flexible", the last number, or "strict", the first number after the mark of the shots,
    as in lm-eval. Numbers are compared by value: 42.0 equals 42, which lm-eval counts as incorrect.
    """

    shots: int = 8
    draw: str = "first"
    layout: str = "question"
    answer_by: str = "flexible"
    turns: bool = False
    shots_file: str = ""

    reading: ClassVar[frozenset[str]] = frozenset({"answer_by"})
    source: ClassVar[str] = "openai/gsm8k, MIT"

    def __post_init__(self) -> None:
        arguments.whole("shots", self.shots, 0, 64)
        arguments.word("draw", self.draw, DRAWS)
        arguments.word("layout", self.layout, LAYOUTS)
        arguments.word("answer_by", self.answer_by, ("flexible", "strict"))
        arguments.flag("turns", self.turns)
        if self.draw == "cot" and self.shots > 8:
            raise UnmaskError(f"shots is {self.shots}; expected 0 to 8, the shots of gsm8k_cot")

    @property
    def until(self) -> tuple[str, ...]:  # type: ignore[override]
        return (LAYOUTS[self.layout][0].strip(), "</s>", "<|im_end|>")

    @property
    def dataset(self) -> Dataset:
        return TEST

    def items(self, data: str | Path | None) -> Sequence[Item]:
        rows = read(self.dataset, Row, data).valid
        shots = self._shots(len(rows), data)
        return [Item(str(n), pair) for n, pair in enumerate(zip(rows, shots, strict=True))]

    def _shots(self, many: int, data: str | Path | None) -> list[Sequence[Row]]:
        """The shots of each item."""
        if self.draw == "cot":
            return [_exemplars()[: self.shots]] * many
        if not self.shots:
            return [()] * many
        train: list[Row] = read(TRAIN, Row, shots_file(TRAIN, data, self.shots_file)).valid
        if self.shots > len(train):
            raise UnmaskError(f"shots is {self.shots}; expected at most {len(train)}, the items of the training set")
        if self.draw == "first":
            return [train[: self.shots]] * many
        rng = random.Random(LM_EVAL_SEED)
        return [rng.sample(train, self.shots) for _ in range(many)]

    def prompt(self, item: Item) -> str:
        row, shots = item.row
        return "".join([*(f"{self._question(shot)} {shot.answer}\n\n" for shot in shots), self._question(row)])

    def messages(self, item: Item) -> Sequence[Message]:
        if not self.turns:
            return super().messages(item)
        row, shots = item.row
        turns = []
        for shot in shots:
            turns += [Message("user", self._question(shot)), Message("assistant", shot.answer)]
        return [*turns, Message("user", self._question(row))]

    def _question(self, row: Row) -> str:
        before, after = LAYOUTS[self.layout]
        return f"{before}{row.question}{after}"

    def answer(self, item: Item, text: str) -> str | None:
        if self.answer_by == "flexible":
            return last_number(text)
        marked = STRICT[self.layout].search(text)
        return marked[1] if marked else None

    def right(self, item: Item, answer: str) -> bool:
        return number(answer) == truth(item.row[0]) is not None


def truth(row: Row) -> Any:
    return number(row.answer.rpartition(MARK)[2])


class Exemplars(msgspec.Struct):
    """The part of lm-eval's gsm8k-cot.yaml that is read."""

    fewshot_config: dict[str, Any]


def _exemplars() -> list[Row]:
    """The eight chains of thought of Wei et al. (arXiv 2201.11903), from a file of the package lm_eval."""
    package = find_spec("lm_eval")
    if package is None or not package.submodule_search_locations:
        raise UnmaskError("draw=cot needs the shots of lm-eval. Run: pip install lm_eval, or set draw=first")
    path = Path(next(iter(package.submodule_search_locations))) / "tasks" / "gsm8k" / "gsm8k-cot.yaml"
    content: Exemplars = read_yaml(path, Exemplars)
    return [Row(sample["question"], sample["target"]) for sample in content.fewshot_config["samples"]]
