"""Bounds of theorems, exact values and measurements of SER and TER, against N: `unmask theory figure`."""

from __future__ import annotations

from functools import partial
from typing import Any

import altair as alt

from unmask.diagnosis.table import EXACT
from unmask.languages import Language
from unmask.report.explorer.figure import HEIGHT, ROWS, WIDTH, Figure, Row, parameters
from unmask.report.frame import COLOURS, GREY, INK
from unmask.report.results import Results

AXES = {"ser": "SER", "ter_ratio": "TER / TER of the language - 1"}
SEEN = 1e-4  # of an SER on a logarithmic axis


def cases(results: Results) -> list[tuple[str, int, Language]]:
    """Names, lengths and languages of the theory tables."""
    found = dict.fromkeys((record["of"], record["length"]) for record in results.theory)
    known = ((of, length, results.language(of)) for of, length in found)
    return [(of, length, language) for of, length, language in known if language is not None]


def own(results: Results, quantity: str) -> list[Row]:
    """A row per record above 0: a logarithmic axis has no place for others."""
    less, least = (1.0, 0.0) if quantity == "ter_ratio" else (0.0, SEEN)
    found: list[Row] = []
    for record in results.theory:
        ends = {n: None if record[n] is None else record[n] - less for n in ("value", "low", "high")}
        if record["quantity"] == quantity and ends["value"] is not None and ends["value"] > least:
            about = {"of": record["of"], "series": record["name"], "place": record["steps"], "what": record["kind"]}
            found.append(about | ends | {"shown": f"{ends['value']:.4g}", "rounds": f"N = {record['steps']}"})
    return found


def draw(results: Results, quantity: str) -> Any:
    """Bounds are dashed lines, exact values solid lines, measurements points."""
    rows = own(results, quantity)
    names = list(dict.fromkeys(row["series"] for row in rows if row["what"] != "measured"))
    bounds = [name for name in names if name != EXACT]
    looks = {name: COLOURS[i % len(COLOURS)] for i, name in enumerate(bounds)} | {EXACT: INK}
    axis = alt.Axis(values=sorted({row["place"] for row in rows}), format="d", grid=False, labelOverlap="greedy")
    x = alt.X("place:Q", title="N, the number of steps", axis=axis).scale(type="log", base=2, nice=False, padding=14)
    y = alt.Y("value:Q", title=AXES[quantity], axis=alt.Axis(format="~%", tickCount=6)).scale(type="log", nice=False)
    legend = alt.Legend(title=None, orient="bottom", columns=2, symbolType="stroke", symbolSize=300, labelLimit=320)
    colour = alt.Color("series:N", legend=legend).scale(domain=names, range=[looks[name] for name in names])
    dash = alt.StrokeDash("series:N", legend=legend)
    dash = dash.scale(domain=names, range=[[1, 0] if name == EXACT else [6, 4] for name in names])
    told = [alt.Tooltip(f"{name}:N") for name in ("series", "rounds", "shown")]
    line = alt.Chart(ROWS).transform_filter("datum.what != 'measured'").mark_line(strokeWidth=2)
    line = line.encode(x=x, y=y, color=colour, strokeDash=dash, tooltip=told)
    measured = alt.Chart(ROWS).transform_filter("datum.what == 'measured'")
    spread = measured.transform_filter("datum.high > datum.low && datum.low > 0").mark_rule(color=GREY, strokeWidth=1.5)
    points = measured.mark_point(filled=True, size=60, color=INK, opacity=1).encode(x=x, y=y, tooltip=told)
    drawn = alt.layer(line, spread.encode(x=x, y="low:Q", y2="high:Q"), points)
    return drawn.add_params(*parameters()).properties(width=WIDTH, height=HEIGHT)


def _figure(place: int, name: str, quantity: str, title: str, under: str) -> Figure:
    return Figure(
        name=name,
        place=place,
        options={"obeys": ("of",)},
        title=title,
        under=under,
        draw=partial(draw, quantity=quantity),
        own=partial(own, quantity=quantity),
    )


FIGURES = [
    _figure(90, "theory-ser", "ser", "SER: exact value and bounds", "dashed: bounds; points: measured, 95% intervals"),
    _figure(
        91,
        "theory-ter",
        "ter_ratio",
        "TER: exact value and bounds",
        "above the language's own TER; points: measured mean over orders, itself an upper bound",
    ),
]
