"""Training: validation loss against training steps, and learning error against sampling error."""

from __future__ import annotations

from typing import Any

import altair as alt

from unmask.core.estimates import Estimate
from unmask.report.explorer.figure import FEW, ROWS, Figure, Row, colours, emphasis, layered, tooltip
from unmask.report.frame import INK
from unmask.report.results import IDEAL, Point, Results

TOOLTIP = {"series": "of", "setting": "at", "shown": "loss"}


def losses(results: Results) -> list[Row]:
    """A row per validation; above the entropy of the language, if that is known."""
    rows = []
    for training in results.trainings:
        base = training.entropy
        for entry in training.journal:
            over = entry.validation / base - 1 if base else entry.validation
            about: Row = {"of": training.of, "series": training.of, "what": training.kind.upper() or "network"}
            above = f", {100 * over:.2f}% above the entropy" if base else ""
            shown = f"{entry.validation:.4f} nats per token{above}"
            about |= {"place": entry.step, "value": over, "low": None, "high": None, "shown": shown}
            about |= {"setting": f"step {entry.step}", "cost": f"{entry.seconds:.0f} s", "sample": ""}
            rows.append(about | {"end": entry is training.journal[-1]})
    return rows


def draw_losses(results: Results) -> Any:
    relative = all(training.entropy for training in results.trainings)
    title = "validation loss above the entropy" if relative else "validation loss, nats per token"
    x = alt.X("place:Q", title="training steps", axis=alt.Axis(grid=False, tickCount=6, format="~s")).scale(nice=False)
    y = alt.Y("value:Q", title=title, axis=alt.Axis(format="~%" if relative else "~g", tickCount=6))
    y = y.scale(type="symlog", constant=0.01) if relative else y.scale(zero=False)
    kinds = {training.kind for training in results.trainings}
    legend = alt.Legend(title=None, orient="top", symbolType="stroke") if len(kinds) > 1 else None
    dash = alt.StrokeDash("what:N", legend=legend)
    own = [training.of for training in results.trainings]
    alone = alt.Color("series:N", legend=None).scale(domain=own, range=[FEW[i % len(FEW)] for i in range(len(own))])
    colour = colours(results, "of") if results.points else alone
    base = alt.Chart(ROWS).encode(x=x, y=y, color=colour, opacity=emphasis())
    line = base.mark_line(strokeWidth=2).encode(strokeDash=dash, detail="series:N")
    points = base.mark_point(filled=True, size=25).encode(tooltip=tooltip(TOOLTIP))
    layers = [line, points]
    if not results.points:  # otherwise a colour is a language, which other figures name
        name = base.transform_filter("datum.end").mark_text(align="right", dy=-12, fontSize=12)
        layers.append(name.encode(text="series:N"))
    return layered(*layers)


def learning(results: Results) -> list[Row]:
    """The SER of each network next to that of the exact denoiser, with the same sampler and number of steps."""
    measured = [point for point in results.of("ser") if point["kind"] == "mdm" and point["steps"]]
    ideal = {_setting(point): point for point in measured if point["model"] == IDEAL}
    rows = []
    for point in measured:
        if point["model"] == IDEAL or (truth := ideal.get(_setting(point))) is None:
            continue
        about = {"of": point["of"], "series": point["of"], "sampler": point["sampler"], "kind": "mdm"}
        about |= {"across": truth["value"], "value": point["value"], "low": point["low"], "high": point["high"]}
        shown = f"{Estimate.of_record(point)}; exact {Estimate.of_record(truth)}"
        about |= {"shown": shown, "setting": f"N = {point['steps']}", "cost": f"{point['model_calls']:.4g}"}
        rows.append(about | {"sample": f"{point['n']} sequences", "place": point["steps"], "at": point["number"]})
    last = {row["series"]: row for row in sorted(rows, key=lambda row: row["place"])}
    return [row | {"end": last[row["series"]] is row} for row in rows]


def _setting(point: Point) -> tuple[Any, ...]:
    return tuple(point[name] for name in ("of", "sampler", "length", "steps"))


def draw_learning(results: Results) -> Any:
    axis = alt.Axis(format=".0%", tickCount=5, grid=False)
    x = alt.X("across:Q", title="sampling error alone: SER of the exact denoiser", axis=axis).scale(domain=[0, 1])
    y = alt.Y("value:Q", title="with learning error: SER of the network", axis=axis).scale(domain=[0, 1])
    base = alt.Chart(ROWS).encode(color=colours(results, "of"), opacity=emphasis())
    line = base.mark_line(strokeWidth=1.5).encode(x=x, y=y, order="place:Q", detail="series:N")
    spread = base.mark_rule().encode(x=x, y=alt.Y("low:Q"), y2="high:Q")
    points = base.mark_point(filled=True, size=60, cursor="pointer").encode(x=x, y=y, tooltip=tooltip())
    same = alt.Chart(ROWS).transform_aggregate(all="count()").mark_rule(color=INK, opacity=0.5, strokeDash=[2, 3])
    same = same.encode(x=alt.datum(0), y=alt.datum(0), x2=alt.datum(1), y2=alt.datum(1))
    name = base.transform_filter("datum.end").mark_text(align="left", dx=9, dy=16, fontSize=12)
    return layered(same, line, spread, points, name.encode(x=x, y=y, text="series:N"))


FIGURES = [
    Figure(
        name="learning",
        place=80,
        options={"obeys": ("sampler",), "marks": ("of",)},
        title="Sampling error and learning error",
        under="dotted line: a network as good as the exact denoiser; above it: learning error",
        caption="Each point is one number of steps. More steps move a line to the left, more training moves it down.",
        draw=draw_learning,
        own=learning,
    ),
    Figure(
        name="training",
        place=81,
        options={"marks": ("of",)},
        title="Training: validation loss",
        under="against training steps; no network gets below the entropy of the language",
        caption="Each point is a validation on sequences outside the training set.",
        draw=draw_losses,
        needs=lambda results: any(training.journal for training in results.trainings),
        own=losses,
    ),
]
