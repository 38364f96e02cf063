"""Pairs of a key and a value, of which one pair is asked for in either direction."""

from __future__ import annotations

import random
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from unmask.core import arguments
from unmask.tasks.contract import TASKS, Item
from unmask.tasks.lines import Line, first_line

TEXT = "bado cefi dulo gami hoku jire kavo lepu mofa nuri pide roba sule tavi wemo zuna"
PREFIXES = TEXT.split()
WORD = r"[a-z]{4}-\d\d\b"
SHARING = 4  # pairs per prefix
ASKS = ("both", "value", "key")


class Row(NamedTuple):
    pairs: tuple[tuple[str, str], ...]
    at: int  # index of the pair that is asked for
    side: str  # "value" or "key"


@TASKS.register("needles")
@dataclass(frozen=True)
class Needles(Line):
    """The value of a key, or the key of a value, among `pairs` pairs whose words share prefixes.

    Keys and values are words of one kind, so both directions are equally difficult for a model without an order.
    `right_value` and `right_key` are the accuracies by direction; `depth` is the position of the pair, from 0 to 1.
    """

    pairs: int = 12
    ask: str = "both"

    length: ClassVar[int] = 32
    wordings = (
        "{pairs}\nThe {side} of {given} is",
        "Every line has a key and a value.\n{pairs}\nQuestion: what is the {side} that belongs to {given}?\nAnswer:",
        "Table of keys (left) and values (right):\n{pairs}\nLook up the {side} of {given}:",
        "Read these pairs key = value:\n{pairs}\nWhich {side} goes with {given}?\nIt is",
        "{pairs}\nAbove, keys are on the left and values on the right. Give the {side} next to {given}.\nAnswer:",
    )

    def __post_init__(self) -> None:
        arguments.whole("pairs", self.pairs, 2, 512)
        arguments.word("ask", self.ask, ASKS)
        self._check()

    def make(self, rng: random.Random) -> Row:
        prefixes = rng.sample(PREFIXES, min(self.pairs // SHARING + 1, len(PREFIXES)))
        words = rng.sample([f"{prefix}-{n}" for prefix in prefixes for n in range(10, 100)], 2 * self.pairs)
        pairs = tuple(zip(words[::2], words[1::2], strict=True))
        return Row(pairs, rng.randrange(self.pairs), rng.choice(ASKS[1:]) if self.ask == "both" else self.ask)

    def numbered(self, number: int, rng: random.Random) -> Row:
        """With ask=both, the directions alternate."""
        row = self.make(rng)
        return row._replace(side=ASKS[1 + number % 2]) if self.ask == "both" else row

    def question(self, row: Row) -> str:
        lines = "\n".join(f"{key} = {value}" for key, value in row.pairs)
        return self.wording.format(pairs=lines, side=row.side, given=_sides(row)[0])

    def solution(self, row: Row) -> str:
        return _sides(row)[1]

    def answer(self, item: Item, text: str) -> str | None:
        """The first word of the first line that has another word than the given one."""
        given, _ = _sides(item.row)
        words = re.findall(WORD, first_line(text, rf"(?!{given}){WORD}"))
        return next((word for word in words if word != given), None)

    def values(self, item: Item, answer: str | None, text: str) -> Mapping[str, float]:
        right = float(answer is not None and self.right(item, answer))
        depth = item.row.at / (self.pairs - 1)
        return {**super().values(item, answer, text), "depth": depth, f"right_{item.row.side}": right}


def _sides(row: Row) -> tuple[str, str]:
    """The given word of the pair, and the one that is asked for."""
    key, value = row.pairs[row.at]
    return (key, value) if row.side == "value" else (value, key)
