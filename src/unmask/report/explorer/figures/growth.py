"""The steps and the model calls that an SER takes against the length, by sampler and schedule."""

from __future__ import annotations

from functools import partial
from typing import Any

import altair as alt

from unmask.core.estimates import Estimate
from unmask.report.explorer.figure import FEW, HEIGHT, ROWS, WIDTH, Figure, Row, parameters, tooltip
from unmask.report.explorer.figures.steps import samplers
from unmask.report.frame import INK
from unmask.report.results import Point, Results

MEASURE = "steps_for_ser"
TARGETS = ("0.5", "0.1", "0.01")
PLAIN = "linear"
MASKS, UNIFORM = "ancestral", "uniform-ancestral"


def label(point: Point) -> str:
    """The sampler, and its schedule if it is not the linear one of masks."""
    names = {MASKS: "masks", UNIFORM: "uniform noise"}
    name = names.get(point["sampler"], point["sampler"])
    return name if point["schedule"] == PLAIN and point["sampler"] != UNIFORM else f"{name}, {point['schedule']}"


def labels(results: Results) -> list[str]:
    """Masks, uniform noise, then the others."""
    order = {MASKS: 0, UNIFORM: 1}
    ordered = sorted(results.of(MEASURE), key=lambda p: order.get(p["sampler"], 2))
    return list(dict.fromkeys(map(label, ordered)))


def own(results: Results, target: str, up: str) -> list[Row]:
    """A row per language, length and sampler; up: the field on the y axis."""
    rows = []
    for point in sorted(results.of(MEASURE), key=lambda p: p["length"]):
        if point["setting"] != f"ser={target}" or point[up] is None:
            continue
        ends = {end: point[end] if up == "value" else None for end in ("low", "high")}
        about = {"of": point["of"], "series": label(point), "place": point["length"], "value": point[up], **ends}
        shown = f"{Estimate.of_record(point)} steps, {point['model_calls']:.4g} model calls"
        about |= {"shown": shown, "setting": f"L = {point['length']}, SER {float(target):.0%}"}
        rows.append(about | {"at": point["number"], "kind": "mdm", "cost": "", "sample": ""})
    return rows


def draw(results: Results, title: str) -> Any:
    """Both axes logarithmic; N = L, as AR, is a dotted line."""
    points = results.of(MEASURE)
    x = alt.X("place:Q", title="L, the number of tokens", axis=alt.Axis(format="d", grid=False, tickCount=5))
    x = x.scale(type="log", base=2, nice=False, padding=12)
    y = alt.Y("value:Q", title=title, axis=alt.Axis(format="~s", tickCount=6)).scale(type="log", nice=False, padding=12)
    scale = alt.Scale(domain=labels(results), range=[FEW[n % len(FEW)] for n in range(len(labels(results)))])
    legend = alt.Legend(title=None, orient="bottom", columns=2, labelLimit=260)
    base = alt.Chart(ROWS).encode(color=alt.Color("series:N", scale=scale, legend=legend))
    line = base.mark_line(strokeWidth=2).encode(x=x, y=y, detail="series:N")
    spread = base.transform_filter("datum.high > datum.low").mark_rule().encode(x=x, y=alt.Y("low:Q"), y2="high:Q")
    dots = base.mark_point(filled=True, size=60).encode(x=x, y=y, tooltip=tooltip())
    ends = [{"place": end, "value": end} for end in (min, max) for end in [end(p["length"] for p in points)]]
    same = alt.Chart(alt.InlineData(ends)).mark_line(color=INK, strokeDash=[2, 3], opacity=0.5).encode(x=x, y=y)
    return alt.layer(same, line, spread, dots).add_params(*parameters()).properties(width=WIDTH, height=HEIGHT)


STEPS, CALLS = (partial(draw, title=title) for title in ("N, the number of steps needed", "model calls per sequence"))


def _figure(number: int, target: str, up: str) -> Figure:
    what, drawn = ("Steps", STEPS) if up == "value" else ("Model calls", CALLS)
    return Figure(
        name=f"growth-{target.partition('.')[2]}{'' if up == 'value' else '-calls'}",
        place=61 + number,
        options={"obeys": ("of",)},
        title=f"{what} for an SER of {float(target):.0%} against sequence length",
        under="parallel to the dotted line: proportional to the length; nearly flat: with its logarithm",
        caption="Both axes are logarithmic. Dotted: one per token, as AR. Missing points were out of reach.",
        draw=drawn,
        needs=lambda results: len(samplers(results)) > 1 and bool(own(results, target, up)),
        own=partial(own, target=target, up=up),
    )


FIGURES = [_figure(n, t, up) for n, (t, up) in enumerate((t, up) for up in ("value", "model_calls") for t in TARGETS)]
