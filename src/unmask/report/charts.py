"""The parts of figures, and their files.

A control is a <select> of the page, to which every figure binds a parameter; a click on a point sets it, too. A figure
has some drawings, each for some choices: its rows have the number `k` of their drawing, and `now` is the one on view.
Colours are variables of the page's style, so that a drawing follows the light and dark scheme.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import chain, cycle, islice, starmap
from operator import add, itemgetter
from statistics import fmean
from typing import Any, NamedTuple

import numpy as np

from unmask.core import entries
from unmask.core.errors import UnmaskError, cut, needed
from unmask.core.estimates import Estimate
from unmask.experiments.tables import csv_of
from unmask.report.results import AR, ENDS, IDEAL, Point
from unmask.report.select import Fields, column, different, indexed, where
from unmask.report.verdict import Shown, pace, usable

with needed("pages", "a figure"):
    import altair as alt
    import vl_convert

Row = dict[str, Any]
Limits = tuple[Sequence[float], Sequence[float]]  # the ends of an axis in each drawing
Choice = tuple[str, int]  # the values of the controls of language ("all", or a number) and setting
Definition = dict[str, Any]  # of a figure, as Vega-Lite reads it
LIGHT = ("#0077bb", "#009988", "#ee3377", "#ee7733", "#8c6bb1", "#997700", "#cc3311", "#33bbee", "#994455")
DARK = ("#4db3f0", "#2cc7b4", "#ff70a0", "#ff9d5c", "#b99be0", "#cfae3c", "#ff7a5e", "#8adcff", "#dd8899")
PAPER, SOFT, ACCENT = "var(--paper)", "var(--soft)", "var(--accent)"
HUES = list(map("var(--c{})".format, range(len(LIGHT))))  # each is one of LIGHT or of DARK, by the scheme
FIXED = {PAPER: "#ffffff", SOFT: "#59636f", ACCENT: "#0069a6"} | dict(zip(HUES, LIGHT, strict=True))
INK = "currentColor"
FONTS = "system-ui, Segoe UI, Helvetica, Arial, sans-serif"  # some programs have no system-ui
WIDTH, HEIGHT, LINE = 590, 250, 16  # pixels; the last: from one name beside a line to the next
EARLY = 0.6  # a line that ends before this part of the axis has its name above it, not beside the plot
MARGIN = 0.05  # fraction of an axis, at each end
TALK = 3  # figures for slides
COMMON = ("paper-2gram", "paper-3gram", "paper-4gram", "sparse-hmm", "interval-5")  # the same colours on every page
DOTS, DASHES = [2, 3], [6, 4]
SHORT: dict[type, Callable[[Any], Any]] = {float: "{:.6g}".format, bool: int, type(None): lambda _: ""}  # in CSV
LOG: dict[bool, tuple[Callable[[float], float], ...]] = {  # to the scale of an axis, and back
    False: (float, float),
    True: (math.log, math.exp),
}
LOOK: dict[str, Any] = {
    "axis": {
        **dict.fromkeys(("labelColor", "titleColor", "gridColor", "domainColor", "tickColor"), INK),
        "gridOpacity": 0.12,
        "domainOpacity": 0.4,
        "tickOpacity": 0.4,
        "titleFontWeight": "normal",
        "labelFontSize": 12,
        "titleFontSize": 12,
        "aria": False,
    },
    "legend": {
        "aria": False,
        "labelColor": INK,
        "labelFontSize": 12,
        "labelLimit": 400,
        "title": None,
        "symbolOpacity": 1,
    },
    "view": {"stroke": None},
    "mark": {"aria": False},
    "font": FONTS,
    "background": "transparent",
}


class Sentence(NamedTuple):
    """A sentence on a figure."""

    words: str
    choices: Sequence[Choice] | None = None  # that it is about; None: all
    metric: str = ""


@dataclass(frozen=True)
class Drawn:
    """A figure with its words."""

    title: str
    under: str
    definition: Definition
    rows: list[Row]
    sentences: list[Sentence] = field(default_factory=list)
    caption: str = ""


@dataclass(frozen=True)
class Keys:
    """Which of the drawings is on view: a number for each choice of language and setting."""

    shown: Shown
    values: Sequence[Fields]
    numbers: Mapping[Choice, int]

    @classmethod
    def of(cls, shown: Shown, values: Sequence[Fields], first: int = 0) -> Keys:
        return cls(shown, values, entries.mapped(partial(add, first), shown.nearest(values)))

    def now(self, at: str = "at") -> list[alt.Parameter]:
        """The controls and the number of the drawing; at: the signal of the setting."""
        language = [control("language", self.shown.language)] if self.by_language else []
        setting = [control("at", str(self.shown.at))] if at == "at" else []
        return [*language, *setting, alt.param(name="now", expr=self.table(at))]

    @property
    def by_language(self) -> bool:
        return "of" in chain.from_iterable(self.values)

    def table(self, at: str = "at") -> str:
        every: dict[str, list[int]] = {}
        for (language, _), number in self.numbers.items():
            every.setdefault(language, []).append(number)
        if self.by_language:
            return f"({json.dumps(every)})[language][+{at}]"
        return f"({json.dumps(every['all'])})[+{at}]"

    def choices(self, number: int) -> list[Choice]:
        """The choices that show a drawing."""
        return [choice for choice, own in self.numbers.items() if own == number]

    def sentences(self, rows: Iterable[Row], describe: Callable[[Fields, list[Row]], str]) -> list[Sentence]:
        """The sentence on each drawing, made from its values and its rows; an empty one is left out."""
        every = []
        for k, own in enumerate(by_drawing(rows, len(self.values))):
            if words := describe(self.values[k], own):
                every.append(Sentence(words, self.choices(k)))
        return every


def control(name: str, value: str) -> alt.Parameter:
    return alt.param(name=name, value=value, bind=alt.BindDirect(element=f"#{name}", event="input"))


def picked(name: str, field: str, value: str) -> alt.Parameter:
    """A control that a click on a point sets, for every figure of the page. Its value: the signal NAME_FIELD."""
    bound = {field: alt.BindDirect(element=f"#{name}", event="input")}
    more: dict[str, Any] = {"on": "symbol:click", "clear": False, "value": [{field: value}], "bind": bound}
    return alt.selection_point(name=name, fields=[field], **more)


def row(shown: Shown, point: Point, k: int, series: str, x: Any, **more: Any) -> Row:
    """A point of a line."""
    calls = point["model_calls"]

    return entries.picked(point, ENDS) | {
        "k": k,
        "l": str(shown.languages.index(point["of"])),
        "series": series,
        "name": series,
        "x": x,
        "said": str(Estimate.of_record(point)),
        "pace": "AR" if point["kind"] == "ar" else pace(point),
        "cost": "" if calls is None else f"{calls:.4g}",
        "n": f"{point['n']} sequences" if point["n"] else "theory",
        "kind": point["kind"],
        **more,
    }


def clauses(parts: Mapping[str, Any]) -> str:
    """The parts of a sentence: "name: words; name: words"."""
    return "; ".join(starmap("{}: {}".format, parts.items()))


def base(rows: Sequence[Row], keyed: bool = True) -> alt.Chart:
    """A layer of rows: those of the drawing on view. They are CSV, a third of JSON; numbers have six digits."""
    words = {name for row in rows for name, value in row.items() if isinstance(value, str)}
    numbers = entries.without(dict.fromkeys(chain.from_iterable(rows), "number"), words)
    text = csv_of(list(map(short, rows)))
    chart = alt.Chart(alt.InlineData(values=text, format={"type": "csv", "parse": numbers}))
    return chart.transform_filter("datum.k == now") if keyed else chart


def short(row: Row) -> dict[str, str | int]:
    """The values as CSV writes them."""
    return {name: SHORT.get(type(value), str)(value) for name, value in row.items()}


def by_drawing(rows: Iterable[Row], count: int) -> list[list[Row]]:
    """The rows of each drawing."""
    own = entries.grouped(rows, itemgetter("k"))
    return [own.get(k, []) for k in range(count)]


def each(values: Sequence[Any]) -> alt.ExprRef:
    """The value of the drawing on view."""
    return alt.ExprRef(f"({json.dumps(values)})[now]")


def framed(rows: Sequence[Row], count: int, least: float | None = None) -> Limits:
    """(low, high): the ends of the y axis of each drawing, around its rows."""
    lows, highs = [], []
    for own in by_drawing(rows, count):
        known = entries.present(chain.from_iterable(map(itemgetter(*ENDS), own)))
        high = max(known, default=1.0)
        low = entries.chosen(least, min(known, default=0.0))
        margin = MARGIN * (high - low) or 0.5
        lows.append(entries.chosen(least, low - margin))
        highs.append(high + margin)
    return lows, highs


def between(lows: Sequence[float], highs: Sequence[float], **more: Any) -> alt.Scale:
    return alt.Scale(domain=[each(lows), each(highs)], nice=False, **more)


def spread(values: Sequence[float], gap: float, least: float = -math.inf) -> list[float]:
    """The same values at least a gap apart: those that would touch are centred on their mean."""
    order = np.argsort(values, kind="stable")
    gaps = gap * np.arange(len(values))

    # Without the gaps, no place may be below the one before it: isotonic regression, which pools such neighbours.
    blocks: list[list[float]] = []
    for one in np.array(values)[order] - gaps:
        blocks.append([one])
        while len(blocks) > 1 and blocks[-1][0] < blocks[-2][0]:
            pooled = blocks.pop() + blocks.pop()
            blocks.append([fmean(pooled)] * len(pooled))

    places = np.empty(len(values))
    places[order] = list(chain.from_iterable(blocks)) + gaps
    lift = max(0.0, least - places.min(initial=math.inf))
    return list((places + lift).tolist())


def ends(rows: Sequence[Row], limits: Limits, x: alt.X, y: alt.Y, log: bool = False, **look: Any) -> Any:
    """The name of each line at its end: beside the plot, or above the last point of a line that ends much earlier."""
    to, back = LOG[log]

    named = []
    for own, bottom, top in zip(by_drawing(rows, len(limits[0])), *limits, strict=True):
        last = indexed(sorted(own, key=itemgetter("x")), "series").values()
        edge = EARLY * max(column(last, "x"), default=0)
        late = [row for row in last if row["x"] >= edge]

        low, high = to(bottom), to(top)
        places = spread(list(map(to, column(late, "value"))), (high - low) * LINE / HEIGHT, low)
        for row, place in zip(late, places, strict=True):
            named.append(row | {"beside": back(place), "edge": True})
        named += [row | {"beside": row["value"], "edge": False} for row in last if row["x"] < edge]

    names = base(named, not log).encode(y=on(y, "beside"), text="name:N", **look)
    layers = [
        names.transform_filter("datum.edge").mark_text(align="left", dx=9, fontSize=12).encode(x=alt.value("width"))
    ]
    if where(named, edge=False):  # a layer without rows is a warning
        layers.append(names.transform_filter("!datum.edge").mark_text(align="right", dx=-5, dy=-11).encode(x=x))

    return alt.layer(*layers)


def colour(shown: Shown, names: Iterable[str], field: str = "series", legend: alt.Legend | None = None) -> Any:
    """A colour for each name, the same in all figures of a page: the ink for exact values, grey for references."""
    names, samplers = list(dict.fromkeys(names)), shown.results.choices("sampler")
    languages = sorted(shown.languages, key=lambda of: (*COMMON, of).index(of))  # the common ones first
    every = next(own for own in (languages, samplers, names) if set(names) <= {*own, AR})
    known = [name for name in every if usable(name) and name not in (IDEAL, AR)]
    hues = dict(zip(known, cycle(HUES), strict=False)) | {IDEAL: INK, AR: INK}
    shades = dict.fromkeys(names, SOFT) | entries.picked(hues, names)
    return alt.Color(f"{field}:N", legend=legend).scale(domain=names, range=list(shades.values()))


def below(columns: int = 4) -> alt.Legend:
    """A legend below a figure."""
    narrow = alt.ExprRef(f"width < 500 ? {min(2, columns)} : {columns}")
    return alt.Legend(orient="bottom", direction="horizontal", columns=narrow)


def bright(test: str, low: float, high: float = 1.0) -> Any:
    return alt.when(test).then(alt.value(high)).otherwise(alt.value(low))


def here(rows: Sequence[Row], low: float = 0.22) -> Any:
    """Fainter if another language that has rows is chosen."""
    others = f"indexof({json.dumps(sorted(different(rows, 'l')))}, language_l) < 0"
    return bright(f"{others} || !datum.l || datum.l == language_l", low)


def tips(series: str, **more: str) -> list[alt.Tooltip]:
    names = {"series": series, "said": "value", "pace": "setting", "cost": "model calls", "n": "measured on"} | more
    return [alt.Tooltip(f"{name}:N", title=title) for name, title in names.items() if title]


def across(title: str, log: bool = True, scale: alt.Scale | None = None, **axis: Any) -> alt.X:
    look: dict[str, Any] = {"grid": False, "labelOverlap": "greedy", "labelFlush": False, "labelSeparation": 6}
    x = alt.X("x:Q", title=title, axis=alt.Axis(**look | {"format": "~g"} | axis))
    return x.scale(scale or alt.Scale(type="log" if log else "linear", nice=False, padding=14))


def up(title: str | None, share: bool = False, log: bool = False, scale: alt.Scale | None = None) -> alt.Y:
    y = alt.Y("value:Q", title=title, axis=alt.Axis(format="~%" if share else "~g", tickCount=6))
    usual = alt.Scale(type="log", nice=False, padding=10) if log else alt.Scale(zero=False, nice=False, padding=10)
    return y.scale(scale or usual)


def on(y: alt.Y, field: str) -> alt.Y:
    """The same axis for another field."""
    other = y.copy()
    other.shorthand = f"{field}:Q"
    return other


def bars(chart: alt.Chart, x: alt.X, y: alt.Y, **more: Any) -> alt.Chart:
    """Intervals."""
    return (
        chart.transform_filter("datum.high > datum.low")
        .mark_rule(strokeWidth=1.5)
        .encode(x=x, y=on(y, "low"), y2="high:Q", **more)
    )


def dots(chart: alt.Chart, size: int = 46, **more: Any) -> alt.Chart:
    """Points that screen readers read and that can be clicked."""
    return chart.mark_point(aria=True, filled=True, size=size, cursor="pointer", **more)


def lined(
    chart: alt.Chart, x: alt.X, y: alt.Y, tooltip: Sequence[alt.Tooltip], look: Mapping[str, Any], **line: Any
) -> list[Any]:
    """Points with their intervals, joined by lines."""
    return [
        chart.mark_line(strokeWidth=2).encode(x=x, y=y, **line, **look),
        bars(chart, x, y, **look),
        dots(chart, 60).encode(x=x, y=y, tooltip=tooltip, **look),
    ]


def dotted(chart: alt.Chart) -> alt.Chart:
    return chart.mark_rule(color=INK, strokeDash=DOTS, opacity=0.7)


def word(chart: alt.Chart, **more: Any) -> Any:
    """Text with a margin that covers lines."""
    text: dict[str, Any] = {"fontSize": 12} | more
    return alt.layer(chart.mark_text(stroke=PAPER, strokeWidth=5, **text), chart.mark_text(color=INK, **text))


def finished(layers: Sequence[Any], words: str, *parameters: alt.Parameter, height: int = HEIGHT) -> Definition:
    """The definition of a figure: as wide as the page allows, in our style. words: its name for screen readers."""
    size = {"width": "container", "height": height, "autosize": {"type": "fit-x", "contains": "padding"}}
    embed = {"embedOptions": {"renderer": "svg", "actions": False}}
    chart = alt.layer(*layers).add_params(*parameters).properties(**size, description=words, usermeta=embed)
    with alt.data_transformers.disable_max_rows():
        return dict(chart.configure(**LOOK).to_dict(validate=False))  # tests check the schema


def svg(definition: Definition) -> str:
    try:
        return str(vl_convert.vegalite_to_svg(definition))
    except BaseException as error:  # a panic of Rust is not an Exception; later calls are cancelled
        usual = isinstance(error, Exception) and "canceled" not in str(error)
        if usual or isinstance(error, KeyboardInterrupt | SystemExit):
            raise
        raise UnmaskError(
            f"vl-convert panicked: {cut(str(error))}", "expected free file descriptors", "Raise their limit (ulimit -n)"
        ) from error


def fixed(definition: Definition) -> Definition:
    """In the colours of a light page, for a drawing without one."""
    text = json.dumps(definition)
    for name, hue in FIXED.items():
        text = text.replace(name, hue)
    return dict(json.loads(text))


def alone(drawn: Drawn, width: int = WIDTH) -> Definition:
    """For a file without a page: with a title, on white."""
    title = {"text": drawn.title, "subtitle": drawn.under, "anchor": "start", "fontSize": 16, "subtitleFontSize": 12}
    return fixed(drawn.definition) | {"width": width, "background": "white", "title": title | {"offset": 12}}


def for_talk(figures: Mapping[str, Drawn]) -> dict[str, bytes]:
    """NAME.svg of the first figures."""
    return {f"{name}.svg": svg(alone(one)).encode() for name, one in islice(figures.items(), TALK)}


Maker = Callable[[Shown], Drawn | None]  # None: no data
