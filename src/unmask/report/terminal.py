"""The verdict in a terminal, and plots of characters with a bar per setting."""

from __future__ import annotations

from collections.abc import Iterator

from unmask.report.explorer.chosen import pace, rows, value_text
from unmask.report.explorer.fragment import Explorer, grid
from unmask.report.explorer.metrics import METRICS
from unmask.report.results import Point

WIDE = 32  # characters of a bar
EIGHTHS = " ▏▎▍▌▋▊▉█"


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


def lines(explorer: Explorer) -> Iterator[str]:
    """The summary, and the chosen metric of each language by setting."""
    yield from summary(explorer)
    if not explorer.metrics:
        return
    state = explorer.state
    metric = METRICS[state["metric"]]
    points = rows(explorer.results.points, state, metric.measures, ("of",))
    most = max((point["value"] for point in points), default=0.0)
    least = 0.0 if metric.share else min((point["value"] for point in points), default=0.0)
    yield f"\n{metric.title}"
    for name in dict.fromkeys(point["of"] for point in points):
        own = [point for point in points if point["of"] == name]
        yield f"\n{name}"
        for point in sorted(own, key=lambda p: (p["kind"] != "mdm", p["steps"] or 0, p["model_calls"] or 0)):
            part = (point["value"] - least) / (most - least) if most > least else 0.0
            yield f"{_label(point):>16} {bar(part):<{WIDE}} {value_text(point, metric)}"


def bar(part: float) -> str:
    """A fraction of the width, to an eighth of a character."""
    eighths = round(8 * WIDE * min(max(part, 0.0), 1.0))
    return "█" * (eighths // 8) + (EIGHTHS[eighths % 8] if eighths % 8 else "")


def _label(point: Point) -> str:
    return {"ar": "AR", "text": "the text"}.get(point["kind"]) or pace(point)
