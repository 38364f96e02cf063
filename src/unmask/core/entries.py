"""Entries of mappings and fields of records: the given ones, those of some names, and groups with a common key.

A given entry is one that is not None.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from operator import attrgetter
from typing import Any, TypeVar

T = TypeVar("T")
Key = TypeVar("Key", bound=Hashable)
Name = TypeVar("Name", bound=Hashable)


def given(entries: Mapping[Name, T | None]) -> dict[Name, T]:
    """The entries that are not None."""
    return {name: value for name, value in entries.items() if value is not None}


def picked(entries: Mapping[Name, T], names: Iterable[Name]) -> dict[Name, T]:
    """The entries of these names, in their order; names without an entry are left out."""
    return {name: entries[name] for name in names if name in entries}


def without(entries: Mapping[Name, T], names: Iterable[Name]) -> dict[Name, T]:
    """The entries of all other names."""
    left_out = frozenset(names)
    return {name: value for name, value in entries.items() if name not in left_out}


def assignments(entries: Mapping[str, Any]) -> list[str]:
    """Each given entry as "name=value"."""
    return [f"{name}={value}" for name, value in given(entries).items()]


def column(records: Iterable[Any], field: str) -> list[Any]:
    """One field of each record; "value.low" is a field of a field."""
    return list(map(attrgetter(field), records))


def grouped(items: Iterable[T], key: Callable[[T], Key]) -> dict[Key, list[T]]:
    """The items of each key, in the order in which they occur."""
    groups: dict[Key, list[T]] = {}
    for item in items:
        groups.setdefault(key(item), []).append(item)
    return groups


def several(value: Any) -> list[Any]:
    """A list of one value or of several."""
    return list(value) if isinstance(value, list | tuple) else [value]


def chosen(value: T | None, usual: T) -> T:
    """The value, or the usual one in place of None."""
    return usual if value is None else value


def taken(values: Any, which: Any) -> Any:
    """These entries of a tensor or an array; None without one."""
    return None if values is None else values[which]
