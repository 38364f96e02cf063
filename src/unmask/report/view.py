"""A page of ours: a saved view of the explorer, which is its figures, its first state, and its words in a file.

A file of words is HTML in three parts: the head, the cards, and the notes at the end. A card is one of the messages of
the page. It looks up its numbers in the points, and is left out where these do not exist:

    {ser steps=64}                  the range of a metric over all languages that match the first state of the page
    {ser.steps kind=ar length=min}  the range of another field of these points
    {ter.excess steps=max}          the largest value, in percent above 1
"""

from __future__ import annotations

import html
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from typing import Any

from unmask.report.explorer.chosen import State, rows
from unmask.report.explorer.yardsticks import YARDSTICKS, Yardstick
from unmask.report.frame import Sentence
from unmask.report.results import Point, Results

QUERY = re.compile(r"\{(\w+)(?:\.(\w+))?((?: \w+=[^ }]+)*)\}")
CARD = re.compile(r"(?s)<li><strong>(.*?)</strong>\s*(.*?)</li>")


@dataclass(frozen=True)
class View:
    """The defaults are those of `unmask report`: all figures that have data."""

    words: str = "report"  # views/WORDS.html
    figures: Sequence[str] = ()  # the first two stand above the others
    state: Mapping[str, Any] = field(default_factory=dict)  # the first choices, where they have data

    @property
    def parts(self) -> tuple[str, str, str]:
        """(head, cards, notes)"""
        text = files("unmask.report").joinpath(f"views/{self.words}.html").read_text("utf-8")
        head, _, rest = text.partition("<!-- cards -->\n")
        cards, _, notes = rest.partition("<!-- notes -->\n")
        return head, cards, notes

    def cards(self, results: Results, state: State) -> list[Sentence]:
        """Those whose numbers exist."""
        written = [[_filled(part, results, state) for part in card] for card in CARD.findall(self.parts[1])]
        return [Sentence(number, " ".join(said.split())) for number, said in written if number and said]


def _filled(text: str, results: Results, state: State) -> str:
    """The text with its numbers; empty if one is missing."""
    found = [(match, _range(match, results, state)) for match in QUERY.finditer(text)]
    if not all(number for _, number in found):
        return ""
    for match, number in reversed(found):
        text = text[: match.start()] + number + text[match.end() :]
    return html.unescape(text)


def _range(match: re.Match[str], results: Results, state: State) -> str:
    name, wanted, conditions = match[1], match[2] or "value", dict(pair.split("=") for pair in match[3].split())
    yardstick = YARDSTICKS.get(name)
    measures = yardstick.measures if yardstick else (name,)
    found = [p for p in rows(results.points, state, measures, ("of", "model", *conditions)) if p["steps"] != 0]
    for key, value in ({"kind": "mdm"} | conditions).items():
        there = [point[key] for point in found if point[key] is not None]
        if value in ("min", "max") and there:
            value = str((min if value == "min" else max)(there))
        found = [point for point in found if str(point[key]) == value]
    return _span(found, wanted, yardstick) if found else ""


def _span(points: Sequence[Point], wanted: str, yardstick: Yardstick | None) -> str:
    if wanted == "excess":
        return f"{100 * (max(point['value'] for point in points) - 1):.2g}%"
    if wanted == "value" and yardstick and yardstick.share:
        if not any(point["value"] for point in points) and (limit := max(point["high"] or 0.0 for point in points)):
            return f"< {100 * limit:.2g}%"
        values, form = [100 * point["value"] for point in points], "{:.3g}%"
    else:
        values, form = (
            [point[wanted] for point in points],
            "{:.4g}" if wanted != "value" or points[0]["value"] >= 100 else "{:.3g}",
        )
    low, high = form.format(min(values)), form.format(max(values))
    return low if low == high else f"up to {high}" if min(values) == 0 else f"{low} to {high}"
