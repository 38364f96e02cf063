"""The cost at which each sampler meets the target, next to references that know the language."""

from __future__ import annotations

from typing import Any

import altair as alt

from unmask.report.explorer.figure import ROWS, Figure, across, emphasis, parameters, tooltip
from unmask.report.explorer.looks import colours
from unmask.report.results import Results

STEP = 19  # pixels from one bar to the next


def draw(results: Results) -> Any:
    order = alt.SortField("place")
    y = alt.Y("series:N", title=None, sort=order, axis=alt.Axis(grid=False, labelLimit=220))
    scale = alt.Scale(type="log", nice=False, domain=[alt.ExprRef("left"), alt.ExprRef("right")])
    x = alt.X("place:Q", title=None, axis=alt.Axis(format="~g", labelOverlap="greedy", tickCount=8), scale=scale)
    base = alt.Chart(ROWS).encode(y=y, color=colours(results, "sampler"), opacity=emphasis())
    bar = base.transform_calculate(begin="left").mark_rule(strokeWidth=3)
    bar = bar.encode(x=alt.X("begin:Q", title=None, scale=scale), x2="place:Q")
    dot = base.mark_point(filled=True, size=80, cursor="pointer").encode(x=x, tooltip=tooltip())
    value = base.mark_text(align="left", dx=9, fontSize=12).encode(x=x)
    value = value.transform_calculate(said="datum.rounds").encode(text="said:N")
    height = STEP * (len(results.choices("sampler")) + 1)
    return alt.layer(bar, dot, value, across()).add_params(*parameters()).properties(width=620, height=height)


def _wanted(results: Results) -> bool:
    return len({p["sampler"] for p in results.points if p["kind"] == "mdm" and p["evaluations"]}) > 2


FIGURES = [
    Figure(
        name="headroom",
        place=71,
        prepare="needs",
        options={"by": "sampler"},
        title="Cost of the target, by sampler",
        under="the cheapest measured setting of each sampler that meets the target, or whose interval contains it",
        caption="Samplers that do not reach the target are not listed. <code>clairvoyant</code> and "
        "<code>best-order</code> ask the language itself: they show how much a better rule could save.",
        draw=draw,
        needs=_wanted,
        wide=True,
    )
]
