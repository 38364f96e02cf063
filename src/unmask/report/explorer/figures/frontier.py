"""Perplexity against the entropy that is true: what is above the line is the divergence (docs/frontier.md)."""

from __future__ import annotations

import math
from typing import Any

import altair as alt

from unmask.diagnosis.frontier import LANGUAGE
from unmask.report.explorer.figure import HEIGHT, ROWS, WIDTH, Figure, Row, parameters
from unmask.report.explorer.looks import PALETTE
from unmask.report.frame import INK
from unmask.report.results import Results


def own(results: Results) -> list[Row]:
    """A row a point that has both; `end` where a sampler's name stands, at the most of what it was swept over."""
    found = []
    for point in results.frontier:
        across, up = point["entropy"], point["cross_entropy"]
        if across is None or up is None or not math.isfinite(up):
            continue
        about = {"of": point["of"], "series": point["sampler"], "place": across, "value": up, "low": None, "high": None}
        said = f"SER {point['ser']:.4g}" if point["ser"] is not None else "SER unknown"
        about |= {"shown": f"{said}, {up - across:.4g} nats a token above the line", "rounds": f"{point['setting']}"}
        found.append(about | {"order": point["setting"], "own": point["sampler"] == LANGUAGE})
    last = {row["series"]: row for row in found}
    return [row | {"end": last[row["series"]] is row} for row in found]


def draw(results: Results) -> Any:
    x = alt.X("place:Q", title="H(p), nats a token: true", axis=alt.Axis(grid=False, tickCount=6)).scale(zero=False)
    y = alt.Y("value:Q", title="log of generative perplexity, nats a token").scale(zero=False)
    names = list(dict.fromkeys(point["sampler"] for point in results.frontier))
    colour = alt.Color("series:N", legend=None).scale(
        domain=names, range=[INK if name == LANGUAGE else PALETTE[n % len(PALETTE)] for n, name in enumerate(names)]
    )
    told = [
        alt.Tooltip(f"{n}:N", title=t) for n, t in {"series": "sampler", "rounds": "setting", "shown": "is"}.items()
    ]
    base = alt.Chart(ROWS)
    least = base.mark_line(color=INK, strokeDash=[6, 4], opacity=0.6, strokeWidth=1).encode(x=x, y=alt.Y("place:Q"))
    path = base.transform_filter("!datum.own").mark_line(strokeWidth=2)
    path = path.encode(x=x, y=y, order="order:Q", color=colour, detail="series:N")
    points = base.mark_point(filled=True, opacity=1).encode(x=x, y=y, color=colour, tooltip=told)
    points = points.encode(
        size=alt.condition("datum.own", alt.value(170), alt.value(40)),
        shape=alt.condition("datum.own", alt.value("diamond"), alt.value("circle")),
    )
    name = base.transform_filter("datum.end").mark_text(align="left", dx=9, dy=-6, fontSize=12)
    drawn = alt.layer(least, path, points, name.encode(x=x, y=y, text="series:N", color=colour))
    return drawn.add_params(*parameters()).properties(width=WIDTH, height=HEIGHT)


FIGURES = [
    Figure(
        name="frontier",
        place=63,
        prepare="plain",
        options={"obeys": ("of",)},
        title="Perplexity against the entropy that is true",
        under="the height above the dashed line is the divergence; diamond: the language itself",
        caption="Each line is one sampler, its temperature swept. Left and low is a sampler that says little: what no "
        "line can do is to lie below the dashed one, where perplexity would be less than the entropy allows.",
        draw=draw,
        wanted=lambda results: len(own(results)) > 1,
        own=own,
    )
]
