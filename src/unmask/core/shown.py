"""What an object looks like in a notebook: a room above its own draws it, which the front door names."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from unmask.core.lazy import ADDING


class Shown:
    """An object that can be looked at."""

    __slots__ = ()

    def plot(self) -> Any:
        """An Altair chart of it."""
        return _room().plot(self)

    def _repr_html_(self) -> str:
        """Its words, and its chart as a drawing that asks nobody for anything."""
        return str(_room().html(self))


def _room() -> Any:
    (name,) = ADDING["notebook"]
    return import_module(name)
