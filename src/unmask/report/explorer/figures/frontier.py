"""Perplexity against entropy (docs/frontier.md).

Against the true entropy, the height above the line is the divergence. No line bounds perplexity against the entropy of
a sequence's own tokens, which is often reported.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import altair as alt

from unmask.diagnosis.frontier import LANGUAGE
from unmask.report.explorer.figure import FEW, ROWS, Figure, Row, layered, tooltip
from unmask.report.frame import INK
from unmask.report.results import Results

AXES = {"entropy": "H(p), nats per token: true", "unigram": "unigram entropy of a sequence, nats"}


def own(results: Results, across: str) -> list[Row]:
    """A row per point with both numbers; `end`: the last setting of a sampler; `sure`: its entropy is exact."""
    rows = []
    for point in results.frontier:
        place, up = point.get(across), point["cross_entropy"]
        if place is None or up is None or not math.isfinite(up):
            continue
        about = {"of": point["of"], "series": point["sampler"], "place": place, "value": up, "low": None, "high": None}
        shown = f"SER {point['ser']:.4g}" if point["ser"] is not None else "SER unknown"
        shown += f", {up - place:.4g} nats per token above the line" if across == "entropy" else ""
        about |= {"shown": shown, "setting": f"{point['setting']}", "order": point["setting"]}
        about["sure"] = across != "entropy" or bool(point.get("exact", True))
        rows.append(about | {"own": point["sampler"] == LANGUAGE})
    last = {row["series"]: row for row in rows}
    return [row | {"end": last[row["series"]] is row} for row in rows]


def draw(results: Results, across: str) -> Any:
    x = alt.X("place:Q", title=AXES[across], axis=alt.Axis(grid=False, tickCount=6)).scale(zero=False, padding=24)
    y = alt.Y("value:Q", title="log of generative perplexity, nats per token").scale(zero=False)
    names = list(dict.fromkeys(point["sampler"] for point in results.frontier))
    looks = [INK if name == LANGUAGE else FEW[n % len(FEW)] for n, name in enumerate(names)]
    scale = alt.Scale(domain=names, range=looks)
    colour = alt.Color("series:N", legend=None, scale=scale)
    base = alt.Chart(ROWS)
    path = base.transform_filter("!datum.own").mark_line(strokeWidth=2)
    path = path.encode(x=x, y=y, order="order:Q", color=colour, detail="series:N")
    tips = tooltip({"series": "sampler", "setting": "setting", "shown": "value"})
    points = base.mark_point(opacity=1).encode(x=x, y=y, color=colour, tooltip=tips)
    points = points.encode(
        size=alt.condition("datum.own", alt.value(170), alt.value(40)),
        shape=alt.condition("datum.own", alt.value("diamond"), alt.value("circle")),
        fill=alt.condition("datum.sure", alt.Fill("series:N", scale=scale, legend=None), alt.value("white")),
    )
    ends = base.transform_filter("datum.end").transform_window(rank="row_number()", sort=[alt.SortField("value")])
    layers: list[Any] = [path, points]
    left = ends.transform_filter("datum.rank % 2 == 0").mark_text(align="right", dx=-9, dy=-7, fontSize=12)
    right = ends.transform_filter("datum.rank % 2 == 1").mark_text(align="left", dx=9, dy=-7, fontSize=12)
    for name in (left, right):  # neighbouring names are on different sides of their points
        layers.append(name.encode(x=x, y=y, text="series:N", color=colour))
    if across == "entropy":
        line = base.mark_line(color=INK, strokeDash=[6, 4], opacity=0.6, strokeWidth=1)
        layers.insert(0, line.encode(x=x, y=alt.Y("place:Q")))
    return layered(*layers)


def _figure(place: int, name: str, across: str, under: str, caption: str) -> Figure:
    return Figure(
        name=name,
        place=place,
        options={"obeys": ("of",)},
        title="Perplexity against the true entropy" if across == "entropy" else "Perplexity against unigram entropy",
        under=under,
        caption=caption,
        draw=partial(draw, across=across),
        own=partial(own, across=across),
    )


FIGURES = [
    _figure(
        84,
        "frontier",
        "entropy",
        "the height above the dashed line is the divergence; diamond: the language itself",
        "Each line is one sampler at several temperatures. No line can lie below the dashed one. Hollow points show a "
        "lower bound of the entropy.",
    ),
    _figure(
        85,
        "frontier-unigram",
        "unigram",
        "the entropy that is often reported; diamond: the language itself",
        "A point can lie below that of the language: here a low perplexity proves little.",
    ),
]
