"""What a figure of the explorer is: which rows it is made of, and how they are drawn.

A definition reads one data set, `rows`, and the parameters of `Frame`; it holds no data itself. So the same definition
is a drawing with the rows that a page begins with, and answers to the controls with those of another choice.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from pkgutil import iter_modules
from typing import Any

import altair as alt

from unmask.report import frame
from unmask.report.frame import Definition
from unmask.report.results import Results

Row = dict[str, Any]
WIDTH, HEIGHT = 520, 320
LABEL = 15  # pixels from one name beside a line to the next
ROOM = 0.05  # of what an axis shows, at its ends
NAMES = 0.38  # of the logarithms that an axis shows, for names at its right end
ROWS = alt.NamedData("rows")


@dataclass(frozen=True)
class Figure:
    """One figure: its place on a page, words, drawing, and rows.

    Its rows are its `own`, or come from a function of prepare.py, which explorer.js has, too.
    """

    name: str
    place: int  # pages show figures in this order
    title: str
    under: str
    draw: Callable[[Results], alt.TopLevelMixin]
    caption: str = ""
    own: Callable[[Results], list[Row]] | None = None
    prepare: str = "plain"
    options: dict[str, Any] = field(default_factory=dict)  # of prepare
    needs: Callable[[Results], bool] = lambda results: True  # whether there is data; of its own, more than one row
    wide: bool = False  # the whole width of the page
    usual: bool = True  # on every page that has data for it; otherwise only on a view that names it


@dataclass(frozen=True)
class Frame:
    """Where axes end, and how far names are apart: parameters of a definition that depend on its rows."""

    low: float
    high: float
    left: float
    right: float
    gap: float


def framed(rows: Sequence[Row], least: float | None) -> Frame:
    """Around all rows, with room on the right for names."""
    seen = [value for row in rows for value in (row["value"], row.get("low"), row.get("high")) if value is not None]
    low, high = (min(seen), max(seen)) if seen else (0.0, 1.0)
    room = ROOM * (high - low) or 0.5
    low, high = (least if least is not None else low - room), high + room
    across = [row["place"] for row in rows if row["place"]] or [1.0]
    left, right = min(across), max(across)
    span = max(right / left, 2.0)
    left, right = left / span**ROOM, right * span**NAMES
    return Frame(low, high, left, right, (high - low) * LABEL / HEIGHT)


def parameters() -> list[Any]:
    """Those of Frame, the target, and whether the yardstick is a share, under their names."""
    numbers = [alt.param(name=name, value=0.0) for name in ("low", "high", "left", "right", "gap", "target")]
    return [*numbers, alt.param(name="share", value=False)]


def names(chart: alt.Chart, colour: Any) -> alt.Chart:
    """The name of each line at its right end, pushed up from the one below: what `end` says of a row is where it is."""
    return (
        chart.transform_filter("datum.end")
        .transform_window(rank="row_number()", sort=[alt.SortField("value")])
        .transform_calculate(bare="datum.value - datum.rank * gap")
        .transform_window(top="max(bare)", sort=[alt.SortField("value")], frame=[None, 0])
        .transform_calculate(beside="datum.top + datum.rank * gap")
        .mark_text(align="left", dx=8, dy=-7, fontSize=12, baseline="middle")
        .encode(y=alt.Y("beside:Q"), text="series:N", color=colour, opacity=emphasis())
    )


def size() -> alt.Chart:
    """Of which length rows are, in a corner."""
    words = alt.Chart(ROWS).transform_aggregate(size="min(size)").mark_text(align="right", fontSize=12, color=frame.INK)
    return words.encode(x=alt.value("width"), y=alt.value(8), text="size:N")


def across() -> alt.Chart:
    """The title of an x axis that depends on the chosen cost; its rows have it."""
    words = alt.Chart(ROWS).transform_aggregate(across="min(across)")
    words = words.mark_text(align="right", dy=36, fontSize=12, color=frame.INK)
    return words.encode(x=alt.value("width"), y=alt.value("height"), text="across:N")


def emphasis() -> Any:
    """The chosen line is prominent, the others stay readable."""
    return alt.condition("datum.chosen", alt.value(1.0), alt.value(0.85))


def axis_of_value(title: str | None = None) -> alt.Y:
    """Percent where the yardstick is a share."""
    form = "share ? format(datum.value, '.0%') : format(datum.value, '.4~g')"
    y = alt.Y("value:Q", title=title, axis=alt.Axis(labelExpr=form, tickCount=6))
    return y.scale(domain=[alt.ExprRef("low"), alt.ExprRef("high")], nice=False, zero=False)


TOLD = {"series": "line", "shown": "value", "rounds": "setting", "cost": "model calls", "told": "measured on"}


def tooltip() -> list[alt.Tooltip]:
    return [alt.Tooltip(f"{name}:N", title=title) for name, title in TOLD.items()]


def defined(chart: alt.TopLevelMixin) -> Definition:
    """Quiet axes in the colour of the text; not held against the schema, which takes longer than drawing."""
    return chart.to_dict(validate=False) | {"config": frame.look()}


@cache
def figures() -> list[Figure]:
    """Each module of `figures` has its own."""
    room = import_module("unmask.report.explorer.figures")
    found = [import_module(f"{room.__name__}.{module.name}") for module in iter_modules(room.__path__)]
    return sorted((one for module in found for one in module.FIGURES), key=lambda figure: figure.place)


def filled(definition: Definition, rows: Sequence[Row], values: dict[str, Any]) -> Definition:
    """A definition with the rows and parameters of a state: what can be drawn without a reader."""
    given = [{**one, "value": values.get(one["name"], one.get("value"))} for one in definition["params"]]
    return definition | {"datasets": {"rows": list(rows)}, "params": given}
