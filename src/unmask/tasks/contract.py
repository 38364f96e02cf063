"""What a task is: items, how a model is asked about one, and what of its text is the answer, and right.

    text                     what a model has written behind asked(item)
    answer(item, text)       the part of it that is held against the truth; None where there is none
    right(item, answer)      whether it holds

A task of programs says in `program` what is to be run in place of `right`; one that is judged has no right or wrong.
Adding one is a file with a class that is registered; options are its parameters, and those in `reading` say how an
answer is read: a text that has been written is read again without being written again.
"""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

from unmask.core.errors import UnmaskError
from unmask.core.registry import Registry, parse
from unmask.hub.chat import Message
from unmask.tasks.data import Dataset


class Item(NamedTuple):
    name: str
    row: Any  # what its file says of it, or what it was made of


class Program(NamedTuple):
    """What is run: the program of an answer, and then tests of it; entry: the function that they are about."""

    code: str
    tests: str
    entry: str


class Task(ABC):
    length: ClassVar[int] = 256  # tokens of an answer, unless told otherwise
    until: ClassVar[tuple[str, ...]] = ()  # what an answer to a prompt ends before; to what a user says, none
    reading: ClassVar[frozenset[str]] = frozenset()
    kind: ClassVar[str] = "right"  # or "programs", or "judged"
    judge: str = ""  # of one that is judged: an AR model
    source: ClassVar[str] = ""  # where its items are published, and their licence

    @property
    def dataset(self) -> Dataset | None:
        """Where its items are looked for; None where they are made."""
        return None

    @abstractmethod
    def items(self, data: str | Path | None) -> Sequence[Item]:
        """All of them, in an order that stays; data: the file that they are in, where it is one's own."""

    @abstractmethod
    def asked(self, item: Item) -> str:
        """The prompt, which an answer continues."""

    def said(self, item: Item) -> Sequence[Message]:
        """The same in a conversation, whose next turn is the answer."""
        return [Message("user", self.asked(item))]

    def answer(self, item: Item, text: str) -> str | None:
        return text.strip() or None

    def right(self, item: Item, answer: str) -> bool:
        raise NotImplementedError

    def values(self, item: Item, answer: str | None) -> Mapping[str, float]:
        """What else there is to say of an answer, or of there being none; each a number whose mean is shown."""
        return {}

    def program(self, item: Item, answer: str) -> Program:
        raise NotImplementedError


def _check(kind: type, label: str) -> None:
    if not issubclass(kind, Task):
        raise UnmaskError(f"{label} is a {kind.__name__}; expected a class derived from unmask.tasks.Task")


TASKS: Registry[Task] = Registry("task", "unmask.tasks", check=_check, returns=(Task,), package="unmask.tasks")


def asking(specification: str) -> str:
    """A task without the options that say how its answers are read."""
    name, options = parse("task", specification)
    reading = type(TASKS.make(specification)).reading
    kept = ", ".join(f"{option}={value!r}" for option, value in options.items() if option not in reading)
    return f"{name}({kept})" if kept else name


def fingerprint(items: Iterable[Item]) -> str:
    """Of questions and truths: another data set under the same name has another one."""
    whole = hashlib.sha256()
    for item in items:
        whole.update(repr(item).encode() + b"\0")
    return whole.hexdigest()[:16]
