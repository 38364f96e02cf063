"""Validation loss against training steps."""

from __future__ import annotations

from typing import Any

import altair as alt

from unmask.report.explorer.figure import HEIGHT, ROWS, WIDTH, Figure, Row, emphasis, parameters
from unmask.report.explorer.looks import colours
from unmask.report.frame import INK
from unmask.report.results import Results

TOLD = {"series": "of", "rounds": "at", "shown": "loss"}


def own(results: Results) -> list[Row]:
    """A row per validation; above the entropy of the language, if that is known."""
    found = []
    for training in results.trainings:
        base = training.entropy
        for entry in training.journal:
            over = entry.validation / base - 1 if base else entry.validation
            about: Row = {"of": training.of, "series": training.of, "what": training.kind.upper() or "network"}
            told = f"{entry.validation:.4f} nats a token" + (f", {100 * over:.2f}% above the entropy" if base else "")
            about |= {"place": entry.step, "value": over, "low": None, "high": None, "shown": told}
            found.append(about | {"rounds": f"step {entry.step}", "cost": f"{entry.seconds:.0f} s", "told": ""})
    return found


def draw(results: Results) -> Any:
    relative = all(training.entropy for training in results.trainings)
    title = "validation loss above the entropy" if relative else "validation loss, nats a token"
    x = alt.X("place:Q", title="training steps", axis=alt.Axis(grid=False, tickCount=6, format="~s")).scale(nice=False)
    y = alt.Y("value:Q", title=title, axis=alt.Axis(format="~%" if relative else "~g", tickCount=6))
    y = y.scale(type="symlog", constant=0.01) if relative else y.scale(zero=False)
    dash = alt.StrokeDash("what:N", legend=alt.Legend(title=None, orient="top-right", symbolType="stroke"))
    found = colours(results, "of") if results.points else alt.value(INK)
    base = alt.Chart(ROWS).encode(x=x, y=y, color=found, opacity=emphasis())
    told = [alt.Tooltip(f"{name}:N", title=title) for name, title in TOLD.items()]
    line = base.mark_line(strokeWidth=2).encode(strokeDash=dash, detail="series:N")
    points = base.mark_point(filled=True, size=25).encode(tooltip=told)
    return alt.layer(line, points).add_params(*parameters()).properties(width=WIDTH, height=HEIGHT)


FIGURES = [
    Figure(
        name="training",
        place=81,
        options={"marks": ("of",)},
        title="Training: validation loss",
        under="against training steps; no network gets below the entropy of the language",
        caption="Each point is a validation on sequences outside the training set.",
        draw=draw,
        needs=lambda results: any(training.journal for training in results.trainings),
        own=own,
    )
]
