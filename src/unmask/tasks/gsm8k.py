"""GSM8K: grade-school word problems with a number for an answer (Cobbe et al., arXiv 2110.14168)."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import ClassVar

import msgspec

from unmask.core import arguments
from unmask.core.errors import UnmaskError, cut
from unmask.core.reading import read_lines
from unmask.models.open.chat import Message
from unmask.tasks.contract import TASKS, Item, Task, find

TEST, TRAIN = "gsm8k_test.jsonl", "gsm8k_train.jsonl"
WHERE = "github.com/openai/grade-school-math has it"
MARK = "####"  # precedes the number in the answers of the data set
STRICT = re.compile(r"#### (-?[0-9.,]+)")  # as in lm-eval
NUMBER = re.compile(r"-?\$?(?:\d(?:[\d,]*\d)?(?:\.\d+)?|\.\d+)")  # "- 5": the dash is not a sign
DRAWS = ("first", "lm-eval")
LM_EVAL_SEED = 1234  # of lm-eval's shots


class Row(msgspec.Struct, frozen=True):
    question: str
    answer: str


@TASKS.register("gsm8k")
@dataclass(frozen=True)
class GSM8K(Task):
    """Word problems whose answer is a number; the shots are part of the prompt or turns of a conversation.

    draw: the shots: "first" of the training set, or "lm-eval" (drawn per item as lm-eval does). shots_file: the file
    of the training set. answer_by: "flexible", the last number, or "strict", the first number after ####, as in
    lm-eval. Numbers are compared by value: 42.0 equals 42, which lm-eval counts as incorrect.
    """

    shots: int = 8
    draw: str = "first"
    answer_by: str = "flexible"
    turns: bool = False
    shots_file: str = ""

    file: ClassVar[str] = TEST
    until: ClassVar[tuple[str, ...]] = ("Question:", "</s>", "<|im_end|>")
    reading: ClassVar[frozenset[str]] = frozenset({"answer_by"})
    source: ClassVar[str] = "openai/gsm8k, MIT"

    def __post_init__(self) -> None:
        arguments.whole("shots", self.shots, 0, 64)
        arguments.word("draw", self.draw, DRAWS)
        arguments.word("answer_by", self.answer_by, ("flexible", "strict"))
        arguments.flag("turns", self.turns)

    def items(self, data: str | Path | None) -> Sequence[Item]:
        file = data or find(TEST)
        if file is None:
            ways = f"Pass it with --data, or put {TEST} into the directory that UNMASK_DATA names"
            raise UnmaskError(f"the items of gsm8k are missing; expected a file, {WHERE}. {ways}")
        rows = _rows(file)
        shots = self._shots(len(rows), file)
        return [Item(str(n), pair) for n, pair in enumerate(zip(rows, shots, strict=True))]

    def _shots(self, many: int, file: str | Path) -> list[Sequence[Row]]:
        """The shots of each item, from a file that is named, next to the items, or in the data directory."""
        if not self.shots:
            return [()] * many
        beside = Path(file).parent / TRAIN
        source = Path(self.shots_file) if self.shots_file else beside if beside.is_file() else find(TRAIN)
        if source is None:
            problem = f"the shots need {TRAIN}, which is missing next to {cut(str(file))}; {WHERE}"
            raise UnmaskError(f"{problem}. Put it there, pass its path as shots_file, or set shots=0")
        train = _rows(source)
        if self.shots > len(train):
            raise UnmaskError(f"shots is {self.shots}; expected at most {len(train)}, the items of the training set")
        if self.draw == "first":
            return [train[: self.shots]] * many
        rng = random.Random(LM_EVAL_SEED)
        return [rng.sample(train, self.shots) for _ in range(many)]

    def prompt(self, item: Item) -> str:
        row, shots = item.row
        return "".join([*(f"{_question(shot)} {shot.answer}\n\n" for shot in shots), _question(row)])

    def messages(self, item: Item) -> Sequence[Message]:
        if not self.turns:
            return super().messages(item)
        row, shots = item.row
        turns = []
        for shot in shots:
            turns += [Message("user", _question(shot)), Message("assistant", shot.answer)]
        return [*turns, Message("user", _question(row))]

    def answer(self, item: Item, text: str) -> str | None:
        if self.answer_by == "flexible":
            return last_number(text)
        marked = STRICT.search(text)
        return marked[1] if marked else None

    def right(self, item: Item, answer: str) -> bool:
        return number(answer) == truth(item.row[0]) is not None


def truth(row: Row) -> Fraction | None:
    return number(row.answer.rpartition(MARK)[2])


def number(text: str) -> Fraction | None:
    """The value of a text that is only a number, such as $1,234.50; otherwise None."""
    plain = text.strip().rstrip(".").replace("$", "").replace(",", "").replace(" ", "")
    return Fraction(plain) if re.fullmatch(r"-?(\d+(\.\d*)?|\.\d+)", plain) and len(plain) < 100 else None


def last_number(text: str) -> str | None:
    """The last number of a text, in its original spelling."""
    matches = NUMBER.findall(text)
    return matches[-1] if matches else None


def _question(row: Row) -> str:
    return f"Question: {row.question}\nAnswer:"


def _rows(file: str | Path) -> list[Row]:
    rows = [row for _, row in read_lines(file, Row)]
    if not rows:
        raise UnmaskError(f"{cut(str(file))} contains no items; expected a JSON object per line")
    return rows
