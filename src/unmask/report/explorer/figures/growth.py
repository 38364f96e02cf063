"""The steps and model calls that an SER takes against the length; SER of trained networks of both kinds of noise."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import Any

import altair as alt

from unmask.core.estimates import Estimate
from unmask.report.explorer.figure import FEW, ROWS, Figure, Row, layered, tooltip
from unmask.report.explorer.figures.steps import samplers
from unmask.report.frame import GREY, INK
from unmask.report.results import IDEAL, TRAINED, Point, Results

MEASURE = "steps_for_ser"
TARGETS = ("0.5", "0.1", "0.01")
PLAIN = "linear"
LOOKS = (INK, *FEW, GREY)  # of masks, then of the others
MASKS, UNIFORM = "ancestral", "uniform-ancestral"
NOISES = {MASKS: "masks", UNIFORM: "uniform noise"}
LOOK_OF = {TRAINED: [1, 0], IDEAL: [5, 4]}


def label(point: Point) -> str:
    """The sampler, and its schedule if it is not the linear one of masks."""
    name = NOISES.get(point["sampler"]) or str(point["sampler"])
    return name if point["schedule"] == PLAIN and point["sampler"] != UNIFORM else f"{name}, {point['schedule']}"


def labels(results: Results) -> list[str]:
    """Masks, uniform noise, then the others."""
    order = {MASKS: 0, UNIFORM: 1}
    ordered = sorted(results.of(MEASURE), key=lambda p: order.get(p["sampler"], 2))
    return list(dict.fromkeys(map(label, ordered)))


@dataclass(frozen=True)
class Shown:
    """The y axis of a figure: a field of a measure of each search."""

    title: str
    axis: str
    under: str
    suffix: str = ""
    measure: str = MEASURE
    field: str = "value"


SLOPE = "parallel to the dotted line: proportional to the length; nearly flat: with its logarithm"
STEPS = Shown("Steps", "N, the number of steps needed", SLOPE)
CALLS = Shown("Model calls", "model calls per sequence", SLOPE, "-calls", field="model_calls")
DISTANCE = Shown(
    "Distance of bigrams at the steps",
    "total variation of bigrams",
    "to the language; correct sequences of few steps have other frequencies; lower is better",
    "-distance",
    measure="bigram_distance",
)


def own(results: Results, target: str, what: Shown) -> list[Row]:
    """A row per language, length and sampler."""
    rows = []
    for point in sorted(results.of(what.measure), key=lambda p: p["length"]):
        if point["setting"] != f"ser={target}" or point[what.field] is None:
            continue
        ends = {end: point[end] if what.field == "value" else None for end in ("low", "high")}
        about = {
            "of": point["of"],
            "series": label(point),
            "place": point["length"],
            "value": point[what.field],
            **ends,
        }
        shown = f"{Estimate.of_record(point)}, {point['model_calls']:.4g} model calls"
        about |= {"shown": shown, "setting": f"L = {point['length']}, SER {float(target):.0%}"}
        rows.append(about | {"at": point["number"], "kind": "mdm", "cost": "", "sample": ""})
    return rows


def draw(results: Results, what: Shown) -> Any:
    """Both axes logarithmic, but the distance; N = L, as AR, is a dotted line."""
    x = alt.X("place:Q", title="L, the number of tokens", axis=alt.Axis(format="d", grid=False, tickCount=5))
    x = x.scale(type="log", base=2, nice=False, padding=12)
    y = alt.Y("value:Q", title=what.axis, axis=alt.Axis(format="~g", tickCount=6))
    y = y.scale(zero=True) if what is DISTANCE else y.scale(type="log", nice=False, padding=12)
    names = labels(results)
    scale = alt.Scale(domain=names, range=[LOOKS[n % len(LOOKS)] for n in range(len(names))])
    colour = alt.Color(
        "series:N", scale=scale, legend=alt.Legend(title=None, orient="bottom", columns=1, labelLimit=400)
    )
    base = alt.Chart(ROWS)
    line = base.mark_line(strokeWidth=2).encode(x=x, y=y, color=colour, detail="series:N")
    spread = base.transform_filter("datum.high > datum.low").mark_rule()
    spread = spread.encode(x=x, y=alt.Y("low:Q"), y2="high:Q", color=colour)
    dots = base.mark_point(filled=True, size=60).encode(x=x, y=y, color=colour, tooltip=tooltip())
    same = base.mark_line(color=INK, strokeDash=[2, 3], opacity=0.5).encode(x=x, y=alt.Y("place:Q"))
    layers = [line, spread, dots] if what is DISTANCE else [same, line, spread, dots]
    return layered(*layers)


DRAWN = {what: partial(draw, what=what) for what in (STEPS, CALLS, DISTANCE)}


def learned(results: Results) -> list[Row]:
    """A row per language, N, noise and denoiser: SER."""
    rows = []
    for point in sorted(results.of("ser"), key=lambda p: (p["model"], p["model_calls"] or 0)):
        if point["sampler"] not in NOISES or not point["model_calls"] or point["model"] not in LOOK_OF:
            continue
        about = {"of": point["of"], "series": f"{NOISES[point['sampler']]}, {point['model']}"}
        about |= {"place": point["model_calls"], "model": point["model"], "noise": NOISES[point["sampler"]]}
        about |= {name: point[name] for name in ("value", "low", "high")} | {"shown": str(Estimate.of_record(point))}
        setting = f"N = {point['steps']}, {point['model_calls']:.4g} model calls"
        rows.append(about | {"setting": setting, "at": point["number"], "kind": "mdm", "cost": "", "sample": ""})
    return rows


def draw_learned(results: Results) -> Any:
    """Color: noise; dashes: the exact denoiser."""
    x = alt.X("place:Q", title="model calls per sequence", axis=alt.Axis(format="~g", grid=False, tickCount=6))
    x = x.scale(type="log", base=2, nice=False, padding=12)
    y = alt.Y("value:Q", title="SER", axis=alt.Axis(format="%", tickCount=6)).scale(domain=[0, 1])
    legend = alt.Legend(title=None, orient="bottom")
    scale = alt.Scale(domain=list(NOISES.values()), range=[INK, FEW[0]])
    colour = alt.Color("noise:N", scale=scale, legend=legend)
    dash = alt.StrokeDash("model:N", legend=legend)
    dash = dash.scale(domain=list(LOOK_OF), range=list(LOOK_OF.values()))
    base = alt.Chart(ROWS)
    line = base.mark_line(strokeWidth=2).encode(x=x, y=y, color=colour, strokeDash=dash, detail="series:N")
    spread = base.transform_filter("datum.high > datum.low").mark_rule()
    spread = spread.encode(x=x, y=alt.Y("low:Q"), y2="high:Q", color=colour)
    dots = base.mark_point(filled=True, size=60).encode(x=x, y=y, color=colour, tooltip=tooltip())
    return layered(line, spread, dots)


def _both(results: Results) -> bool:
    """Whether both kinds of noise have trained networks and an exact denoiser."""
    return len({row["series"] for row in learned(results)}) == len(NOISES) * len(LOOK_OF)


def _figure(number: int, target: str, what: Shown) -> Figure:
    return Figure(
        name=f"growth-{target.partition('.')[2]}{what.suffix}",
        place=61 + number,
        options={"obeys": ("of",)},
        title=f"{what.title} for an SER of {float(target):.0%} against sequence length",
        under=what.under,
        caption="" if what is DISTANCE else "Dotted: one per token, as AR. Missing points were out of reach.",
        draw=DRAWN[what],
        needs=lambda results: len(samplers(results)) > 1 and bool(own(results, target, what)),
        own=partial(own, target=target, what=what),
    )


FIGURES = [_figure(n, target, what) for n, (what, target) in enumerate(product(DRAWN, TARGETS))] + [
    Figure(
        name="growth-networks",
        place=59,
        options={"obeys": ("of",)},
        title="SER of trained networks against model calls: masks and uniform noise",
        under="dashed: the exact denoiser; the distance above it is learning error",
        caption="Networks with the same layers, trained on the same number of tokens.",
        draw=draw_learned,
        needs=_both,
        own=learned,
    )
]
