"""Output of commands: a table for people, or one JSON object on the last line of stdout for programs."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from unmask.cli.options import Answer, Printed
from unmask.core.errors import plain
from unmask.core.files import finite
from unmask.core.tables import grid, lines, rows_of

if TYPE_CHECKING:
    from unmask.core.estimates import Estimate
    from unmask.experiments.board.table import Table
    from unmask.report.publishing import Published


def show(result: Mapping[str, Any], as_json: bool, text: Printed | None = None) -> None:
    """Print the result as JSON, or as a table as wide as the terminal; nested entries are named by their path.

    text: the lines for a reader, or a function that prints them, in place of the whole table.
    """
    if as_json:
        print(json.dumps(finite(result), allow_nan=False))
    elif callable(text):
        text()
    else:
        show_lines(rows_of(result) if text is None else text)


def number(value: float) -> str:
    """Return four significant digits, with separators of thousands."""
    return f"{value:,.0f}" if value >= 1000 else f"{value:.4g}"


def percent(estimate: Estimate) -> str:
    """Return a fraction as a percentage with its interval: 49.5% [47.3%, 51.7%]."""
    if estimate.none_seen:
        return f"0% (none in {estimate.n}; at most {estimate.high:.2%})"
    if estimate.open:
        return str(estimate)
    return f"{estimate.value:.1%} [{estimate.low:.1%}, {estimate.high:.1%}]"


def spread(estimate: Estimate) -> str:
    """Return a value with its interval: 1.23 [1.2, 1.26]."""
    return f"{estimate.value:.3g} [{estimate.low:.3g}, {estimate.high:.3g}]"


def show_lines(rows: Sequence[tuple[str, str]]) -> None:
    """Print names with their texts, as wide as the terminal."""
    print("\n".join(lines(rows)))


def show_tables(tables: Iterable[Table]) -> None:
    """Print each table with its title, and an empty line between two."""
    for table in tables:
        show_grid(table.title, table.head, [[heading, *(value for value, _ in cells)] for heading, cells in table.rows])


def show_grid(title: str, head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    print("\n".join([*grid(title, head, rows), ""]))


def answer_of(published: Published[Any]) -> Answer:
    """Return the numbers of a page, its messages and verdict, and the directories of its networks."""
    from unmask.report.publishing import records
    from unmask.report.verdict import summary, table

    shown = published.shown
    networks = {one.name: str(one.place) for one in shown.results.trainings}
    about: dict[str, Any] = {"page": str(published.page), "files": [str(path) for path in published.files]}
    about |= {"networks": networks, "seconds": published.seconds, "records": records(shown.results)}

    def text() -> None:
        if shown.metrics:
            show_grid(*table(shown))
        say(*summary(shown), *(f"network {name}: {directory}" for name, directory in networks.items()))
        size = published.page.stat().st_size / 1e6
        print(f"\n{published.page}\n{size:.1f} MB, {published.seconds:.0f} s; open it in any browser.")

    cards = shown.view.cards(shown.results, shown.state)
    return Answer(about | {"sentences": [f"{number}: {words}" for number, words in cards]}, text)


def say(*lines: str) -> None:
    """Print lines that may hold names from users, with control characters escaped."""
    for line in lines:
        print(plain(line))
