"""What commands print: a table for people, or one JSON object on the last line of stdout for programs."""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from unmask.core.tables import lines, rows_of

if TYPE_CHECKING:
    from rich.console import Console

    from unmask.experiments.board.table import Table

WIDTH = 140  # of a wide table that is not read on a terminal


def show(result: Mapping[str, Any], as_json: bool) -> None:
    """The result as JSON, or as a table as wide as the terminal; nested entries are named by their path."""
    if as_json:
        print(json.dumps(_finite(result), allow_nan=False))
        return
    show_lines(rows_of(result))


def show_lines(rows: Sequence[tuple[str, str]]) -> None:
    """Names with a text beside each, as wide as the terminal."""
    print("\n".join(lines(rows)))


def _finite(value: Any) -> Any:
    """JSON has no infinity: the open end of an interval is null."""
    if isinstance(value, Mapping):
        return {name: _finite(entry) for name, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(entry) for entry in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def show_tables(tables: Iterable[Table], names: bool = False) -> Console:
    """Each with its title; names: the first column holds names, and the table is for a wide terminal, or for none."""
    from rich.console import Console
    from rich.table import Table as Drawn

    console = Console(highlight=False, width=max(shutil.get_terminal_size().columns, WIDTH) if names else None)
    for table in tables:
        drawn = Drawn(title=table.title, title_justify="left", title_style="bold", box=None, pad_edge=False)
        for i, name in enumerate(table.head):
            left = names and i == 0
            drawn.add_column(name, justify="left" if left else "right", no_wrap=names and i > 0, overflow="fold")
        for heading, cells in table.rows:
            drawn.add_row(heading, *(value for value, _ in cells))
        console.print(drawn)
        console.print()
    return console
