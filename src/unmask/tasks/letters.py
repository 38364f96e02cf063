"""Networks of the language `list-operation` as models of the task `lists`: each name is a letter.

The question is the beginning of a sequence, `abc=`, and the answer its end. Letters are in the order of family names,
the key of `sort`. The exact denoiser of the same language, ideal(of=DIR), fills the same canvases.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch

from unmask.core.errors import UnmaskError
from unmask.denoisers import Denoiser
from unmask.languages import Language, ListOperation
from unmask.networks import read_network
from unmask.networks.model.checkpoints import read_language, read_shape
from unmask.tasks.contract import Item, Task
from unmask.tasks.filling import Canvas
from unmask.tasks.lists import Lists, Row, family, listed

UNKNOWN = "?"  # written for a letter that no name of the item has


@dataclass(frozen=True)
class Letters:
    """A network, or the exact denoiser of its language."""

    directory: str
    exact: bool = False
    device: str = "auto"

    @cached_property
    def language(self) -> ListOperation:
        language, name = read_language(self.directory)
        if not isinstance(language, ListOperation):
            problem = f"{self.directory} was trained on {name}"
            raise UnmaskError(
                f"{problem}; expected a list-operation, whose questions are lists. Train one, or score it"
            )
        return language

    @cached_property
    def source(self) -> Language | Denoiser:
        return self.language if self.exact else read_network(self.directory, device=self.device)

    @property
    def about(self) -> dict[str, Any]:
        card = f"ideal(of={self.directory!r})" if self.exact else self.directory
        return {"card": card, "dtype": "float64" if self.exact else "float32", "cache": "none"}

    @property
    def task(self) -> str:
        """The task of its language."""
        q = self.language
        return f"lists(operation={q.operation!r}, low={q.size}, high={q.size})"

    @property
    def length(self) -> int:
        """Letters of an answer."""
        return self.language.size + {"insert": 1, "remove": -1}.get(self.language.edit, 0)

    def canvas(self, task: Task, item: Item, length: int) -> Canvas:
        q = self.language
        if not isinstance(task, Lists) or (task.operation, len(item.row.names)) != (q.operation, q.size):
            raise UnmaskError(f"{self.directory} has not learned this task; expected {self.task}")
        if length != self.length:
            raise UnmaskError(
                f"an answer of {self.directory} has {self.length} tokens, not {length}. Leave out --length"
            )
        row: Row = item.row
        ranked = sorted((*row.names, row.new), key=family)
        if len(ranked) > q.letters:
            ranked = sorted(row.names, key=family)  # the new name gets no letter if the language has too few
        letters = {name: letter for letter, name in enumerate(ranked)}
        question = [letters[name] for name in row.names]
        if q.how == "index":
            question.append(q.separator + row.number)
        if q.inserts:
            question.append(letters[row.new])
        given = torch.tensor([*question, q.equals, *[q.vocabulary] * length])
        if (most := read_shape(self.directory).length) != len(given):
            raise UnmaskError(f"{self.directory} has sequences of {most} tokens; expected {len(given)}, one question")

        def text(tokens: Sequence[int]) -> str:
            return listed([ranked[token] if token < len(ranked) else UNKNOWN for token in tokens])

        return Canvas(self.source, given, text)
