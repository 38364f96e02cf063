"""A figure of the explorer: its rows, its drawing, and its colours, the same in every figure of a page.

A definition reads one data set, `rows`, and the parameters of `framed`; it contains no data. A page draws it with the
rows of its first state, and explorer.js draws it again with the rows of another state.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from pkgutil import iter_modules
from typing import Any

import altair as alt

from unmask.report import frame
from unmask.report.frame import COLOURS, GREY, INK, Definition
from unmask.report.results import IDEAL, TRAINED, Results

Row = dict[str, Any]
WIDTH, HEIGHT = 520, 320
LABEL = 15  # pixels from one name beside a line to the next
MARGIN = 0.05  # fraction of an axis, at each end
NAMES = 0.38  # fraction of a logarithmic axis, for names at its right end
ROWS = alt.NamedData("rows")
TOOLTIP = {"series": "line", "shown": "value", "setting": "setting", "cost": "model calls", "sample": "measured on"}

COMMON = ("paper-2gram", "paper-3gram", "paper-4gram", "sparse-hmm", "interval-5")  # the same on every page
PALETTE = COLOURS[:-1]  # for values without a colour of their own; grey is for references
FEW = (*PALETTE, "#cc3311", "#33bbee", "#997700", "#994455")  # of few samplers, one each
ORACLES = ("best-order",)  # uses the true language
BY_PACE = ("localleap", "deferred", "multi-block", "klass", "settled")
REPAIRS = ("wino", "token-editing", "p2")
KINDS = {  # of many samplers, one per kind
    "#0077bb": ("ancestral", "fixed-size", "first-hitting", "blocks", "as-published-mdlm"),
    "#009988": ("left-to-right", "strided", "dyadic", "block-strided", "dilated"),
    "#ee3377": ("low-confidence", "top-probability", "margin", "entropy"),
    "#ee7733": ("threshold", "factor", "entropy-bounded", "entropy-sum", *BY_PACE),
    "#8c6bb1": ("remdm", "gibbs", "verify-and-restart", *REPAIRS),
    "#33bbee": ("uniform-ancestral", "uniform-corrector", "renoise"),
    GREY: ("speculative", "self-speculative", *ORACLES, "autoregressive"),
}
OWN = "#bb5566"  # of any other sampler


@dataclass(frozen=True)
class Figure:
    """One figure. Its rows are its `own`, or come from a function of prepare.py, which explorer.js has, too."""

    name: str
    place: int  # pages show figures in this order
    title: str
    under: str
    draw: Callable[[Results], alt.TopLevelMixin]
    caption: str = ""
    own: Callable[[Results], list[Row]] | None = None  # a figure that has no points
    prepare: str = "plain"
    options: dict[str, Any] = field(default_factory=dict)  # of prepare
    needs: Callable[[Results], bool] = lambda results: True  # whether it has data
    wide: bool = False  # the whole width of the page
    usual: bool = True  # on every page that has data for it; otherwise only on a view that names it


def framed(rows: Sequence[Row], least: float | None) -> dict[str, float]:
    """The ends of the axes around all rows, with space on the right for names, and the distance of names."""
    values = [value for row in rows for value in (row["value"], row.get("low"), row.get("high")) if value is not None]
    low, high = (min(values), max(values)) if values else (0.0, 1.0)
    margin = MARGIN * (high - low) or 0.5
    low, high = (least if least is not None else low - margin), high + margin
    across = [row["place"] for row in rows if row["place"]] or [1.0]
    left, right = min(across), max(across)
    span = max(right / left, 2.0)
    left, right = left / span**MARGIN, right * span**NAMES
    gap = (high - low) * LABEL / HEIGHT
    return {"low": low, "high": high, "left": left, "right": right, "gap": gap}


def parameters() -> list[Any]:
    """The values of `framed`, the target, and whether the metric is a fraction."""
    numbers = [alt.param(name=name, value=0.0) for name in ("low", "high", "left", "right", "gap", "target")]
    return [*numbers, alt.param(name="share", value=False)]


def layered(*layers: Any, width: int = WIDTH, height: int = HEIGHT) -> Any:
    """The drawing of a figure, with its parameters."""
    return alt.layer(*layers).add_params(*parameters()).properties(width=width, height=height)


def names(chart: alt.Chart, colour: Any) -> alt.Chart:
    """The name of each line at its row with `end`, pushed up from the name below."""
    return (
        chart.transform_filter("datum.end")
        .transform_window(rank="row_number()", sort=[alt.SortField("value")])
        .transform_calculate(bare="datum.value - datum.rank * gap")
        .transform_window(top="max(bare)", sort=[alt.SortField("value")], frame=[None, 0])
        .transform_calculate(beside="datum.top + datum.rank * gap")
        .mark_text(align="left", dx=8, dy=-9, fontSize=12, baseline="middle")
        .encode(y=alt.Y("beside:Q"), text="series:N", color=colour, opacity=emphasis())
    )


def size() -> alt.Chart:
    """The sequence length of the rows, in a corner."""
    words = alt.Chart(ROWS).transform_aggregate(size="min(size)").mark_text(align="right", fontSize=12, color=INK)
    return words.encode(x=alt.value("width"), y=alt.value(-9), text="size:N")


def across() -> alt.Chart:
    """The title of an x axis that depends on the chosen cost; the rows contain it."""
    words = alt.Chart(ROWS).transform_aggregate(across="min(across)")
    words = words.mark_text(align="right", dy=36, fontSize=12, color=INK)
    return words.encode(x=alt.value("width"), y=alt.value("height"), text="across:N")


def emphasis() -> Any:
    return alt.condition("datum.chosen", alt.value(1.0), alt.value(0.85))


def axis_of_value(title: str | None = None) -> alt.Y:
    """In percent if the metric is a fraction."""
    form = "share ? format(datum.value, '.0%') : format(datum.value, '.4~g')"
    y = alt.Y("value:Q", title=title, axis=alt.Axis(labelExpr=form, tickCount=6))
    return y.scale(domain=[alt.ExprRef("low"), alt.ExprRef("high")], nice=False, zero=False)


def tooltip(titles: Mapping[str, str] = TOOLTIP) -> list[alt.Tooltip]:
    return [alt.Tooltip(f"{name}:N", title=title) for name, title in titles.items()]


def defined(chart: alt.TopLevelMixin) -> Definition:
    """The definition of a chart, unchecked: checking the schema takes longer than drawing."""
    return chart.to_dict(validate=False) | {"config": frame.look()}


@cache
def figures() -> list[Figure]:
    """The figures of all modules of `figures`, in the order of a page."""
    package = import_module("unmask.report.explorer.figures")
    modules = [import_module(f"{package.__name__}.{module.name}") for module in iter_modules(package.__path__)]
    return sorted((one for module in modules for one in module.FIGURES), key=lambda figure: figure.place)


def filled(definition: Definition, rows: Sequence[Row], values: dict[str, Any]) -> Definition:
    """A definition with the rows and parameters of a state."""
    params = [{**one, "value": values.get(one["name"], one.get("value"))} for one in definition["params"]]
    return definition | {"datasets": {"rows": list(rows)}, "params": params}


def bare(specification: str) -> str:
    """A sampler's name without its options."""
    return specification.partition("(")[0]


def colour(sampler: str) -> str:
    """The colour of a sampler's kind."""
    return next((colour for colour, names in KINDS.items() if bare(sampler) in names), OWN)


def looks(results: Results, by: str) -> dict[str, str]:
    """Colours of a control's values: black is exact, grey a reference."""
    values = results.choices(by)
    if by == "sampler":
        own = [value for value in values if bare(value) not in (*ORACLES, "autoregressive")]
        few = dict(zip(own, FEW, strict=False)) if len(own) <= len(FEW) else {}
        return {value: few.get(value) or colour(value) for value in values}
    if by == "model":
        fixed = {IDEAL: INK, TRAINED: COLOURS[2]}
        others = [value for value in values if value not in fixed]
        return fixed | {value: COLOURS[number % len(COLOURS)] for number, value in enumerate(others)}
    ordered = [value for value in COMMON if value in values] + [value for value in values if value not in COMMON]
    fixed = {value: COLOURS[number] for number, value in enumerate(COMMON)}
    return {value: fixed.get(value) or PALETTE[number % len(PALETTE)] for number, value in enumerate(ordered)}


def colours(results: Results, by: str) -> Any:
    values = looks(results, by)
    return alt.Color("series:N", legend=None).scale(domain=list(values), range=list(values.values()))
