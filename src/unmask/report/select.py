"""Points and rows by their values, and one column of them.

A setting is all fields of a point besides its language and its number of steps (FIELDS). Settings that differ only in
the sampler and its schedule (RIVALS) are compared with each other.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from operator import itemgetter
from typing import Any, TypeVar

FIELDS = ("model", "sampler", "schedule", "length", "batch", "setting")
RIVALS = ("sampler", "schedule")
SHARED = ("of", "model", "length", "batch", "setting")  # the fields that rivals have in common
Fields = Mapping[str, Any]
Row = TypeVar("Row", bound=Mapping[str, Any])


def where(rows: Iterable[Row], **values: Any) -> list[Row]:
    """The rows with these values."""
    wanted = values.items()
    return [row for row in rows if wanted <= row.items()]


def among(rows: Iterable[Row], name: str, values: Collection[Any]) -> list[Row]:
    """The rows with one of these values."""
    return [row for row in rows if row[name] in values]


def having(rows: Iterable[Row], name: str) -> list[Row]:
    """The rows that have this value: it is not None."""
    return [row for row in rows if row.get(name) is not None]


def positive(rows: Iterable[Row], name: str) -> list[Row]:
    """The rows in which this number is known and not 0."""
    return list(filter(itemgetter(name), rows))


def column(rows: Iterable[Mapping[str, Any]], name: str) -> list[Any]:
    """The value of each row."""
    return list(map(itemgetter(name), rows))


def different(rows: Iterable[Mapping[str, Any]], name: str) -> list[Any]:
    """The different values, in the order of the rows."""
    return list(dict.fromkeys(column(rows, name)))


def key_of(row: Mapping[str, Any], *names: str) -> tuple[Any, ...]:
    """The values of these fields; None for one that the row does not have."""
    return tuple(map(row.get, names))


def indexed(rows: Iterable[Row], *names: str) -> dict[tuple[Any, ...], Row]:
    """The rows by their key; of rows with the same key, the last one."""
    return {key_of(row, *names): row for row in rows}


def matching(rows: Iterable[Row], values: Fields, free: Sequence[str] = ()) -> list[Row]:
    """The rows with these values, or without a value; AR has no sampler to choose."""
    left = list(rows)
    for name in ("of", *FIELDS):
        if name not in free and (value := values.get(name)) is not None:
            rival = name in RIVALS
            left = [p for p in left if p[name] is None or p[name] == value or (rival and p["kind"] == "ar")]
    return left
