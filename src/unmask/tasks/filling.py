"""Models that fill a canvas for each item: the exact denoiser of its right answers, and networks of a language."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor

from unmask.denoisers import Denoiser
from unmask.generation import Generation, generate
from unmask.hub.answering import tempered
from unmask.languages import Language
from unmask.tasks.contract import Item, Task
from unmask.tasks.sample import Sample, cost_of
from unmask.tasks.writing import How

USUAL = "low-confidence"  # the sampler of most open models


@dataclass(frozen=True, eq=False)
class Canvas:
    """The canvas of one item."""

    source: Language | Denoiser
    given: Tensor  # (L): V where hidden
    text: Callable[[Sequence[int]], str]  # of the tokens behind the question
    end: int | None = None  # the token that ends an answer


class Filler(Protocol):
    """A model that fills canvases and reads no prompt."""

    @property
    def about(self) -> Mapping[str, Any]:
        """Its entries in records."""

    def canvas(self, task: Task, item: Item, length: int) -> Canvas:
        """The canvas of an item with `length` hidden positions."""


class CanvasWriter:
    """Generates samples of a task, as `Writer` does with a model. `about` is added to the record of each sample."""

    def __init__(self, filler: Filler, task: Task, how: How, about: Mapping[str, Any]) -> None:
        self.filler, self.task = filler, task
        self.length = task.length if how.length is None else how.length
        sampler, steps = how.sampler or USUAL, self.length if how.steps is None else how.steps
        others = {name: getattr(how, name) for name in ("schedule", "top_p", "top_k")}
        self.options = tempered(sampler, how.temperature, steps=steps, **others)
        settings = {"length": self.length, "eos": "fill", "until": [], "chat": False, "system": None} | self.options
        self.about = dict(about) | {"model": dict(filler.about), "how": settings, "context": None}

    def __call__(self, items: Sequence[Item], numbers: Sequence[int], first_row: int, seed: int) -> list[Sample]:
        """Generate one sample per item, in rows from first_row on. Items with the same source share a batch."""
        every = [self.filler.canvas(self.task, item, self.length) for item in items]
        batches: dict[int, list[int]] = {}
        for at, one in enumerate(every):
            batches.setdefault(id(one.source), []).append(at)
        samples: dict[int, Sample] = {}
        for batch in batches.values():
            rows, given = [first_row + at for at in batch], torch.stack([every[at].given for at in batch])
            result = generate(every[batch[0]].source, given=given, first_row=rows, seed=seed, **self.options)
            for row, at in enumerate(batch):
                samples[at] = self._sample(result, row, every[at], items[at].name, numbers[at], rows[row])
        return [samples[at] for at in range(len(items))]

    def _sample(self, result: Generation, at: int, by: Canvas, item: str, number: int, numbered: int) -> Sample:
        begin = len(by.given) - self.length
        tokens = result.tokens[at, begin:].tolist()
        end = tokens.index(by.end) if by.end in tokens else len(tokens)
        return Sample(
            item=item,
            number=number,
            row=numbered,
            about=self.about,
            prompt="",
            prompt_sha256="",
            prompt_tokens=begin,
            memory=None,
            tokens=tokens[:end],
            order=result.order[at, begin : begin + end].tolist(),
            reason="filled" if end == len(tokens) else "stopped",
            text=by.text(tokens[:end]),
            **cost_of(result, at),
        )
