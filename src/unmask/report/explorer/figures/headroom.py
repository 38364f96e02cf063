"""How much each sampler needs until a target is met, beside the best that knows the language."""

from __future__ import annotations

from typing import Any

import altair as alt

from unmask.report.explorer.figure import ROWS, Figure, emphasis, parameters, tooltip
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
    value = value.transform_calculate(said="datum.cost + ': ' + datum.rounds").encode(text="said:N")
    height = STEP * (len(results.choices("sampler")) + 1)
    return alt.layer(bar, dot, value).add_params(*parameters()).properties(width=620, height=height)


def _wanted(results: Results) -> bool:
    return len({p["sampler"] for p in results.points if p["kind"] == "mdm" and p["evaluations"]}) > 2


FIGURES = [
    Figure(
        name="headroom",
        place=51,
        prepare="needs",
        options={"by": "sampler"},
        title="What the target takes of each sampler",
        under="the least of the chosen cost at which the target is met, and at all that is dearer",
        caption="Samplers that never meet it are not here. <code>clairvoyant</code> and <code>best-order</code> ask "
        "the language itself: from them to the others is the room that a better rule has.",
        draw=draw,
        wanted=_wanted,
        wide=True,
    )
]
