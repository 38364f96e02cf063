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
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import zip_longest
from operator import attrgetter, itemgetter
from typing import Any, NamedTuple

import torch

from unmask.core import arguments, entries
from unmask.core.arguments import changed
from unmask.core.errors import UnmaskError
from unmask.core.specs import parse, written
from unmask.languages import Language
from unmask.languages.answers import Answers
from unmask.models.open.loading import card_of, here, tokenizer_of
from unmask.models.open.prompted import tempered
from unmask.models.text.published import Published
from unmask.samplers import Generation, generate
from unmask.tasks.contract import TASKS, Item, Task
from unmask.tasks.sample import Sample, cost_of
from unmask.tasks.writing import How

PADDING = None  # behind an answer
NAME = "ideal"
USUAL = "low-confidence"  # the sampler of most open models
END = 0  # the token that ends an answer
PATTERNS = {
    "words": r" ?[^\W\d_]+| ?\d+| ?[^\s\w]+|\s+|.",
    "names": r'"[^"\n]*"|[^"\n]+|.',
    "characters": ".",
}


class Canvas(NamedTuple):
    """The canvas of one item."""

    source: Language
    text: Callable[[Sequence[int]], str]  # of the tokens


@dataclass(frozen=True)
class Ideal:
    """The exact denoiser, with its way to cut answers into tokens."""

    tokens: str = "words"

    @cached_property
    def tokenizer(self) -> Published | None:
        """The tokenizer of an open model; None with a pattern."""
        if self.tokens in PATTERNS:
            return None
        directory, named = here(self.tokens)
        if directory is None or (tokenizer := tokenizer_of(directory, card_of(directory, named)[0])) is None:
            raise UnmaskError(f"{self.tokens} has no tokenizer here. Load it once, or choose {', '.join(PATTERNS)}")
        return tokenizer

    @property
    def about(self) -> dict[str, Any]:
        return {"card": written(NAME, changed(self)), "dtype": "float64"}

    def cut(self, text: str) -> Sequence[Hashable]:
        if self.tokenizer is None:
            return re.findall(PATTERNS[self.tokens], text, re.DOTALL)
        return self.tokenizer.encode_inside(text).tolist()

    def join(self, tokens: Sequence[Any]) -> str:
        return "".join(tokens) if self.tokenizer is None else self.tokenizer.decode(list(tokens))


def is_ideal(model: str) -> bool:
    return model.partition("(")[0].strip() == NAME


def ideal(model: str) -> Ideal | None:
    """The exact denoiser that a name means; None for an open model."""
    if not is_ideal(model):
        return None
    _, options = parse("model", model)
    if set(options) - {"tokens"}:
        raise UnmaskError(f"model {model!r} has wrong options; expected {NAME}(tokens=..)")
    exact = Ideal(**options)
    arguments.of_kind("tokens", exact.tokens, str, f"{', '.join(PATTERNS)}, or an open model")
    return exact


@lru_cache(maxsize=2048)  # the items of a few tasks: each setting needs them again
def solved(ideal: Ideal, task: Task, item: Item, length: int) -> Canvas:
    """The right answers of an item as a language. Token v >= 1 of position j is symbols[j][v - 1].

    The tokens of each position are numbered as they first occur, so items that differ only in their words have the
    same language."""
    solutions = task.solutions(item)
    if solutions is None:
        raise UnmaskError(
            f"the right answers of item {item.name} of {TASKS.name_of(type(task))} are not listed, "
            "so the exact denoiser does not know them",
            "Choose another task, or a model",
        )

    rows = list(map(ideal.cut, solutions))
    if (longest := max(map(len, rows))) > length:
        raise UnmaskError(f"item {item.name} has an answer of {longest} tokens; expected at most {length} (--length)")

    # tokens are numbered as they occur: other words, but the same language
    table = torch.zeros(len(rows), length, dtype=torch.int64)
    symbols: list[list[Hashable]] = []  # of each position; none beyond the longest answer
    for position, there in enumerate(zip_longest(*rows, fillvalue=PADDING)):
        own = list(dict.fromkeys([PADDING, *there]))  # the padding is token 0
        table[:, position] = torch.tensor(list(map(own.index, there)))
        symbols.append(own[1:])
    language = _language(table.numpy().tobytes(), len(rows))

    def text(tokens: Sequence[int]) -> str:
        """A token that no answer has at its position follows an error, so any symbol can stand for it."""
        pairs = zip(symbols, tokens, strict=False)
        return ideal.join([own[min(token, len(own)) - 1] for own, token in pairs])

    return Canvas(language, text)


@lru_cache(maxsize=256)
def _language(table: bytes, rows: int) -> Language:
    return Answers(torch.frombuffer(bytearray(table), dtype=torch.int64).view(rows, -1), end=END)


class CanvasWriter:
    """Generates samples of a task, as `Writer` does with a model. `about` is added to the record of each sample."""

    def __init__(self, ideal: Ideal, task: Task, how: How, about: Mapping[str, Any]) -> None:
        self.ideal, self.task = ideal, task
        self.length = entries.chosen(how.length, task.length)

        self.options = tempered(
            how.sampler or USUAL,
            how.temperature,
            schedule=how.schedule,
            steps=entries.chosen(how.steps, self.length),
            top_p=how.top_p,
            top_k=how.top_k,
        )
        self.about = {
            **about,
            "model": ideal.about,
            "how": {
                "length": self.length,
                "eos": "fill",
                "until": [],
                "chat": False,
                "system": None,
                **self.options,
            },
            "context": None,
        }

    def __call__(self, items: Sequence[Item], numbers: Sequence[int], first_row: int, seed: int) -> list[Sample]:
        """Generate one sample per item, in rows from first_row on. Items with the same source share a batch."""
        every = [solved(self.ideal, self.task, item, self.length) for item in items]
        names, rows = entries.column(items, "name"), range(first_row, first_row + len(items))
        requests = zip(every, names, numbers, rows, strict=True)

        samples: list[Sample] = []
        for batch in entries.grouped(requests, lambda one: id(one[0].source)).values():
            source = batch[0][0].source
            given = source.blank(len(batch), self.length)
            result = generate(
                source, given=given, first_row=list(map(itemgetter(-1), batch)), seed=seed, **self.options
            )
            for at, one in enumerate(batch):
                samples.append(self._sample(result, at, *one))
        return sorted(samples, key=attrgetter("row"))

    def _sample(self, result: Generation, at: int, by: Canvas, item: str, number: int, numbered: int) -> Sample:
        tokens = result.tokens[at].tolist()
        end = [*tokens, END].index(END)

        return Sample(
            item=item,
            number=number,
            row=numbered,
            about=self.about,
            prompt="",
            prompt_sha256="",
            prompt_tokens=0,
            memory=None,
            tokens=tokens[:end],
            order=result.order[at, :end].tolist(),
            reason="filled" if end == len(tokens) else "stopped",
            text=by.text(tokens[:end]),
            **cost_of(result, at),
        )
