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
from unmask.tasks import numbers
from unmask.tasks.contract import TASKS, Item, Task
from unmask.tasks.data import Dataset, beside, read

TEST = Dataset(("gsm8k_test.jsonl", "test.jsonl"), ("openai/gsm8k", "main", "test"))
TRAIN = Dataset(("gsm8k_train.jsonl", "train.jsonl"), ("openai/gsm8k", "main", "train"))
MARK = "####"  # what stands before the number in the answers of the data set
LAYOUTS = {"question": ("Question: ", "\nAnswer:"), "cot": ("Q: ", "\n\nA:")}  # of gsm8k and of gsm8k_cot in lm-eval
STRICT = {  # of gsm8k and of gsm8k_cot in lm-eval, whose last "." takes a digit if no symbol of the line follows
    "question": re.compile(r"#### (-?[0-9.,]+)"),
    "cot": re.compile(r"The answer is (-?[0-9.,]+)."),
}
DRAWS = ("first", "lm-eval", "cot")
LM_EVAL_SEED = 1234  # of its shots


class Row(msgspec.Struct, frozen=True):
    question: str
    answer: str


@TASKS.register("gsm8k")
@dataclass(frozen=True)
class GSM8K(Task):
    """Word problems whose answer is a number; 8 shots, or lm-eval's 5, in prompts or in turns of a conversation.

    draw: which shots: the first of the training set; those that lm-eval draws from it, other ones for each item; or
    "cot", the eight of lm-eval's gsm8k_cot, which has them in a file. shots_file: the training set, where it does not
    lie where data are looked for. layout: question or cot, as lm-eval's tasks gsm8k and gsm8k_cot have it. answer:
    flexible, the last number; strict, the first one that follows the mark of the shots, found as lm-eval finds it. Both
    are compared by value: 42.0 is 42, which lm-eval counts as wrong.
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
            raise UnmaskError(f"shots is {self.shots}, but the file of gsm8k_cot has 8")

    @property
    def until(self) -> tuple[str, ...]:  # type: ignore[override]
        return (LAYOUTS[self.layout][0].strip(), "</s>", "<|im_end|>")

    @property
    def dataset(self) -> Dataset:
        return TEST

    def items(self, data: str | Path | None) -> Sequence[Item]:
        found = read(self.dataset, Row, data)
        drawn = self._drawn(len(found.found), data)
        return [Item(str(n), (row, shots)) for n, (row, shots) in enumerate(zip(found.found, drawn, strict=True))]

    def _drawn(self, many: int, data: str | Path | None) -> list[Sequence[Row]]:
        """The shots of each item."""
        if self.draw == "cot":
            return [_exemplars()[: self.shots]] * many
        if not self.shots:
            return [()] * many
        train = self._training(data)
        if self.shots > len(train):
            raise UnmaskError(f"shots is {self.shots}, but the training set has {len(train)} items")
        if self.draw == "first":
            return [train[: self.shots]] * many
        luck = random.Random(LM_EVAL_SEED)
        return [luck.sample(train, self.shots) for _ in range(many)]

    def _training(self, data: str | Path | None) -> list[Row]:
        """The training set: its own file, or the one beside the items."""
        rows: list[Row] = read(TRAIN, Row, beside(TRAIN, data, self.shots_file)).found
        return rows

    def asked(self, item: Item) -> str:
        row, shots = item.row
        before, after = LAYOUTS[self.layout]
        told = [f"{before}{shot.question}{after} {shot.answer}\n\n" for shot in shots]
        return "".join([*told, f"{before}{row.question}{after}"])

    def said(self, item: Item) -> Sequence[Message]:
        if not self.turns:
            return super().said(item)
        row, shots = item.row
        before, after = LAYOUTS[self.layout]
        told: list[Message] = []
        for shot in shots:
            told += [Message("user", f"{before}{shot.question}{after}"), Message("assistant", shot.answer)]
        return [*told, Message("user", f"{before}{row.question}{after}")]

    def answer(self, item: Item, text: str) -> str | None:
        if self.answer_by == "flexible":
            return numbers.last(text)
        found = STRICT[self.layout].search(text)
        return found[1] if found else None

    def right(self, item: Item, answer: str) -> bool:
        return numbers.value(answer) == truth(item.row[0]) is not None


def truth(row: Row) -> Any:
    return numbers.value(row.answer.rpartition(MARK)[2])


class Exemplars(msgspec.Struct):
    """Of lm-eval's gsm8k-cot.yaml."""

    fewshot_config: dict[str, Any]


def _exemplars() -> list[Row]:
    """The eight chains of thought of Wei et al. (arXiv 2201.11903), which lm-eval's package has in a file."""
    place = find_spec("lm_eval")
    if place is None or not place.submodule_search_locations:
        raise UnmaskError("draw=cot takes the shots of lm-eval's gsm8k_cot; pip install lm_eval, or take draw=first")
    path = Path(next(iter(place.submodule_search_locations))) / "tasks" / "gsm8k" / "gsm8k-cot.yaml"
    said: Exemplars = read_yaml(path, Exemplars)
    return [Row(one["question"], one["target"]) for one in said.fewshot_config["samples"]]
