"""The divergence of a schedule as an area: the information curve and the staircase of N steps (theory.md 7.2).

E KL(q || p_order) = sum_k delta_k h(p_k) - int h        step k adds the area between its stair and the curve
"""

from __future__ import annotations

from functools import partial
from typing import Any

import altair as alt
import numpy as np

from unmask.report.explorer.figure import ROWS, Figure, Row, colours, layered, tooltip
from unmask.report.frame import COLOURS, INK
from unmask.report.results import Results
from unmask.samplers.schedules import Fit, Schedule, deltas
from unmask.theory.chains import first_order
from unmask.theory.known import curve

STEPS, POINTS = 8, 96
BITS = 1 / np.log(2)
MOST_LENGTH = 512  # tokens; a longer curve looks the same


def own(results: Results, schedule: str) -> list[Row]:
    """The information curve of each language with a formula, its stairs, and the divergence of each stair."""
    rows: list[Row] = []
    for of in _names(results):
        language, length = results.language(of), _length(results, of)
        if language is None or length is None:
            continue
        information = curve(language, length)
        u = (np.arange(POINTS + 1) / POINTS) ** 2  # dense where h is steep
        h = information.h(u) * BITS / length
        delta = deltas(schedule, STEPS, Fit(language, length))
        begin = Schedule(delta).p.numpy()
        ends = [*begin[1:], 1.0]
        tops = information.h(begin) * BITS / length
        for number, (left, right, top) in enumerate(zip(begin, ends, tops, strict=True), 1):
            inside = (u >= left - 1e-12) & (u <= right + 1e-12)
            places = np.concatenate([[left], u[inside], [right]])
            heights = np.interp(places, u, h)
            loss = float(top * (right - left) - np.trapezoid(heights, places))
            about = {"of": of, "series": of, "step": number, "loss": loss, "shown": f"step {number}: {loss:.4f} bits"}
            rows += [
                about | {"place": float(p), "value": float(v), "high": float(top), "low": None}
                for p, v in zip(places, heights, strict=True)
            ]
    return rows


def _names(results: Results) -> list[str]:
    return list(dict.fromkeys([*results.choices("of"), *(record["of"] for record in results.theory)]))


def _length(results: Results, of: str) -> int | None:
    """The length of the drawn curve: that of a theory table, or the most frequent one; None without a formula."""
    language, tabulated = results.language(of), [r["length"] for r in results.theory if r["of"] == of]
    if tabulated:
        return int(tabulated[0])
    lengths = [p["length"] for p in results.points if p["of"] == of and p["length"]]
    if language is None or not lengths:
        return None
    known = language.closed_form is not None or first_order(language) is not None
    return min(max(lengths, key=lengths.count), MOST_LENGTH) if known else None


def draw(results: Results) -> Any:
    x = alt.X("place:Q", title="u, the revealed fraction", axis=alt.Axis(format="~%", grid=False, tickCount=5))
    x = x.scale(domain=[0, 1], nice=False)
    y = alt.Y("value:Q", title="h(u) / L, bits per token").scale(zero=False, padding=10)
    base = alt.Chart(ROWS)
    tips = tooltip({"shown": "divergence per token", "series": "of"})
    shade = base.mark_area(color=COLOURS[2], opacity=0.28).encode(x=x, y=y, y2="high:Q", detail="step:N", tooltip=tips)
    stair = base.mark_line(color=COLOURS[2], strokeWidth=1.5).encode(x=x, y=alt.Y("high:Q"), detail="step:N")
    line = base.mark_line(strokeWidth=2.5).encode(
        x=x, y=y, color=colours(results, "of") if results.points else alt.value(INK)
    )
    total = base.transform_aggregate(loss="max(loss)", groupby=["step"]).transform_aggregate(all="sum(loss)")
    total = total.transform_calculate(words="'divergence: ' + format(datum.all, '.4f') + ' bits per token'")
    text = total.mark_text(align="right", color=INK, fontSize=12)
    text = text.encode(x=alt.value("width"), y=alt.value(12), text="words:N")
    return layered(shade, stair, line, text)


def _figure(place: int, name: str, schedule: str) -> Figure:
    return Figure(
        name=name,
        place=place,
        options={"obeys": ("of",)},
        title=f"Divergence of the {schedule} schedule",
        under=f"shaded: extra bits per token of {STEPS} steps",
        caption=""
        if schedule == "optimal"
        else "The curve h(u) is the conditional entropy of a hidden token after a fraction u is revealed. The area "
        "below it is the entropy. Each step uses the value at its start, which gives the stairs. The area between "
        "is the divergence, which no better network removes.",
        draw=draw,
        needs=lambda results: any(_length(results, of) is not None for of in _names(results)),
        own=partial(own, schedule=schedule),
        usual=schedule == "linear",
    )


FIGURES = [_figure(82, "schedule", "linear"), _figure(83, "schedule-optimal", "optimal")]
