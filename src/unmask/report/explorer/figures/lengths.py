"""The number of steps that a target takes, against the length."""

from __future__ import annotations

from typing import Any

import altair as alt

from unmask.core.estimates import Estimate
from unmask.report.explorer.figure import HEIGHT, ROWS, Figure, Row, emphasis, parameters, tooltip
from unmask.report.explorer.looks import colours
from unmask.report.frame import INK
from unmask.report.results import Results

KINDS = {"steps_for_ser": "for the SER target", "steps_for_ter": "for the TER target"}


def own(results: Results) -> list[Row]:
    """The steps by language and length; `what` is the metric."""
    found = []
    for point in sorted(results.of(*KINDS), key=lambda p: p["length"]):
        about = {"of": point["of"], "series": point["of"], "place": point["length"], "kind": "mdm"}
        about |= {name: point[name] for name in ("value", "low", "high")} | {"what": KINDS[point["measure"]]}
        shown = {"shown": str(Estimate.of_record(point)), "rounds": f"L = {point['length']}", "at": point["number"]}
        found.append(about | shown | {"cost": "", "told": KINDS[point["measure"]]})
    longest = max((row["place"] for row in found), default=0)
    return [row | {"end": row["place"] == longest and row["what"] == KINDS["steps_for_ser"]} for row in found]


def draw(results: Results) -> Any:
    """Both axes logarithmic; N = L, as AR, is a dotted line."""
    lengths = sorted({p["length"] for p in results.of(*KINDS)})
    x = alt.X("place:Q", title="L, the number of tokens", axis=alt.Axis(values=lengths, format="d", grid=False))
    x = x.scale(type="log", base=2, nice=False, domain=[alt.ExprRef("left"), alt.ExprRef("right")])
    y = alt.Y("value:Q", title="N, the number of steps needed", axis=alt.Axis(format="~s", tickCount=6))
    y = y.scale(type="log", nice=False, padding=12)
    colour = colours(results, "of")
    dash = alt.StrokeDash("what:N", legend=alt.Legend(title=None, orient="top-left", symbolType="stroke"))
    dash = dash.scale(domain=list(KINDS.values()), range=[[1, 0], [5, 4]])
    base = alt.Chart(ROWS).encode(color=colour, opacity=emphasis())
    line = base.mark_line(strokeWidth=2).encode(x=x, y=y, strokeDash=dash, detail="series:N")
    spread = base.mark_rule().encode(x=x, y=alt.Y("low:Q"), y2="high:Q")
    points = base.mark_point(filled=True, size=60).encode(x=x, y=y, tooltip=tooltip())
    same = base.mark_line(color=INK, strokeDash=[2, 3], opacity=0.5).encode(
        x=x, y=alt.Y("place:Q"), color=alt.value(INK)
    )
    name = base.transform_filter("datum.end").mark_text(align="left", dx=8, fontSize=12)
    return (
        alt.layer(same, line, spread, points, name.encode(x=x, y=y, text="series:N"))
        .add_params(*parameters())
        .properties(width=900, height=HEIGHT)
    )


FIGURES = [
    Figure(
        name="lengths",
        place=60,
        options={"marks": ("of",)},
        title="Steps needed, against the length",
        under="flat: independent of the length; parallel to the dotted line: proportional to it",
        caption="Both axes are logarithmic. Dotted: one step per token, as AR.",
        draw=draw,
        needs=lambda results: len({p["length"] for p in results.of(*KINDS)}) > 1,
        wide=True,
        own=own,
    )
]
