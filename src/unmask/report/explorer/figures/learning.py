"""Learning error against sampling error: x is the SER of the exact denoiser, y that of the network, a point per N."""

from __future__ import annotations

from typing import Any

import altair as alt

from unmask.core.estimates import Estimate
from unmask.report.explorer.figure import HEIGHT, ROWS, WIDTH, Figure, Row, emphasis, parameters, tooltip
from unmask.report.explorer.looks import colours
from unmask.report.frame import INK
from unmask.report.results import IDEAL, Point, Results


def own(results: Results) -> list[Row]:
    """The SER of each network next to that of the exact denoiser, with the same sampler and number of steps."""
    said = [point for point in results.of("ser") if point["kind"] == "mdm" and point["steps"]]
    ideal = {_who(point): point for point in said if point["model"] == IDEAL}
    found = []
    for point in said:
        if point["model"] == IDEAL or (truth := ideal.get(_who(point))) is None:
            continue
        about = {
            "of": point["of"],
            "series": point["of"],
            "sampler": point["sampler"],
            "kind": "mdm",
            "at": point["number"],
        }
        about |= {"across": truth["value"], "value": point["value"], "low": point["low"], "high": point["high"]}
        shown = f"{Estimate.of_record(point)}; exact {Estimate.of_record(truth)}"
        about |= {"shown": shown, "rounds": f"N = {point['steps']}", "cost": f"{point['evaluations']:.4g}"}
        found.append(about | {"told": f"{point['n']} sequences", "place": point["steps"]})
    last = {row["series"]: row for row in sorted(found, key=lambda row: row["place"])}
    return [row | {"end": last[row["series"]] is row} for row in found]


def _who(point: Point) -> tuple[Any, ...]:
    return tuple(point[name] for name in ("of", "sampler", "length", "steps"))


def draw(results: Results) -> Any:
    axis = alt.Axis(format=".0%", tickCount=5, grid=False)
    x = alt.X("across:Q", title="sampling error alone: SER of the exact denoiser", axis=axis).scale(domain=[0, 1])
    y = alt.Y("value:Q", title="with learning error: SER of the network", axis=axis).scale(domain=[0, 1])
    colour = colours(results, "of")
    base = alt.Chart(ROWS).encode(color=colour, opacity=emphasis())
    line = base.mark_line(strokeWidth=1.5).encode(x=x, y=y, order="place:Q", detail="series:N")
    spread = base.mark_rule().encode(x=x, y=alt.Y("low:Q"), y2="high:Q")
    points = base.mark_point(filled=True, size=60, cursor="pointer").encode(x=x, y=y, tooltip=tooltip())
    same = alt.Chart(ROWS).transform_aggregate(all="count()").mark_rule(color=INK, opacity=0.5, strokeDash=[2, 3])
    same = same.encode(x=alt.datum(0), y=alt.datum(0), x2=alt.datum(1), y2=alt.datum(1))
    name = base.transform_filter("datum.end").mark_text(align="left", dx=9, dy=9, fontSize=12)
    drawn = alt.layer(same, line, spread, points, name.encode(x=x, y=y, text="series:N"))
    return drawn.add_params(*parameters()).properties(width=WIDTH, height=HEIGHT)


FIGURES = [
    Figure(
        name="learning",
        place=80,
        options={"obeys": ("sampler",), "marks": ("of",)},
        title="Sampling error and learning error",
        under="dotted line: a network as good as the exact denoiser; above it: learning error",
        caption="Each point is one number of steps. More steps move a line to the left, more training down.",
        draw=draw,
        own=own,
    )
]
