"""The gap, which needs no ground truth, against the true loss: the divergence from a known language, and errors.

No gap in nats below the binary divergence kl(s || s_1) allows an error rate s, if the same model has s_1 one token at a
time (data processing). Confidence orders stay far below that curve.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import altair as alt
import numpy as np
from scipy.special import rel_entr

from unmask.core.estimates import Estimate
from unmask.report.explorer.figure import ROWS, Figure, Row, colours, layered, tooltip
from unmask.report.frame import INK
from unmask.report.results import IDEAL, Point, Results

ERRORS = {"ser": "SER", "answer_error": "incorrect answers"}
ONE_BY_ONE = "fixed-size"  # the sampler of one token per step
NATS = [0, 0.1, 0.3, 1, 3, 10, 30, 100]
TRUTHS = ("gap_exact_nats", "divergence_nats")  # the better one first
TIPS = {
    "series": "sampler",
    "what": "language",
    "setting": "setting",
    "shown": "gap",
    "beside": "beside",
    "model": "denoiser",
}


def cells(results: Results) -> list[dict[str, Point]]:
    """The points of each cell with a gap, by measure."""
    by_setting: dict[tuple[Any, ...], dict[str, Point]] = {}
    for point in results.points:
        who = tuple(point[name] for name in ("of", "model", "sampler", "length", "steps"))
        by_setting.setdefault(who, {})[point["measure"]] = point
    return [cell for cell in by_setting.values() if "gap_nats" in cell]


def row(cell: dict[str, Point], other: str) -> Row:
    gap, against = cell["gap_nats"], cell[other]
    about = {name: gap[name] for name in ("model", "low", "high")} | {"series": gap["sampler"], "what": gap["of"]}
    about |= {"setting": f"N = {gap['steps']}", "order": gap["steps"], "shown": str(Estimate.of_record(gap))}
    return about | {"across": against["value"], "value": gap["value"], "beside": str(Estimate.of_record(against))}


def divergences(results: Results) -> list[Row]:
    """A row per cell of a known divergence of the rows that the gap has too; sure: whether it is exact."""
    rows = []
    for cell in cells(results):
        same = cell["gap_nats"]["model"] == IDEAL or cell.get("ser", {"value": 0})["value"] == 0
        if same and (known := [name for name in TRUTHS if name in cell]):
            rows.append(row(cell, known[0]) | {"sure": known[0] == TRUTHS[0], "place": None})
    return rows


def errors(results: Results, error: str) -> list[Row]:
    """A row per cell without impossible sequences, whose gap is finite; then the curve of the largest error rate."""
    rows: list[Row] = []
    finite = [c for c in cells(results) if error in c and not c.get("gap_infinite", {"value": 1})["value"]]
    for cell in finite:
        one = row(cell, error)
        ends = {"value": one["across"], "low": cell[error]["low"], "high": cell[error]["high"]}
        rows.append(one | {"of": one["what"], "across": one["value"], "place": None, "part": "point"} | ends)
    for point in results.of(error):
        own = [one["across"] for one in rows if (one["of"], one["model"]) == (point["of"], point["model"])]
        if point["sampler"] == ONE_BY_ONE and own and 0 < point["value"] < 1:
            rates = np.linspace(point["value"], 1, 100)
            nats = rel_entr(rates, point["value"]) + rel_entr(1 - rates, 1 - point["value"])
            about = {"of": point["of"], "model": point["model"], "series": None, "place": None, "part": "most"}
            rows += [about | {"across": float(x), "value": float(y)} for x, y in zip(nats, rates, strict=True)]
    return rows


def axis(kind: Any, title: str) -> Any:
    """An axis of nats, from 0."""
    scale = alt.Scale(type="symlog", constant=0.1, domainMin=0, nice=False, clamp=True)
    return kind.scale(scale).axis(alt.Axis(values=NATS, labelExpr="datum.value", grid=False, title=title))


def samplers(results: Results) -> Any:
    look = colours(results, "sampler").to_dict()["scale"]
    used = {cell["gap_nats"]["sampler"] for cell in cells(results)}
    shown = [(name, hue) for name, hue in zip(look["domain"], look["range"], strict=True) if name in used]
    legend = alt.Legend(title=None, orient="bottom", columns=2, symbolType="circle", symbolOpacity=1)
    return alt.Color("series:N", legend=legend).scale(domain=[s for s, _ in shown], range=[hue for _, hue in shown])


def draw_divergences(results: Results) -> Any:
    x, y = axis(alt.X("across:Q"), "true divergence, nats"), axis(alt.Y("value:Q"), "measured gap, nats")
    base = alt.Chart(ROWS).encode(x=x, color=samplers(results))
    same = alt.Chart(ROWS).mark_line(color=INK, strokeDash=[2, 3], opacity=0.6)
    same = same.encode(x=x, y=axis(alt.Y("across:Q"), "measured gap, nats"))
    spread = base.mark_rule(strokeWidth=1.5).encode(y=axis(alt.Y("low:Q"), "measured gap, nats"), y2="high:Q")
    points = base.mark_point(filled=True, size=55, opacity=1).encode(y=y, tooltip=tooltip(TIPS))
    points = points.encode(shape=alt.condition("datum.sure", alt.value("diamond"), alt.value("circle")))
    return layered(same, spread, points)


def draw_errors(results: Results, error: str) -> Any:
    x = axis(alt.X("across:Q"), "measured gap, nats per sequence")
    y = alt.Y("value:Q", title=ERRORS[error], axis=alt.Axis(format=".0%", tickCount=5)).scale(domain=[0, 1])
    most = alt.Chart(ROWS).transform_filter("datum.part == 'most'")
    most = most.mark_line(color=INK, strokeDash=[6, 4], opacity=0.6, clip=True).encode(x=x, y=y)
    base = alt.Chart(ROWS).transform_filter("datum.part == 'point'").encode(x=x, color=samplers(results))
    line = base.mark_line(strokeWidth=1.8).encode(y=y, order="order:Q", detail="series:N")
    spread = base.mark_rule(strokeWidth=1.5).encode(y=alt.Y("low:Q"), y2="high:Q")
    points = base.mark_point(filled=True, size=55, opacity=1).encode(y=y, tooltip=tooltip(TIPS))
    return layered(most, line, spread, points)


def _errors(place: int, error: str) -> Figure:
    return Figure(
        name=f"gap-{error.replace('_', '-')}",
        place=place,
        options={"obeys": ("of", "model")},
        title=f"Gap against {ERRORS[error]}",
        under="dashed: the most errors that a gap allows in random order; far below it: nats that are not errors",
        caption="Each point is one number of steps, N. Only models without impossible sequences have a finite gap.",
        draw=partial(draw_errors, error=error),
        own=partial(errors, error=error),
    )


FIGURES = [
    Figure(
        name="gap-divergence",
        place=86,
        title="Gap against true divergence",
        under="dotted: equal; diamonds: divergence from theory; circles: from the sequences and the language",
        caption="The gap sees the model alone. Points of a trained network are to the right of the line by its "
        "learning error. Where some sequences are impossible, both are means over the possible ones.",
        draw=draw_divergences,
        own=divergences,
    ),
    _errors(87, "ser"),
    _errors(88, "answer_error"),
]
