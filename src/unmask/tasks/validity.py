"""JSON that is asked for with certain fields: whether what was written is in the support, whatever its sense."""

from __future__ import annotations

import json
import random
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

from unmask.core import arguments
from unmask.core.errors import UnmaskError
from unmask.core.reading import from_json
from unmask.tasks import programs
from unmask.tasks.contract import TASKS, Item
from unmask.tasks.made import Made

KINDS: dict[str, tuple[tuple[type, ...], Any]] = {  # what a value is called, the types that are one, and an example
    "a string": ((str,), "blue"),
    "a number": ((int, float), 7),
    "true or false": ((bool,), True),
    "a list of strings": ((list,), ["red", "green"]),
    "a list of numbers": ((list,), [1, 2]),
}
NAMES = ["name", "age", "city", "colour", "tags", "active", "price", "sizes", "email", "score", "notes", "year"]


class Row(NamedTuple):
    fields: dict[str, str]  # names to kinds


@TASKS.register("json")
@dataclass(frozen=True)
class Validity(Made):
    """An object of JSON with certain fields, each of a kind: a test of support, as SER is."""

    fields: int = 3
    shots: int = 2
    many: int = 256
    items_seed: int = 0

    length: ClassVar[int] = 96
    until: ClassVar[tuple[str, ...]] = ("Write a JSON",)

    def __post_init__(self) -> None:
        arguments.whole("fields", self.fields, 1, len(NAMES))
        arguments.whole("shots", self.shots, 0, 8)
        self._check()

    def make(self, luck: random.Random) -> Row:
        return Row({name: luck.choice(list(KINDS)) for name in luck.sample(NAMES, self.fields)})

    def asked(self, item: Item) -> str:
        shots = [self.make(random.Random(f"{self.items_seed}/shot {number}")) for number in range(self.shots)]
        told = [f"{_question(shot)} {_example(shot)}\n\n" for shot in shots]
        return "".join([*told, _question(item.row)])

    def answer(self, item: Item, text: str) -> str | None:
        return (programs.fenced(text) or text).strip() or None

    def right(self, item: Item, answer: str) -> bool:
        try:
            found = from_json(answer)
        except UnmaskError:
            return False
        fields = item.row.fields
        return (
            isinstance(found, dict) and found.keys() == fields.keys() and all(_is(found[n], fields[n]) for n in fields)
        )


def _question(row: Row) -> str:
    named = ", ".join(f'"{name}" ({kind})' for name, kind in row.fields.items())
    return f"Write a JSON object with the fields {named} and nothing else.\nJSON:"


def _example(row: Row) -> str:
    return json.dumps({name: KINDS[kind][1] for name, kind in row.fields.items()})


def _is(value: Any, kind: str) -> bool:
    types, example = KINDS[kind]
    if isinstance(value, bool) and bool not in types:
        return False
    if isinstance(value, list) and list in types:
        return all(
            isinstance(one, str if isinstance(example[0], str) else (int, float)) and not isinstance(one, bool)
            for one in value
        )
    return isinstance(value, types)
