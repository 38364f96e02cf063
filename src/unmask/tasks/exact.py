"""The exact denoiser as a model that answers tasks. It knows the right answers, so all of its errors are the sampler's.

The right answers of an item (`Task.solutions`), cut into tokens and padded to the length of an answer, are a language,
uniform over them. Its exact denoiser fills the canvas with any sampler, and the text is read and checked like that of
any model. So its accuracy is the most that a perfect network reaches with this sampler at this cost: the ceiling.

    ideal(tokens=..)    words         words with the space before them, and punctuation, as tokenizers cut text
                         names         a quoted name is one token
                         characters    each character is one token
                         MODEL         the tokenizer of an open model: a name or a directory
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import torch

from unmask.core.errors import UnmaskError
from unmask.hub.fetch import here
from unmask.hub.loading import outline
from unmask.hub.prompted import speaker
from unmask.languages import Language
from unmask.languages.answers import Answers
from unmask.tasks.contract import TASKS, Item, Task
from unmask.tasks.filling import Canvas
from unmask.text.published import Published

NAME = "ideal"
PATTERNS = {
    "words": r" ?[^\W\d_]+| ?\d+| ?[^\s\w]+|\s+|.",
    "names": r'"[^"\n]*"|[^"\n]+|.',
    "characters": ".",
}


@dataclass(frozen=True)
class Ideal:
    """The exact denoiser, with its way to cut answers into tokens."""

    tokens: str = "words"

    @cached_property
    def tokenizer(self) -> Published | None:
        """The tokenizer of an open model; None with a pattern."""
        if self.tokens in PATTERNS:
            return None
        directory, card = here(self.tokens)
        model = None if directory is None else outline(directory, card)
        if model is None:
            raise UnmaskError(f"the files of {self.tokens} are not here. Load it once, or choose {', '.join(PATTERNS)}")
        return speaker(model)

    @property
    def about(self) -> dict[str, Any]:
        card = NAME if self == Ideal() else f"{NAME}(tokens={self.tokens!r})"
        return {"card": card, "dtype": "float64", "cache": "none"}

    def canvas(self, task: Task, item: Item, length: int) -> Canvas:
        return solved(self, task, item, length)

    def cut(self, text: str) -> Sequence[Hashable]:
        if self.tokenizer is None:
            return re.findall(PATTERNS[self.tokens], text, re.DOTALL)
        return self.tokenizer.encode_inside(text).tolist()

    def join(self, tokens: Sequence[Any]) -> str:
        return "".join(tokens) if self.tokenizer is None else self.tokenizer.decode(list(tokens))


@lru_cache(maxsize=2048)  # the items of a few tasks: each setting needs them again
def solved(ideal: Ideal, task: Task, item: Item, length: int) -> Canvas:
    """The right answers as a language. Token v >= 1 of position j is symbols[j][v - 1]; 0 is the end.

    The tokens of each position are numbered as they first occur, so items that differ only in their words have the
    same language."""
    solutions = task.solutions(item)
    if solutions is None:
        problem = f"the right answers of item {item.name} of {TASKS.name_of(type(task))} are not listed"
        raise UnmaskError(f"{problem}, so the exact denoiser does not know them. Choose another task, or a model")
    rows = [ideal.cut(solution) for solution in solutions]
    if (longest := max(map(len, rows))) > length:
        raise UnmaskError(f"item {item.name} has an answer of {longest} tokens; expected at most {length} (--length)")
    numbers: list[dict[Any, int]] = [{} for _ in range(length)]  # of each position
    table = torch.zeros(len(rows), length, dtype=torch.int64)
    for at, row in enumerate(rows):
        own = [number.setdefault(symbol, len(number) + 1) for symbol, number in zip(row, numbers, strict=False)]
        table[at, : len(own)] = torch.tensor(own)
    symbols, language = [list(number) for number in numbers], _language(table.numpy().tobytes(), len(rows))

    def text(tokens: Sequence[int]) -> str:
        """A token that no answer has at its position follows an error, so any symbol can stand for it."""
        pairs = zip(symbols, tokens, strict=False)
        return ideal.join([own[min(token, len(own)) - 1] for own, token in pairs if own])

    return Canvas(language, language.blank(1, length)[0], text, 0)


@lru_cache(maxsize=256)
def _language(table: bytes, rows: int) -> Language:
    return Answers(torch.frombuffer(bytearray(table), dtype=torch.int64).view(rows, -1), end=0)
