"""What commands print: a table for people, or one JSON object on the last line of stdout for programs."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from unmask.core.errors import plain
from unmask.core.files import finite
from unmask.core.tables import grid, lines, rows_of

if TYPE_CHECKING:
    from unmask.experiments.board.table import Table
    from unmask.report.frame import Sentence
    from unmask.report.publishing import Published


def show(result: Mapping[str, Any], as_json: bool) -> None:
    """The result as JSON, or as a table as wide as the terminal; nested entries are named by their path."""
    if as_json:
        print(json.dumps(finite(result), allow_nan=False))
        return
    show_lines(rows_of(result))


def show_lines(rows: Sequence[tuple[str, str]]) -> None:
    """Names with a text beside each, as wide as the terminal."""
    print("\n".join(lines(rows)))


def show_tables(tables: Iterable[Table]) -> None:
    """Each with its title, and a line between them."""
    for table in tables:
        show_grid(table.title, table.head, [[heading, *(value for value, _ in cells)] for heading, cells in table.rows])


def show_grid(title: str, head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    print("\n".join([*grid(title, head, rows), ""]))


def show_trained(
    made: Published[Any],
    records: Sequence[Mapping[str, Any]],
    tables: Iterable[Table],
    sentences: Iterable[Sentence],
    networks: Mapping[str, str],
    uses: str,
    as_json: bool,
) -> None:
    """A page of networks that were trained for it: its tables, what to see in them, and where the networks lie."""
    if as_json:
        about = {"page": str(made.page), "files": [str(path) for path in made.files], "networks": dict(networks)}
        show(about | {"seconds": made.seconds, "records": records}, True)
        return
    show_tables(tables)
    for sentence in sentences:
        print(f"{sentence.number}  {sentence.text}")
    print(f"\nnetworks, for {uses}:")
    for name, place in networks.items():
        print(f"{name}  {place}")
    print(f"\n{made.page}\n{made.seconds:.0f} s")


def say(text: str) -> None:
    """A line that holds names which somebody has given."""
    print(plain(text))
