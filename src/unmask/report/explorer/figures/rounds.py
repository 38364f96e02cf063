"""A metric against the number of steps: a line per language, per network, or per sampler."""

from __future__ import annotations

from functools import partial
from typing import Any

import altair as alt

from unmask.report.explorer.figure import (
    HEIGHT,
    ROWS,
    WIDTH,
    Figure,
    axis_of_value,
    emphasis,
    names,
    parameters,
    size,
    tooltip,
)
from unmask.report.explorer.looks import colours
from unmask.report.explorer.yardsticks import YARDSTICKS, Yardstick
from unmask.report.frame import INK
from unmask.report.results import Results

BETWEEN = {"of": "language", "model": "network", "sampler": "sampler"}


def draw(results: Results, by: str) -> Any:
    """Lines, intervals and points; theory is a line alone; AR has no number of steps and is a level."""
    measures = {name for one in YARDSTICKS.values() for name in one.measures}
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
    drawn = alt.layer(size(), level, text, goal, line, spread, points, names(line.copy(), colour).encode(x=x))
    return drawn.add_params(*parameters()).properties(width=WIDTH, height=HEIGHT)


DRAWN = {by: partial(draw, by=by) for by in BETWEEN}  # rows name the metric


def _wanted(results: Results, yardstick: Yardstick, by: str) -> bool:
    seen = [p for p in results.of(*yardstick.measures) if p["kind"] == "mdm" and p["steps"] is not None]
    if by != "of" and len({p[by] for p in seen}) < 2:
        return False
    return len({p["steps"] for p in seen}) > 1


def _figure(number: int, yardstick: Yardstick, by: str) -> Figure:
    title = yardstick.title + {"of": "", "model": ", exact and trained", "sampler": ", by sampler"}[by]
    return Figure(
        name=f"{yardstick.name.replace('_', '-')}-by-{BETWEEN[by]}",
        place=10 + 3 * number + list(BETWEEN).index(by),
        prepare="curves",
        options={"yardstick": yardstick.name, "by": by},
        title=title,
        under=yardstick.under,
        draw=DRAWN[by],
        needs=partial(_wanted, yardstick=yardstick, by=by),
        usual=by != "sampler",
    )


FIGURES = [_figure(number, one, by) for number, one in enumerate(YARDSTICKS.values()) for by in BETWEEN]
