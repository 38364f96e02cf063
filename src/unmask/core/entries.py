"""Entries of mappings and fields of records: the given ones, those of some names, and groups with a common key.

A given entry is one that is not None.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from operator import attrgetter, itemgetter
from typing import Any, TypeVar

T = TypeVar("T")
Result = TypeVar("Result")
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


def mapped(function: Callable[[T], Result], entries: Mapping[Name, T]) -> dict[Name, Result]:
    """The function of each value, by its name."""
    return {name: function(value) for name, value in entries.items()}


def renamed(form: str, entries: Mapping[Any, T]) -> dict[str, T]:
    """The entries under names of this form: "validation_{}"."""
    return {form.format(name): value for name, value in entries.items()}


def assignments(entries: Mapping[str, Any]) -> list[str]:
    """Each given entry as "name=value"."""
    return [f"{name}={value}" for name, value in given(entries).items()]


def column(records: Iterable[Any], field: str) -> list[Any]:
    """One field of each record; "value.low" is a field of a field."""
    return list(map(attrgetter(field), records))


def present(values: Iterable[T | None]) -> list[T]:
    """The values that are not None."""
    return [value for value in values if value is not None]


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


def perhaps(function: Callable[[T], Result], value: T | None) -> Result | None:
    """The function of a value; None of None."""
    return None if value is None else function(value)


def taken(values: Any, which: Any) -> Any:
    """These entries of a tensor or an array; None without one."""
    return perhaps(itemgetter(which), values)
