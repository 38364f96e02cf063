"""JSON objects with given fields: only the format is checked, not the meaning."""

from __future__ import annotations

import json
import random
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

from unmask.core import arguments
from unmask.core.errors import UnmaskError
from unmask.core.reading import from_json
from unmask.tasks.contract import TASKS, Item
from unmask.tasks.extraction import fenced
from unmask.tasks.lines import Line

KINDS: dict[str, tuple[tuple[type, ...], Any]] = {  # name of a kind: its types, and an example
    "a string": ((str,), "blue"),
    "a number": ((int, float), 7),
    "true or false": ((bool,), True),
    "a list of strings": ((list,), ["red", "green"]),
    "a list of numbers": ((list,), [1, 2]),
}
NAMES = ["name", "age", "city", "colour", "tags", "active", "price", "sizes", "email", "score", "notes", "year"]


class Row(NamedTuple):
    fields: dict[str, str]  # name: kind


@TASKS.register("json")
@dataclass(frozen=True)
class Validity(Line):
    """JSON objects with given fields of given kinds; like SER, it tests whether the text is possible."""

    fields: int = 3

    length: ClassVar[int] = 96
    wordings = (
        "Write a JSON object with the fields {fields} and nothing else.\nJSON:",
        "Write a JSON object whose only fields are {fields}.\nObject:",
        "Write a JSON document: one object that has exactly these fields: {fields}.\nDocument:",
        "Write a JSON object, without any other text. Its fields: {fields}.\nAnswer:",
        "Write a JSON example for a schema that requires {fields} and allows no other field.\nExample:",
    )
    until: ClassVar[tuple[str, ...]] = ("Write a JSON",)

    def __post_init__(self) -> None:
        arguments.whole("fields", self.fields, 1, len(NAMES))
        self._check()

    def make(self, rng: random.Random) -> Row:
        return Row({name: rng.choice(list(KINDS)) for name in rng.sample(NAMES, self.fields)})

    def solution(self, row: Row) -> str:
        return json.dumps({name: KINDS[kind][1] for name, kind in row.fields.items()})

    def solutions(self, item: Item) -> None:
        """None: an object may have any values of the given kinds."""

    def question(self, row: Row) -> str:
        return self.wording.format(fields=", ".join(f'"{name}" ({kind})' for name, kind in row.fields.items()))

    def answer(self, item: Item, text: str) -> str | None:
        return (fenced(text) or text).strip() or None

    def right(self, item: Item, answer: str) -> bool:
        try:
            content = from_json(answer)
        except UnmaskError:
            return False
        fields = item.row.fields
        if not isinstance(content, dict) or content.keys() != fields.keys():
            return False
        return all(_is(content[name], kind) for name, kind in fields.items())


def _is(value: Any, kind: str) -> bool:
    types, example = KINDS[kind]
    if isinstance(value, bool) and bool not in types:
        return False
    if isinstance(value, list) and list in types:
        entries = str if isinstance(example[0], str) else (int, float)
        return all(isinstance(entry, entries) and not isinstance(entry, bool) for entry in value)
    return isinstance(value, types)
