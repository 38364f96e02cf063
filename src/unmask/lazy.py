"""What a package has, imported when it is first asked for: `import unmask` costs nothing, and completion shows all."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from typing import Any

from unmask.errors import unknown

Door = tuple[Callable[[str], Any], Callable[[], list[str]]]


def door(package: str, places: Mapping[str, str], rooms: Iterable[str]) -> Door:
    """(__getattr__, __dir__) of a package: names to the modules that have them, and modules of its own."""
    modules = frozenset(rooms)

    def get(name: str) -> Any:
        if name in places:
            return getattr(import_module(places[name]), name)
        if name in modules:
            return import_module(f"{package}.{name}")
        near = f": {unknown('name', name, names())}" if not name.startswith("_") else ""  # those Python itself tries
        raise AttributeError(f"module {package!r} has no attribute {name!r}{near}")

    def names() -> list[str]:
        return sorted([*places, *modules])

    return get, names
