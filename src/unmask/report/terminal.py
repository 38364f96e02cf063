"""The verdict and the chosen metric in a terminal."""

from __future__ import annotations

from collections.abc import Iterator

from unmask.report.explorer.chosen import value_text
from unmask.report.explorer.fragment import Explorer, grid
from unmask.report.explorer.metrics import METRICS


def summary(explorer: Explorer) -> Iterator[str]:
    """The messages of a page, or its verdict with its numbers."""
    for card in explorer.cards:
        yield f"{card.number}  {card.text}"
    if explorer.metrics:
        yield explorer.verdict.sentence
        for number, meaning in explorer.verdict.numbers:
            yield f"  {number}: {meaning}"
    elif not explorer.cards:
        yield "No data yet."


def table(explorer: Explorer) -> tuple[str, list[str], list[list[str]]]:
    """(title, head, rows) of the chosen metric."""
    metric = METRICS[explorer.state["metric"]]
    columns, cells = grid(explorer.results, explorer.state, metric)
    lines = [
        [sampler, setting, *(value_text(line[c], metric) if c in line else "-" for c in columns)]
        for (sampler, setting), line in cells.items()
    ]
    return metric.title, ["sampler", "setting", *columns], lines
