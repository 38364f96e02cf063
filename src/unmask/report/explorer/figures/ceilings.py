"""The accuracy of a model on a task against its tokens per model call, next to that of the exact denoiser."""

from __future__ import annotations

from typing import Any

import altair as alt

from unmask.core.estimates import Estimate
from unmask.report.explorer.figure import FEW, OWN, ROWS, Figure, Row, bare, layered, tooltip
from unmask.report.results import EVALUATION, Point, Results
from unmask.tasks.exact import is_ideal

TIPS = {"series": "sampler", "who": "model", "setting": "setting", "shown": "accuracy", "pace": "tokens per model call"}


def accuracies(results: Results) -> list[Point]:
    points = [point for point in results.of("accuracy") if point["job"] == EVALUATION and point["kind"] == "mdm"]
    return points if any(is_ideal(point["model"]) for point in points) else []


def own(results: Results) -> list[Row]:
    """A row per setting; `exact`: of the exact denoiser, which is a ceiling if there is a model, too."""
    rows = []
    for point in accuracies(results):
        if not point["model_calls"] or not point["length"]:
            continue
        exact, pace = is_ideal(point["model"]), point["length"] / point["model_calls"]
        setting = point["knob"] or f"N = {point['steps']}"
        about = {"of": point["of"], "series": bare(point["sampler"]), "who": point["model"], "setting": setting}
        about |= {"exact": exact, "shown": str(Estimate.of_record(point))}
        rows.append(about | {name: point[name] for name in ("value", "low", "high")} | {"place": pace})
        rows[-1]["pace"] = f"{pace:.3g}"
    return rows


def draw(results: Results) -> Any:
    names = list(dict.fromkeys(bare(point["sampler"]) for point in accuracies(results)))
    hues = [FEW[number] if len(names) <= len(FEW) else OWN for number in range(len(names))]
    colour = alt.Color("series:N", legend=alt.Legend(title=None, orient="bottom", columns=3, symbolType="circle"))
    colour = colour.scale(domain=names, range=hues)
    x = alt.X("place:Q", title="tokens per model call", axis=alt.Axis(grid=False, tickCount=6, format="~g"))
    x = x.scale(type="log", base=2, nice=False, padding=12)
    y = alt.Y("value:Q", title="accuracy", axis=alt.Axis(format=".0%", tickCount=5)).scale(domain=[0, 1])
    base = alt.Chart(ROWS).encode(x=x, color=colour)
    several = any(not is_ideal(point["model"]) for point in accuracies(results))
    dash = alt.condition("datum.exact", alt.value([4, 4] if several else [1, 0]), alt.value([1, 0]))
    faint = alt.condition("datum.exact", alt.value(0.6 if several else 1.0), alt.value(1.0))
    line = base.mark_line(strokeWidth=1.8).encode(
        y=y, order="place:Q", detail=["series:N", "exact:N"], strokeDash=dash, opacity=faint
    )
    spread = base.mark_rule(strokeWidth=1.2).encode(y=alt.Y("low:Q"), y2="high:Q", opacity=alt.value(0.45))
    points = base.mark_point(filled=True, size=45).encode(y=y, opacity=faint, tooltip=tooltip(TIPS))
    return layered(spread, line, points)


FIGURES = [
    Figure(
        name="ceilings",
        place=9,
        options={"obeys": ("of",)},
        title="Accuracy against speed, with ceilings",
        under="up and right is better; dashed: the exact denoiser with the same sampler",
        caption="Tokens per model call are positions of the canvas, with padding. Errors of the exact denoiser are due "
        "to the sampler; the distance from a line to its dashed one is due to the model.",
        draw=draw,
        own=own,
        needs=lambda results: bool(accuracies(results)),
    )
]
