"""Where the error of a schedule is made: the information curve, and above it the staircase of N rounds (theory.md 7.2).

E KL(q || p_order) = sum_k delta_k h(p_k) - int h        round k pays what lies between its stair and the curve
"""

from __future__ import annotations

from typing import Any

import altair as alt
import numpy as np

from unmask.report.explorer.figure import HEIGHT, ROWS, WIDTH, Figure, Row, parameters
from unmask.report.explorer.looks import colours
from unmask.report.frame import COLOURS, INK
from unmask.report.results import Results
from unmask.schedules import Schedule, deltas
from unmask.theory.chains import first_order
from unmask.theory.known import curve

ROUNDS, POINTS = 8, 96
BITS = 1 / np.log(2)
MOST_LENGTH = 512  # tokens: a curve of more is the same to the eye


def own(results: Results) -> list[Row]:
    """Of each language whose curve is known by a formula: the curve, linear stairs, and what each pays."""
    found: list[Row] = []
    for of in results.choices("of"):
        language, length = results.language(of), _length(results, of)
        if language is None or length is None:
            continue
        information = curve(language, length)
        u = (np.arange(POINTS + 1) / POINTS) ** 2  # dense where h is steep
        h = information.h(u) * BITS / length
        delta = deltas("linear", ROUNDS)
        begin = Schedule(delta).p.numpy()
        ends = [*begin[1:], 1.0]
        tops = information.h(begin) * BITS / length
        for number, (left, right, top) in enumerate(zip(begin, ends, tops, strict=True), 1):
            inside = (u >= left - 1e-12) & (u <= right + 1e-12)
            places = np.concatenate([[left], u[inside], [right]])
            heights = np.interp(places, u, h)
            paid = float(top * (right - left) - np.trapezoid(heights, places))
            about = {"of": of, "series": of, "round": number, "paid": paid, "shown": f"round {number}: {paid:.4f} bits"}
            found += [
                about | {"place": float(p), "value": float(v), "high": float(top), "low": None}
                for p, v in zip(places, heights, strict=True)
            ]
    return found


def _length(results: Results, of: str) -> int | None:
    """At which its curve is drawn; None where no formula has it."""
    lengths = [p["length"] for p in results.points if p["of"] == of and p["length"]]
    language = results.language(of)
    if language is None or not lengths:
        return None
    known = language.closed_form is not None or first_order(language) is not None
    return min(max(lengths, key=lengths.count), MOST_LENGTH) if known else None


def draw(results: Results) -> Any:
    x = alt.X("place:Q", title="u, the share that is revealed", axis=alt.Axis(format="~%", grid=False, tickCount=5))
    x = x.scale(domain=[0, 1], nice=False)
    y = alt.Y("value:Q", title="h(u) / L, bits a token").scale(zero=False, padding=10)
    base = alt.Chart(ROWS)
    told = [alt.Tooltip("shown:N", title="pays a token"), alt.Tooltip("series:N", title="of")]
    shade = base.mark_area(color=COLOURS[2], opacity=0.28).encode(x=x, y=y, y2="high:Q", detail="round:N", tooltip=told)
    stair = base.mark_line(color=COLOURS[2], strokeWidth=1.5).encode(x=x, y=alt.Y("high:Q"), detail="round:N")
    line = base.mark_line(strokeWidth=2.5).encode(x=x, y=y, color=colours(results, "of"))
    words = base.transform_aggregate(paid="max(paid)", groupby=["round"]).transform_aggregate(all="sum(paid)")
    text = words.transform_calculate(said="'all ' + format(datum.all, '.4f') + ' bits a token'")
    text = text.mark_text(align="right", color=INK, fontSize=12).encode(
        x=alt.value("width"), y=alt.value(12), text="said:N"
    )
    drawn = alt.layer(shade, stair, line, text)
    return drawn.add_params(*parameters()).properties(width=WIDTH, height=HEIGHT)


FIGURES = [
    Figure(
        name="schedule",
        place=62,
        prepare="plain",
        options={"obeys": ("of",)},
        title="Where the error is made",
        under=f"shaded: what each of {ROUNDS} rounds of the linear schedule pays beyond the language's own entropy",
        caption="The curve h(u) is what a token is worth after a share u of them is revealed; the area below it is the "
        "entropy. A round prices all of its tokens as at its beginning, hence a stair, and what lies between is the "
        "divergence, which no better network removes.",
        draw=draw,
        wanted=lambda results: any(_length(results, of) is not None for of in results.choices("of")),
        own=own,
    )
]
