"""Display of an object in a notebook. A module of a higher package draws it; the public API names that module."""

from __future__ import annotations

from importlib import import_module
from typing import Any


class Shown:
    """An object that a notebook displays."""

    __slots__ = ()

    def plot(self) -> Any:
        """Return an Altair chart of the object."""
        return _notebook().plot(self)

    def _repr_html_(self) -> str:
        """Its text and its chart, as a drawing that loads nothing."""
        return str(_notebook().html(self))


def _notebook() -> Any:
    return import_module("unmask.report.notebook")  # by its name: the report is above all that it shows
