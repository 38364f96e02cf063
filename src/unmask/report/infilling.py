"""Infilling: hidden tokens in the middle, in two parts or at the end, by an MDM and by AR, which sees the left side."""

from __future__ import annotations

from unmask.core.errors import needed
from unmask.report.charts import Drawn, Keys, Row, Sentence, bars, base, below, colour, dots, finished, row, tips, up
from unmask.report.results import Point
from unmask.report.select import different, indexed, where
from unmask.report.verdict import Shown, keys_of, pace

with needed("pages", "a figure"):
    import altair as alt

PLACES = ("middle", "two", "end")
MEASURES = {  # title and definition
    "infill_loss_nats": ("Infilling: loss of a hidden token", "nats, by the chain rule from left to right"),
    "infill_ser": ("Infilling: impossible sequences", "fraction of filled sequences that are impossible"),
    "infill_divergence_nats": ("Infilling: divergence", "KL in nats of the hidden tokens, for an MDM at most"),
}
UNDER = "lower is better; AR sees the left side alone"
OF_AR = "AR, left side"


def infilled(shown: Shown, measure: str) -> Drawn | None:
    """A measure for each part of the sequence that is hidden."""
    points = shown.results.of(measure)
    if not points:
        return None

    title, meaning = MEASURES[measure]
    keys = Keys.of(shown, keys_of(points, ("of",)))
    rows = [_row(shown, p, keys.values.index({"of": p["of"]}), measure) for p in points]
    rows = list(indexed(rows, "k", "series", "x").values())
    series = different(rows, "series")

    own, look = base(rows), {"color": colour(shown, series, legend=below()), "xOffset": alt.XOffset("series:N")}
    x = alt.X("x:N", title="hidden tokens", sort=list(PLACES), axis=alt.Axis(labelAngle=0))
    y = up(None, share=measure == "infill_ser")
    layers = [bars(own, x, y, **look), dots(own, 70).encode(x=x, y=y, tooltip=tips("by"), **look)]
    sentences = [Sentence(_said(of["of"], k, rows), keys.choices(k)) for k, of in enumerate(keys.values)]
    return Drawn(title, f"{meaning}; {UNDER}", finished(layers, title, *keys.now()), rows, sentences)


def _row(shown: Shown, point: Point, k: int, measure: str) -> Row:
    options = dict(one.split("=", 1) for one in (point["setting"] or "").split(", ") if "=" in one)
    both = "MDM, both sides" if measure == "infill_loss_nats" else f"MDM, {pace(point)}"  # its loss has no steps
    return row(shown, point, k, OF_AR if point["kind"] == "ar" else both, options.get("where", PLACES[0]))


def _said(of: str, k: int, rows: list[Row]) -> str:
    parts = [f"{r['x']}: {r['series']} {r['said']}" for place in PLACES for r in where(rows, k=k, x=place)]
    return f"{of}: {'; '.join(parts)}."
