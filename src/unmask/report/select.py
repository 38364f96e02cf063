"""Points and rows by their values, and one column of them.

A setting is all fields of a point besides its language and its number of steps (FIELDS). Settings that differ only in
the sampler and its schedule (RIVALS) are compared with each other.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeVar

FIELDS = ("model", "sampler", "schedule", "length", "batch", "setting")
RIVALS = ("sampler", "schedule")
Fields = Mapping[str, Any]
Row = TypeVar("Row", bound=Mapping[str, Any])


def where(rows: Iterable[Row], **values: Any) -> list[Row]:
    """The rows with these values."""
    return [row for row in rows if all(row[name] == value for name, value in values.items())]


def column(rows: Iterable[Mapping[str, Any]], name: str) -> list[Any]:
    """The value of each row."""
    return [row[name] for row in rows]


def having(rows: Iterable[Row], name: str) -> list[Row]:
    """The rows that have this value: it is not None."""
    return [row for row in rows if row[name] is not None]


def different(rows: Iterable[Mapping[str, Any]], name: str) -> list[Any]:
    """The different values, in the order of the rows."""
    return list(dict.fromkeys(column(rows, name)))


def matching(rows: Iterable[Row], values: Fields, free: Sequence[str] = ()) -> list[Row]:
    """The rows with these values, or without a value; AR has no sampler to choose."""
    left = list(rows)
    for name in ("of", *FIELDS):
        if name not in free and (value := values.get(name)) is not None:
            rival = name in RIVALS
            left = [p for p in left if p[name] is None or p[name] == value or (rival and p["kind"] == "ar")]
    return left
