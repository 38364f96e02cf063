"""What a package has, imported when it is first asked for: `import unmask` costs nothing, and completion shows all."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from pkgutil import iter_modules
from typing import Any

from unmask.core.errors import unknown

ADDING: dict[str, tuple[str, ...]] = {}  # modules that add names to a registry, by its noun (core/registry.py)
Door = tuple[Callable[[str], Any], Callable[[], list[str]]]


def door(package: str, places: Mapping[str, str], modules: Mapping[str, str]) -> Door:
    """(__getattr__, __dir__) of a package: names to the modules that have them, and names of modules themselves."""

    def get(name: str) -> Any:
        if name in places:
            return getattr(import_module(places[name]), name)
        if name in modules:
            return import_module(modules[name])
        near = f": {unknown('name', name, names())}" if not name.startswith("_") else ""  # those Python itself tries
        raise AttributeError(f"module {package!r} has no attribute {name!r}{near}")

    def names() -> list[str]:
        return sorted([*places, *modules])

    return get, names


def modules_of(package: str, path: Iterable[str]) -> dict[str, str]:
    """The modules of a package by their names, of its `__path__`."""
    return {module.name: f"{package}.{module.name}" for module in iter_modules(path)}
