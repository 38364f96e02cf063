"""Text that can be printed: escaped; a result as lines of a name and its value, for the command line and `repr`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import zip_longest
from typing import Any

from unmask.core.errors import plain

Row = tuple[str, str]
BRIEF = 6  # lines of a result in a notebook
WIDE = 140  # columns of output to a file or another program
WORDS = {None: "-", True: "yes", False: "no"}


def as_table(self: Any) -> str:
    """`__repr__` of an object with `table`, its lines for a reader, or with `to_dict`: one line per entry."""
    return "\n".join(lines(_table_of(self)))


def as_html(self: Any) -> str:
    """`_repr_html_` of the same: its first lines, in the colors of the notebook."""
    from html import escape

    style = 'style="text-align: left; vertical-align: top; color: inherit; background: none"'
    rows = (
        f"<tr><th {style}>{escape(name)}</th><td {style}>{escape(text)}</td></tr>"
        for name, text in _table_of(self)[:BRIEF]
    )
    return f"<table>{''.join(rows)}</table>"


def _table_of(self: Any) -> list[Row]:
    own = self.table() if hasattr(self, "table") else self.to_dict()
    return rows_of(own) if isinstance(own, Mapping) else list(own)


def rows_of(result: Mapping[str, Any], prefix: str = "") -> list[Row]:
    """Each entry with its text; the name of a nested entry is its path."""
    rows: list[Row] = []
    for name, value in result.items():
        if isinstance(value, Mapping) and not {"value", "low", "high"} <= value.keys():
            rows += rows_of(value, f"{prefix}{name}: ")
        else:
            rows.append(((prefix + str(name)).replace("_", " "), _text(value)))
    return rows


def lines(rows: Sequence[Row]) -> list[str]:
    """Lines as wide as the terminal; a longer text continues below itself."""
    import shutil
    import textwrap

    width = max((len(name) for name, _ in rows), default=0) + 2
    columns = max(shutil.get_terminal_size().columns, width + 20)
    shown = []
    for name, text in rows:
        wrapped = textwrap.wrap(plain(text), columns - width, break_on_hyphens=False) or [""]
        shown += [f"{head:<{width}}{part}".rstrip() for head, part in zip_longest([plain(name)], wrapped, fillvalue="")]
    return shown


def grid(title: str, head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """A table with a title, its first column left-aligned and the others right-aligned.

    Columns that do not fit into the terminal follow below, with the first column repeated: no heading or cell is cut.
    """
    import shutil
    import textwrap

    columns = shutil.get_terminal_size((WIDE, 24)).columns

    table = [list(map(plain, row)) for row in (head, *rows)]
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    widths[0] = min(widths[0], max(columns // 2, len(table[0][0])))

    parts: list[list[int]] = [[]]
    for i in range(1, len(head)):
        if parts[-1] and widths[0] + sum(2 + widths[k] for k in (*parts[-1], i)) > columns:
            parts.append([])
        parts[-1].append(i)

    shown = textwrap.wrap(plain(title), columns)
    for number, part in enumerate(parts):
        if number:
            shown.append("")
        for row in table:
            first, *rest = textwrap.wrap(row[0], widths[0], break_on_hyphens=False) or [""]
            shown.append("  ".join([f"{first:<{widths[0]}}", *(f"{row[i]:>{widths[i]}}" for i in part)]).rstrip())
            shown += rest
    return shown


def _text(value: Any) -> str:
    if isinstance(value, Mapping):
        from unmask.core.estimates import Estimate  # which loads scipy

        return str(Estimate.of_record(value))
    if value is None or isinstance(value, bool):
        return WORDS[value]
    return f"{value:.6g}" if isinstance(value, float) else str(value)
