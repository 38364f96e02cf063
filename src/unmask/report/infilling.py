"""Infilling: hidden tokens in the middle, in two parts or at the end, by an MDM and by AR, which sees the left side."""

from __future__ import annotations

import re

from unmask.core.errors import needed
from unmask.report.charts import Drawn, Keys, Row, bars, base, below, colour, dots, finished, row, tips, up
from unmask.report.results import Point
from unmask.report.select import Fields, different, indexed
from unmask.report.verdict import Shown, keys_of, pace

with needed("pages", "a figure"):
    import altair as alt

PLACES = ("middle", "two", "end")
MEASURES = {  # of a store; title and definition
    "loss": ("infill_loss_nats", "Infilling: loss of a hidden token", "nats, by the chain rule from left to right"),
    "ser": ("infill_ser", "Infilling: impossible sequences", "fraction of filled sequences that are impossible"),
    "divergence": (
        "infill_divergence_nats",
        "Infilling: divergence",
        "KL in nats of the hidden tokens, for an MDM at most",
    ),
}
UNDER = "lower is better; AR sees the left side alone"
OF_AR = "AR, left side"


def infilled(shown: Shown, measure: str) -> Drawn | None:
    """A measure for each part of the sequence that is hidden."""
    name, title, meaning = MEASURES[measure]
    points = shown.results.of(name)
    if not points:
        return None

    keys = Keys.of(shown, keys_of(points, ("of",)))
    every = [_row(shown, p, keys.values.index({"of": p["of"]}), measure) for p in points]
    rows = list(indexed(every, "k", "series", "x").values())
    series = different(rows, "series")

    own, look = base(rows), {"color": colour(shown, series, legend=below()), "xOffset": alt.XOffset("series:N")}
    x = alt.X("x:N", title="hidden tokens", sort=list(PLACES), axis=alt.Axis(labelAngle=0))
    y = up(None, share=measure == "ser")
    layers = [bars(own, x, y, **look), dots(own, 70).encode(x=x, y=y, tooltip=tips("by"), **look)]
    definition = finished(layers, title, *keys.now())
    return Drawn(title, f"{meaning}; {UNDER}", definition, rows, keys.sentences(rows, _said))


def _row(shown: Shown, point: Point, k: int, measure: str) -> Row:
    options = dict(re.findall(r"(\w+)=(\w+)", point["setting"] or ""))
    both = "MDM, both sides" if measure == "loss" else f"MDM, {pace(point)}"  # its loss has no steps
    return row(shown, point, k, OF_AR if point["kind"] == "ar" else both, options.get("where", PLACES[0]))


def _said(values: Fields, rows: list[Row]) -> str:
    in_order = sorted(rows, key=lambda row: PLACES.index(row["x"]))
    return f"{values['of']}: {'; '.join(map('{x}: {series} {said}'.format_map, in_order))}."
