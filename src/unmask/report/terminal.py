"""The same verdict in a terminal, and small plots in characters: a bar a number of rounds."""

from __future__ import annotations

from collections.abc import Iterator

from unmask.report.explorer.chosen import rounds, rows
from unmask.report.explorer.fragment import Explorer, told
from unmask.report.explorer.yardsticks import YARDSTICKS
from unmask.report.results import Point

WIDE = 32  # characters of a bar
EIGHTHS = " ▏▎▍▌▋▊▉█"


def lines(explorer: Explorer) -> Iterator[str]:
    """The sentence, its numbers, and of each language the chosen yardstick by rounds."""
    if not explorer.yardsticks:
        yield "Nothing was measured yet."
        return
    said, state = explorer.verdict, explorer.state
    yield said.sentence
    for number, what in said.numbers:
        yield f"  {number}: {what}"
    yardstick = YARDSTICKS[state["metric"]]
    points = rows(explorer.results.points, state, yardstick.measures, ("of",))
    most = max((point["value"] for point in points), default=0.0)
    least = 0.0 if yardstick.share else min((point["value"] for point in points), default=0.0)
    yield f"\n{yardstick.title}"
    for name in dict.fromkeys(point["of"] for point in points):
        own = [point for point in points if point["of"] == name]
        yield f"\n{name}"
        for point in sorted(own, key=lambda p: (p["kind"] == "ar", p["steps"] or 0, p["evaluations"] or 0)):
            part = (point["value"] - least) / (most - least) if most > least else 0.0
            yield f"{_label(point):>16} {bar(part):<{WIDE}} {told(point, yardstick)}"


def bar(part: float) -> str:
    """A share of the width, to an eighth of a character."""
    eighths = round(8 * WIDE * min(max(part, 0.0), 1.0))
    return "█" * (eighths // 8) + (EIGHTHS[eighths % 8] if eighths % 8 else "")


def _label(point: Point) -> str:
    return "AR" if point["kind"] == "ar" else point["knob"] or rounds(point)
