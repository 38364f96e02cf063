"""Metrics with their titles, directions and targets, and the words of a page in a file of views.

A view begins with YAML, the fields of `View`. The text is HTML in three parts: the head, the cards, and the notes at
the end. A card is one of the messages of the page, with numbers of the points; the page omits it if one is missing:

    {ser steps=64}                  the range of a measure over all languages that match the first state of the page
    {ser.steps kind=ar length=min}  the range of another field of these points
    {ter.excess steps=max}          the largest value, in percent above 1
    {steps setting=ser=0.1}         of one setting; the value of a condition may contain =
"""

from __future__ import annotations

import html
import re
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from importlib.resources import files
from typing import Any

import msgspec

from unmask.core.reading import from_yaml
from unmask.report.results import Point, Results
from unmask.report.select import column, having, matching

QUERY = re.compile(r"\{(\w+)(?:\.(\w+))?((?: \w+=[^ }]+)*)\}")
EXTREMES: dict[str, Callable[[list[Any]], Any]] = {"min": min, "max": max}  # of the values of a condition
CARD = re.compile(r"(?s)<li><strong>(.*?)</strong>\s*(.*?)</li>")
Card = tuple[str, str]  # a number and its meaning


@dataclass(frozen=True)
class Metric:
    name: str
    title: str
    under: str  # definition and direction
    measures: tuple[str, ...]  # those of a store, the preferred one first
    targets: tuple[float, ...] = ()  # of its control; none: a value near the best measured one
    target: float | None = None  # the first one
    short: str = ""  # in a sentence; the title if empty
    share: bool = False  # a fraction, shown in percent
    rises: bool = False  # larger is better
    predicted: str = ""  # the measure that theory computes for it
    least: float | None = None  # where its axis begins

    @property
    def words(self) -> str:
        return self.short or self.title[0].lower() + self.title[1:]

    def shown(self, value: float) -> str:
        if self.share:
            return f"{100 * value:.3g}%"
        return "almost 0" if 0 < abs(value) < ALMOST else f"{value:.4g}"


ALMOST = 1e-4  # below, a number of this page is not told from 0
LISTED = tomllib.loads(files("unmask.report").joinpath("metrics.toml").read_text("utf-8"))["metrics"]
METRICS = dict(zip(column(LISTED, "name"), msgspec.convert(LISTED, list[Metric]), strict=True))
SER = METRICS["ser"]


@dataclass(frozen=True)
class View:
    """The defaults are those of `unmask report`."""

    figures: tuple[str, ...] = ()  # in their order; default: all with data
    state: Mapping[str, Any] = field(default_factory=dict)  # the first choices, where they have data
    name: str = "report"
    play: Mapping[str, Any] = field(default_factory=dict)  # arguments of `play`: a player below the figures

    @property
    def parts(self) -> tuple[str, str, str]:
        """(head, cards, notes)"""
        head, _, rest = _read(self.name)[1].partition("<!-- cards -->\n")
        cards, _, notes = rest.partition("<!-- notes -->\n")
        return head, cards, notes

    def cards(self, results: Results, state: Mapping[str, Any]) -> list[Card]:
        """The cards whose numbers exist."""
        cards = []
        for parts in CARD.findall(self.parts[1]):
            number, words = map(partial(_filled, results=results, state=state), parts)
            if number and words:
                cards.append((number, " ".join(words.split())))
        return cards

    def notes(self, results: Results, state: Mapping[str, Any]) -> str:
        """The notes, without rows of tables whose numbers are missing."""
        return re.sub("(?s)<tr.*?</tr>", lambda row: _filled(row[0], results, state), self.parts[2])


def saved(name: str) -> View:
    """The view of views/NAME.html."""
    view: View = from_yaml(_read(name)[0], View, name)
    return replace(view, name=name)


def _read(name: str) -> tuple[str, str]:
    """(settings, words)"""
    text = files("unmask.report").joinpath(f"views/{name}.html").read_text("utf-8")
    settings, _, words = text.partition("<!-- words -->\n")
    return settings, words


def _filled(text: str, results: Results, state: Mapping[str, Any]) -> str:
    """The text with its numbers; empty if one is missing."""
    for match in reversed(list(QUERY.finditer(text))):
        if not (number := _range(match, results, state)):
            return ""
        text = text[: match.start()] + number + text[match.end() :]
    return html.unescape(text)


def _range(match: re.Match[str], results: Results, state: Mapping[str, Any]) -> str:
    name, field, conditions = match[1], match[2] or "value", dict(re.findall(r"(\w+)=(\S+)", match[3]))
    metric = METRICS.get(name)
    measures = metric.measures if metric else (name,)

    points = matching(results.of(*measures), state, ("of", "model", *conditions))
    points = [point for point in points if point["steps"] != 0]
    for key, value in ({"kind": "mdm"} | conditions).items():
        values = column(having(points, key), key)
        if value in EXTREMES and values:
            value = str(EXTREMES[value](values))
        points = [point for point in points if str(point[key]) == value]

    return _span(points, field, metric is not None and metric.share) if points else ""


def _span(points: Sequence[Point], field: str, share: bool) -> str:
    if field == "excess":
        return f"{100 * (max(column(points, 'value')) - 1):.2g}%"

    values = column(points, field)
    least, most = min(values), max(values)
    form = "{:.3g}" if field == "value" and values[0] < 100 else "{:.4g}"
    if field == "value" and share:
        limit = max(column(having(points, "high"), "high"), default=0.0)
        if limit and not any(values):
            return f"< {100 * limit:.2g}%"
        least, most, form = 100 * least, 100 * most, "{:.3g}%"
    low, high = form.format(least), form.format(most)
    if least == 0 and low != high:
        return f"up to {high}"
    return low if low == high else f"{low} to {high}"
