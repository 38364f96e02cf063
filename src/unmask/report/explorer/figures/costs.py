"""Quality against cost, a line per sampler, and the cost at which each sampler meets the target."""

from __future__ import annotations

from functools import partial
from typing import Any

import altair as alt

from unmask.report.explorer.figure import (
    HEIGHT,
    ROWS,
    Figure,
    across,
    axis_of_value,
    colours,
    emphasis,
    layered,
    size,
    tooltip,
)
from unmask.report.frame import INK
from unmask.report.results import Results

BAR = 19  # pixels from one bar to the next
SCALE = alt.Scale(type="log", nice=False, domain=[alt.ExprRef("left"), alt.ExprRef("right")])


def front(results: Results) -> Any:
    """Lines and points of samplers, the Pareto front as a broad band, AR as a diamond on the line of equal cost."""
    x = alt.X("place:Q", title=None, axis=alt.Axis(format="~g", grid=False, labelOverlap="greedy", tickCount=8))
    x, y, colour = x.scale(SCALE), axis_of_value(), colours(results, "sampler")
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
    diamond = ar.mark_point(shape="diamond", filled=False, size=190, strokeWidth=2.5, color=INK, opacity=1)
    diamond = diamond.encode(x=x, y=y, tooltip=tooltip())
    text = level.mark_text(color=INK, align="center", fontSize=12, text="AR")
    text = text.encode(x=x, y=alt.value(-9))
    name = own.transform_filter("datum.end").mark_text(align="left", dx=8, dy=-7, fontSize=12)
    name = name.encode(x=x, y=y, text="series:N", color=colour, opacity=emphasis())
    return layered(band, even, size(), across(), text, line, points, diamond, name, width=900, height=HEIGHT + 40)


def headroom(results: Results) -> Any:
    y = alt.Y("series:N", title=None, sort=alt.SortField("place"), axis=alt.Axis(grid=False, labelLimit=220))
    right = alt.ExprRef("width < 500 ? right * pow(right / left, 0.4) : right")  # settings are beside the points
    scale = alt.Scale(type="log", nice=False, domain=[alt.ExprRef("left"), right])
    x = alt.X("place:Q", title=None, axis=alt.Axis(format="~g", labelOverlap="greedy", tickCount=8), scale=scale)
    base = alt.Chart(ROWS).encode(y=y, color=colours(results, "sampler"), opacity=emphasis())
    bar = base.transform_calculate(begin="left").mark_rule(strokeWidth=3)
    bar = bar.encode(x=alt.X("begin:Q", title=None, scale=scale), x2="place:Q")
    dot = base.mark_point(filled=True, size=80, cursor="pointer").encode(x=x, tooltip=tooltip())
    value = base.mark_text(align="left", dx=9, fontSize=12).encode(x=x, text="setting:N")
    height = BAR * (len(results.choices("sampler")) + 1)
    return layered(bar, dot, value, across(), width=620, height=height)


def _compares(results: Results, least: int) -> bool:
    return len({p["sampler"] for p in results.points if p["kind"] == "mdm" and p["model_calls"]}) >= least


FIGURES = [
    Figure(
        name="front",
        place=70,
        prepare="fronts",
        options={"by": "sampler"},
        title="Quality against cost, by sampler",
        under="further left: cheaper; grey band: Pareto front, where no sampler is both better and cheaper",
        caption="Each line is one sampler at all of its measured settings. Dotted line: the cost of AR, which makes "
        "no sampling error; points to its right cost more. Diamond: AR where measured. Grey lines: references.",
        draw=front,
        needs=partial(_compares, least=2),
        wide=True,
    ),
    Figure(
        name="headroom",
        place=71,
        prepare="needs",
        options={"by": "sampler"},
        title="Cost of the target, by sampler",
        under="the cheapest measured setting of each sampler that meets the target, or whose interval contains it",
        caption="Samplers that miss the target are omitted. <code>best-order</code> uses "
        "the true language: it shows how much better a sampler could be.",
        draw=headroom,
        needs=partial(_compares, least=3),
        wide=True,
    ),
]
