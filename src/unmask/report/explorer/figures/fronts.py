"""Quality against cost, a line per sampler; the front is the points that no other point beats in both."""

from __future__ import annotations

from typing import Any

import altair as alt

from unmask.report.explorer.figure import (
    HEIGHT,
    ROWS,
    Figure,
    across,
    axis_of_value,
    emphasis,
    parameters,
    size,
    tooltip,
)
from unmask.report.explorer.looks import colours
from unmask.report.frame import INK
from unmask.report.results import Results


def draw(results: Results) -> Any:
    """Lines and points of samplers, the front a broad band, AR a diamond on the line where costs are equal."""
    x = alt.X("place:Q", title=None, axis=alt.Axis(format="~g", grid=False, labelOverlap="greedy", tickCount=8))
    x = x.scale(type="log", nice=False, domain=[alt.ExprRef("left"), alt.ExprRef("right")])
    y, colour = axis_of_value(), colours(results, "sampler")
    best = alt.Chart(ROWS).transform_filter("datum.front")
    band = best.mark_line(interpolate="step-after", strokeWidth=9, opacity=0.13, color=INK).encode(x=x, y=y)
    own = alt.Chart(ROWS).transform_filter("datum.kind == 'mdm'")
    line = own.mark_line(strokeWidth=1.8, clip=True).encode(x=x, y=y, color=colour, detail="series:N")
    line = line.encode(opacity=emphasis(), strokeWidth=alt.condition("datum.chosen", alt.value(3), alt.value(1.5)))
    points = own.mark_point(filled=True, size=45, cursor="pointer")
    points = points.encode(x=x, y=y, color=colour, opacity=emphasis(), tooltip=tooltip())
    ar = alt.Chart(ROWS).transform_filter("datum.kind == 'ar'")
    level = alt.Chart(ROWS).transform_filter("datum.kind == 'even'")
    even = level.mark_rule(color=INK, opacity=0.4, strokeDash=[2, 3]).encode(x=x)
    diamond = ar.mark_point(shape="diamond", filled=True, size=150, color=INK, opacity=1)
    diamond = diamond.encode(x=x, y=y, tooltip=tooltip())
    text = level.mark_text(color=INK, align="left", dx=6, fontSize=12, text="AR")
    text = text.encode(x=x, y=alt.value(24))
    name = own.transform_filter("datum.end").mark_text(align="left", dx=8, dy=-7, fontSize=12)
    name = name.encode(x=x, y=y, text="series:N", color=colour, opacity=emphasis())
    drawn = alt.layer(band, even, size(), across(), text, line, points, diamond, name)
    return drawn.add_params(*parameters()).properties(width=900, height=HEIGHT + 40)


def _wanted(results: Results) -> bool:
    return len({p["sampler"] for p in results.points if p["kind"] == "mdm" and p["evaluations"]}) > 1


FIGURES = [
    Figure(
        name="front",
        place=70,
        prepare="fronts",
        options={"by": "sampler"},
        title="Quality against cost, by sampler",
        under="left: cheaper; broad line: the front, where no sampler is both better and cheaper",
        caption="A line is one sampler at all of its measured settings. Diamond and dotted line: AR, which makes no "
        "sampling error, and is cheaper than points to the right. Grey: references.",
        draw=draw,
        needs=_wanted,
        wide=True,
    )
]
