"""A metric against the number of steps, and the steps that a target needs against the length."""

from __future__ import annotations

from functools import partial
from typing import Any

import altair as alt

from unmask.core.estimates import Estimate
from unmask.report.explorer.figure import (
    ROWS,
    Figure,
    Row,
    axis_of_value,
    colours,
    emphasis,
    layered,
    names,
    size,
    tooltip,
)
from unmask.report.explorer.metrics import METRICS, Metric
from unmask.report.frame import INK
from unmask.report.results import Results

BETWEEN = {"of": "language", "model": "network", "sampler": "sampler"}  # a line each
KINDS = {"steps_for_ser": "for the SER target", "steps_for_ter": "for the TER target"}


def draw(results: Results, by: str) -> Any:
    """Lines, intervals and points; theory is a line alone; AR has no number of steps and is a level."""
    measures = {name for one in METRICS.values() for name in one.measures}
    steps = sorted({point["steps"] for point in results.of(*measures) if point["steps"] is not None})
    axis = alt.Axis(values=steps, format="d", grid=False, labelOverlap="greedy", labelSeparation=5)
    x = alt.X("place:Q", title="N, the number of steps", axis=axis)
    x = x.scale(type="log", base=2, nice=False, domain=[alt.ExprRef("left"), alt.ExprRef("right")])
    y, colour = axis_of_value(), colours(results, by)
    base = alt.Chart(ROWS).transform_filter("datum.kind == 'mdm'")
    line = base.transform_filter("datum.line").mark_line(clip=True)
    line = line.encode(x=x, y=y, color=colour, opacity=emphasis(), detail="series:N")
    line = line.encode(strokeWidth=alt.condition("datum.chosen", alt.value(3), alt.value(1.8)))
    dots = base.transform_filter("datum.dot")
    spread = dots.transform_filter("datum.high > datum.low").mark_rule(strokeWidth=1.5)
    spread = spread.encode(x=x, y=alt.Y("low:Q"), y2="high:Q", color=colour, opacity=emphasis())
    points = dots.mark_point(filled=True, size=60, cursor="pointer")
    points = points.encode(x=x, y=y, color=colour, opacity=emphasis(), tooltip=tooltip())
    ar = alt.Chart(ROWS).transform_filter("datum.kind == 'ar' && datum.chosen")
    level = ar.mark_rule(color=INK, opacity=0.5, strokeDash=[2, 3]).encode(y=y)
    text = ar.mark_text(color=INK, opacity=0.8, align="left", dx=5, dy=-7, fontSize=12, text="AR")
    text = text.encode(x=alt.value(0), y=y)
    goal = alt.Chart(ROWS).transform_filter("datum.goal").mark_rule(color=INK, opacity=0.35).encode(y=y)
    return layered(size(), level, text, goal, line, spread, points, names(line.copy(), colour).encode(x=x))


DRAWN = {by: partial(draw, by=by) for by in BETWEEN}  # figures of one function share their definition


def _varies(results: Results, metric: Metric, by: str) -> bool:
    points = [p for p in results.of(*metric.measures) if p["kind"] == "mdm" and p["steps"] is not None]
    lines, steps = ({p[name] for p in points} for name in (by, "steps"))
    return len(steps) > 1 and (by == "of" or len(lines) > 1)


def _figure(number: int, metric: Metric, by: str) -> Figure:
    return Figure(
        name=f"{metric.name.replace('_', '-')}-by-{BETWEEN[by]}",
        place=10 + 3 * number + list(BETWEEN).index(by),
        prepare="curves",
        options={"metric": metric.name, "by": by},
        title=metric.title + {"of": "", "model": ", exact and trained", "sampler": ", by sampler"}[by],
        under=metric.under,
        draw=DRAWN[by],
        needs=partial(_varies, metric=metric, by=by),
        usual=by != "sampler",
    )


def samplers(results: Results) -> set[tuple[str, str]]:
    """The samplers and schedules whose steps were searched; figures of growth compare several."""
    return {(point["sampler"], point["schedule"]) for point in results.of(*KINDS)}


def lengths(results: Results) -> list[Row]:
    """The steps by language and length; `what` is the target."""
    rows = []
    for point in sorted(results.of(*KINDS), key=lambda p: p["length"]):
        target = KINDS[point["measure"]]
        about = {"of": point["of"], "series": point["of"], "place": point["length"], "kind": "mdm"}
        about |= {name: point[name] for name in ("value", "low", "high")} | {"what": target, "sample": target}
        shown = {"shown": str(Estimate.of_record(point)), "setting": f"L = {point['length']}", "at": point["number"]}
        rows.append(about | shown | {"cost": ""})
    longest = max((row["place"] for row in rows), default=0)
    return [row | {"end": row["place"] == longest and row["what"] == KINDS["steps_for_ser"]} for row in rows]


def draw_lengths(results: Results) -> Any:
    """Both axes logarithmic; N = L, as AR, is a dotted line."""
    values = sorted({p["length"] for p in results.of(*KINDS)})
    x = alt.X("place:Q", title="L, the number of tokens", axis=alt.Axis(values=values, format="d", grid=False))
    x = x.scale(type="log", base=2, nice=False, domain=[alt.ExprRef("left"), alt.ExprRef("right")])
    y = alt.Y("value:Q", title="N, the number of steps needed", axis=alt.Axis(format="~s", tickCount=6))
    y = y.scale(type="log", nice=False, padding=12)
    dash = alt.StrokeDash("what:N", legend=alt.Legend(title=None, orient="top-left", symbolType="stroke"))
    dash = dash.scale(domain=list(KINDS.values()), range=[[1, 0], [5, 4]])
    base = alt.Chart(ROWS).encode(color=colours(results, "of"), opacity=emphasis())
    line = base.mark_line(strokeWidth=2).encode(x=x, y=y, strokeDash=dash, detail="series:N")
    spread = base.mark_rule().encode(x=x, y=alt.Y("low:Q"), y2="high:Q")
    points = base.mark_point(filled=True, size=60).encode(x=x, y=y, tooltip=tooltip())
    same = base.mark_line(color=INK, strokeDash=[2, 3], opacity=0.5)
    same = same.encode(x=x, y=alt.Y("place:Q"), color=alt.value(INK))
    name = base.transform_filter("datum.end").mark_text(align="left", dx=8, fontSize=12)
    return layered(same, line, spread, points, name.encode(x=x, y=y, text="series:N"), width=900)


FIGURES = [_figure(number, one, by) for number, one in enumerate(METRICS.values()) for by in BETWEEN] + [
    Figure(
        name="lengths",
        place=60,
        options={"marks": ("of",)},
        title="Steps needed against sequence length",
        under="flat: independent of the length; parallel to the dotted line: proportional to it",
        caption="Both axes are logarithmic. Dotted: one step per token, as AR.",
        draw=draw_lengths,
        needs=lambda results: len({p["length"] for p in results.of(*KINDS)}) > 1 == len(samplers(results)),
        wide=True,
        own=lengths,
    )
]
