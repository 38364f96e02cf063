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


def show_page(made: Published[Any], as_json: bool) -> None:
    """A page in the terminal: its messages and verdict, its table of numbers, and the directories of its networks."""
    from unmask.report import whole
    from unmask.report.terminal import summary, table

    explorer = made.explorer
    networks = {one.name: str(one.place) for one in explorer.results.trainings}
    if as_json:
        about: dict[str, Any] = {"page": str(made.page), "files": [str(path) for path in made.files]}
        about |= {"networks": networks, "seconds": made.seconds, "records": whole.records(explorer.results)}
        show(about | {"sentences": [f"{card.number}: {card.text}" for card in explorer.cards]}, True)
        return
    if explorer.yardsticks:
        show_grid(*table(explorer))
    for line in summary(explorer):
        say(line)
    for name, place in networks.items():
        say(f"network {name}: {place}")
    size = made.page.stat().st_size / 1e6
    print(f"\n{made.page}\n{size:.1f} MB, {made.seconds:.0f} s; open it in any browser.")


def say(text: str) -> None:
    """A line that holds names which somebody has given."""
    print(plain(text))
