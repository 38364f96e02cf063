"""The contract of a task: its items, the prompt of an item, and the check of an answer.

    prompt(item)             the text that the model continues
    answer(item, text)       the answer in the model's text; None without one
    right(item, answer)      whether the answer is correct
    solutions(item)          all right answers, in the requested format; None where they are not listed

A new task is a registered class in a new file. Its parameters are its options.
"""

from __future__ import annotations

import hashlib
import random
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import count
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

from unmask.core import arguments
from unmask.core.errors import UnmaskError
from unmask.core.registry import Registry
from unmask.models.open.chat import Message


class Item(NamedTuple):
    name: str
    row: Any  # the content of the item, whose type depends on the task


class Task(ABC):
    length: ClassVar[int] = 256  # tokens of an answer by default
    until: ClassVar[tuple[str, ...]] = ()  # strings that end an answer to a prompt, but not one in a conversation
    source: ClassVar[str] = ""  # the publication of the items, and their licence

    @abstractmethod
    def items(self, data: str | Path | None) -> Sequence[Item]:
        """All items, in a fixed order. data: your own file of items."""

    @abstractmethod
    def prompt(self, item: Item) -> str:
        """The text that an answer continues."""

    def messages(self, item: Item) -> Sequence[Message]:
        """The conversation whose next message is the answer."""
        return [Message("user", self.prompt(item))]

    def answer(self, item: Item, text: str) -> str | None:
        return text.strip() or None

    @abstractmethod
    def right(self, item: Item, answer: str) -> bool:
        """Whether the answer is correct."""

    def solutions(self, item: Item) -> Sequence[str] | None:
        """All right answers in the requested format; None where they are too many."""
        return None

    def values(self, item: Item, answer: str | None, text: str) -> Mapping[str, float]:
        """Further numbers about an answer and its text, also about a missing answer; tables show their means."""
        return {}


@dataclass(frozen=True, kw_only=True)
class Generated(Task):
    """A task whose items are generated from a seed."""

    shots: int = 2
    many: int = 256
    items_seed: int = 0

    wording: ClassVar[str]
    source: ClassVar[str] = "generated from a seed"

    def _check(self, shots: int = 8) -> None:
        arguments.whole("shots", self.shots, 0, shots)
        arguments.whole("items_seed", self.items_seed, 0)
        arguments.whole("many", self.many, 1, 10**5)

    def items(self, data: str | Path | None) -> Sequence[Item]:
        if data is not None:
            raise UnmaskError(f"task {type(self).__name__} generates its items and reads no file. Leave out --data")
        return _generated(self)

    @abstractmethod
    def make(self, rng: random.Random) -> Any:
        """Generate the content of one item."""

    def numbered(self, number: int, rng: random.Random) -> Any:
        """Generate the content of item `number`; by default, all items in the same way."""
        return self.make(rng)

    def examples(self) -> list[Any]:
        """Generate the shots, which differ from the items."""
        return self.drawn("shot ", self.shots)

    def drawn(self, label: str, number: int) -> list[Any]:
        """The first contents, each with its own random numbers."""
        return [self.numbered(i, random.Random(f"{self.items_seed}/{label}{i}")) for i in range(number)]


@lru_cache(maxsize=32)  # plans ask for the items of each setting
def _generated(task: Generated) -> Sequence[Item]:
    return list(map(Item, map(str, count()), task.drawn("", task.many)))


def _check(kind: type, label: str) -> None:
    if not issubclass(kind, Task):
        raise UnmaskError(f"{label} is a {kind.__name__}; expected a class derived from unmask.tasks.Task")


TASKS: Registry[Task] = Registry("task", "unmask.tasks", check=_check, returns=(Task,))


def fingerprint(items: Iterable[Item]) -> str:
    """A digest of all items: it differs between data sets of the same name."""
    whole = hashlib.sha256()
    for item in items:
        whole.update(repr(item).encode() + b"\0")
    return whole.hexdigest()[:16]
