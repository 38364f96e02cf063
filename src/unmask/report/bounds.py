"""Theorems drawn: bounds dashed, exact values solid, measurements as points, against N."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import altair as alt
import pandas as pd

from unmask.core.files import origin
from unmask.diagnosis.table import EXACT, QUANTITIES, Record
from unmask.languages import Language
from unmask.report import crossing, rivals, staircase
from unmask.report.frame import COLOURS, GREY, HEIGHT, INK, alone, drawings, heading, numbers, themed
from unmask.report.publishing import check_directory, write
from unmask.theory.known import exact_error_curve

WIDTH = 520
TITLES = {
    "ser": ("What theorems say of SER", "and what is true: solid; points: measured, with 95% intervals"),
    "ter_ratio": (
        "What theorems say of TER, above the language's own",
        "solid, where it is known: exact; points: the mean over orders, measured, itself an upper bound",
    ),
}
AXES = {"ser": "SER: share of wrong sequences", "ter_ratio": "TER / TER of the language - 1"}
FILES = {"ser": "theory-ser", "ter_ratio": "theory-ter"}
CURVE, CROSSOVER, ORDERS = "theory-curve", "theory-crossover", "theory-orders"
LAST = "theory.json"
SEEN = 1e-4  # of an SER on a logarithmic axis


def check(out: Path) -> None:
    """Fail before the work is done."""
    check_directory(out, LAST)


def publish(
    out: Path, language: Language, length: int, records: Sequence[Record], configuration: dict[str, Any]
) -> list[Path]:
    """theory-ser, -ter, -curve, and where known -crossover and -orders, as SVG and PNG; the numbers as JSON and CSV.

    No -ser or -ter where all of it is 0, as of one token: a logarithmic axis has no place for it.
    """
    drawn = {FILES[quantity]: chart(records, quantity) for quantity in QUANTITIES}
    charts = {name: found for name, found in drawn.items() if found is not None}
    charts[CURVE] = staircase.chart(language, length)
    errors = exact_error_curve(language, length)
    if errors is not None and errors.constant.value > 0 and configuration["schedule"] == "linear":
        charts[CROSSOVER] = crossing.chart(errors.constant.value / length, length, records)
    if (found := rivals.chart(language, length)) is not None:
        charts[ORDERS] = found
    contents = drawings(charts) | numbers(
        "theory", records, origin=origin(**configuration) | {"language": language.source()}
    )
    return write(out, contents, LAST)


def chart(records: Sequence[Record], quantity: str) -> Any:
    """One quantity against N, both logarithmic, on white; None where nothing of it is above 0."""
    frame = pd.DataFrame([record for record in records if record["quantity"] == quantity])
    less = 1.0 if quantity == "ter_ratio" else 0.0
    for field in ("value", "low", "high"):
        frame[field] = frame[field].astype(float) - less
    frame = frame[(frame["value"] > (SEEN if quantity == "ser" else 0.0))]
    if frame.empty:
        return None
    measured, lines = frame[frame["kind"] == "measured"], frame[frame["kind"] != "measured"]
    names = list(dict.fromkeys(lines["name"]))
    bounds = [name for name in names if name != EXACT]
    looks = {name: COLOURS[i % len(COLOURS)] for i, name in enumerate(bounds)} | {EXACT: "#222222"}
    steps = sorted(set(frame["steps"]))
    axis = alt.Axis(values=steps, format="d", grid=False, labelOverlap="greedy", labelSeparation=5)
    x = alt.X("steps:Q", title="N, the number of rounds", axis=axis)
    x = x.scale(type="log", base=2, nice=False, domain=[steps[0] * 0.85, steps[-1] * 1.18])
    y = alt.Y("value:Q", title=AXES[quantity], axis=alt.Axis(format="~%", tickCount=6)).scale(type="log", nice=False)
    legend = alt.Legend(title=None, orient="bottom", columns=2, symbolType="stroke", symbolSize=300, labelLimit=320)
    colour = alt.Color("name:N", legend=legend).scale(domain=names, range=[looks[name] for name in names])
    dash = alt.StrokeDash("name:N", legend=legend)
    dash = dash.scale(domain=names, range=[[1, 0] if name == EXACT else [6, 4] for name in names])
    line = alt.Chart(lines).mark_line(strokeWidth=2).encode(x=x, y=y, color=colour, strokeDash=dash)
    spread = measured[(measured["high"] > measured["low"]) & (measured["low"] > 0)]
    interval = alt.Chart(spread).mark_rule(color=GREY, strokeWidth=1.5).encode(x=x, y="low:Q", y2="high:Q")
    points = alt.Chart(measured).mark_point(filled=True, size=60, color=INK, opacity=1).encode(x=x, y=y)
    both = alt.layer(line, interval, points).properties(width=WIDTH, height=HEIGHT)
    return alone(themed(both), heading(*TITLES[quantity]))
