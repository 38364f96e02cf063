"""A result as lines for people: a name, and what stands behind it; on the command line, and as a repr."""

from __future__ import annotations

import shutil
import textwrap
from collections.abc import Mapping, Sequence
from itertools import zip_longest
from typing import Any

from unmask.core.errors import plain

Row = tuple[str, str]


def as_table(self: Any) -> str:
    """`__repr__` of what has a `to_dict`: a line an entry."""
    return "\n".join(lines(rows_of(self.to_dict())))


def rows_of(result: Mapping[str, Any], prefix: str = "") -> list[Row]:
    """Each entry with its text; nested ones are named by their path."""
    rows: list[Row] = []
    for name, value in result.items():
        if isinstance(value, Mapping) and not {"value", "low", "high"} <= value.keys():
            rows += rows_of(value, f"{prefix}{name}: ")
        else:
            rows.append(((prefix + str(name)).replace("_", " "), _text(value)))
    return rows


def lines(rows: Sequence[Row]) -> list[str]:
    """As wide as the terminal; a text that is longer goes on below itself."""
    width = max((len(name) for name, _ in rows), default=0) + 2
    columns = max(shutil.get_terminal_size().columns, width + 20)
    shown = []
    for name, text in rows:
        wrapped = textwrap.wrap(plain(text), columns - width, break_on_hyphens=False) or [""]
        shown += [f"{head:<{width}}{part}".rstrip() for head, part in zip_longest([plain(name)], wrapped, fillvalue="")]
    return shown


def _text(value: Any) -> str:
    if isinstance(value, Mapping):
        from unmask.core.estimates import Estimate  # which loads scipy

        return str(Estimate(**value))
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:.6g}" if isinstance(value, float) else str(value)
