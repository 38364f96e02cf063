"""Output of commands: text for people, or one JSON object on the last line of stdout for programs."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from unmask.cli.options import Answer, Grid, Printed
from unmask.core.errors import plain
from unmask.core.files import finite
from unmask.core.tables import grid, lines, rows_of

if TYPE_CHECKING:
    from unmask.core.estimates import Estimate
    from unmask.report.publishing import Published


def show(result: Mapping[str, Any], as_json: bool = False, text: Printed | None = None) -> None:
    """Print the result as JSON, or its text; without a text its entries, nested ones named by their path."""
    if as_json:
        print(json.dumps(finite(result), allow_nan=False))
    elif callable(text):
        text()
    else:
        say(*(rows_of(result) if text is None else text))


def say(*text: tuple[str, str] | Grid | str) -> None:
    """Print tables, sentences with control characters escaped, and names with their texts below each other."""
    named: list[tuple[str, str]] = []
    for one in (*text, None):
        if isinstance(one, tuple) and not isinstance(one, Grid):
            named.append(one)
            continue
        if named:
            print("\n".join(lines(named)))
            named = []
        if isinstance(one, Grid):
            print("\n".join([*grid(*one), ""]))
        elif one is not None:
            print(plain(one))


def number(value: float) -> str:
    """Return four significant digits, with separators of thousands."""
    return f"{value:,.0f}" if value >= 1000 else f"{value:.4g}"


def spread(estimate: Estimate, form: str = ".3g") -> str:
    """Return a value with its interval: 1.23 [1.2, 1.26]."""
    return f"{estimate.value:{form}} [{estimate.low:{form}}, {estimate.high:{form}}]"


def answer_of(published: Published[Any]) -> Answer:
    """Return the numbers of a page, its messages and verdict, and the directories of its networks."""
    from unmask.report.publishing import records
    from unmask.report.verdict import summary, table

    shown = published.shown
    networks = {name: str(place) for name, place in shown.results.networks.items()}
    about: dict[str, Any] = {"page": str(published.page), "files": [str(path) for path in published.files]}
    about |= {"networks": networks, "seconds": published.seconds, "records": records(shown.results)}
    cards = shown.view.cards(shown.results, shown.state)
    about |= {"sentences": [f"{number}: {words}" for number, words in cards]}
    text: list[Grid | str] = [Grid(*table(shown))] if shown.metrics else []
    text += [*summary(shown), *(f"network {name}: {directory}" for name, directory in networks.items()), ""]
    size = f"{published.page.stat().st_size / 1e6:.1f} MB, {published.seconds:.0f} s; open it in any browser."
    return Answer(about, [*text, str(published.page), size])
