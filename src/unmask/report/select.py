"""Points and rows by their values, and one column of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

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
