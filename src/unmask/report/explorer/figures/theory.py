"""`unmask theory figure`: bounds and exact values, the SER at which AR is as fast, and orders of positions."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import altair as alt
import numpy as np
import torch

from unmask.diagnosis.flops import model_calls
from unmask.diagnosis.table import EXACT
from unmask.languages import Language
from unmask.report.explorer.figure import HEIGHT, ROWS, WIDTH, Figure, Row, layered, parameters, tooltip
from unmask.report.frame import COLOURS, GREY, INK
from unmask.report.results import Results
from unmask.samplers import orders
from unmask.samplers.schedules import Fit, deltas
from unmask.theory.best_orders import headroom, of_orders
from unmask.theory.chains import first_order, order_divergence
from unmask.theory.crossover import model_calls_per_token, ser_at
from unmask.theory.known import curve, exact_error_curve

AXES = {"ser": "SER", "ter_ratio": "TER / TER of the language - 1"}
SMALLEST_SER, SMALLEST_KL = 1e-4, 1e-5  # on a logarithmic axis; KL in nats
LEGEND = alt.Legend(title=None, orient="bottom", columns=1, symbolType="stroke", symbolSize=300, labelLimit=320)
RATIOS = (0.1, 0.35, 0.7)  # AR tokens per model call, inverted; the second is the one of the poster
LEAST, MOST, POINTS = 1e-3, 0.999, 200  # allowed SER
STEPS, LONGEST = 8, 128  # of searched orders
ORDERS: dict[str, tuple[str, list[int]]] = {  # colour and dash
    "random order, linear": (COLOURS[0], [1, 0]),
    "random order, its best schedule": (COLOURS[0], [6, 4]),
    "dyadic": (COLOURS[3], [1, 0]),
    "best order": (COLOURS[1], [1, 0]),
    "best choice given the revealed tokens": (INK, [2, 3]),
}


def cases(results: Results) -> list[tuple[str, int, Language]]:
    """Names, lengths and languages of the theory tables."""
    pairs = dict.fromkeys((record["of"], record["length"]) for record in results.theory)
    known = ((of, length, results.language(of)) for of, length in pairs)
    return [(of, length, language) for of, length, language in known if language is not None]


def bounds(results: Results, quantity: str) -> list[Row]:
    """A row per record above 0, as the axis is logarithmic."""
    less, least = (1.0, 0.0) if quantity == "ter_ratio" else (0.0, SMALLEST_SER)
    rows: list[Row] = []
    for record in results.theory:
        ends = {n: None if record[n] is None else record[n] - less for n in ("value", "low", "high")}
        if record["quantity"] == quantity and ends["value"] is not None and ends["value"] > least:
            about = {"of": record["of"], "series": record["name"], "place": record["steps"], "part": record["kind"]}
            rows.append(about | ends | {"shown": f"{ends['value']:.4g}", "setting": f"N = {record['steps']}"})
    return rows


def draw_bounds(results: Results, quantity: str) -> Any:
    """Bounds are dashed lines, exact values solid lines, measurements points."""
    rows = bounds(results, quantity)
    names = list(dict.fromkeys(row["series"] for row in rows if row["part"] != "measured"))
    others = [name for name in names if name != EXACT]
    looks = {name: COLOURS[i % len(COLOURS)] for i, name in enumerate(others)} | {EXACT: INK}
    axis = alt.Axis(values=sorted({row["place"] for row in rows}), format="d", grid=False, labelOverlap="greedy")
    x = alt.X("place:Q", title="N, the number of steps", axis=axis).scale(type="log", base=2, nice=False, padding=14)
    y = alt.Y("value:Q", title=AXES[quantity], axis=alt.Axis(format="~%", tickCount=6)).scale(type="log", nice=False)
    colour = alt.Color("series:N", legend=LEGEND).scale(domain=names, range=[looks[name] for name in names])
    dash = alt.StrokeDash("series:N", legend=LEGEND)
    dash = dash.scale(domain=names, range=[[1, 0] if name == EXACT else [6, 4] for name in names])
    tips = tooltip({"series": "series", "setting": "setting", "shown": "value"})
    line = alt.Chart(ROWS).transform_filter("datum.part != 'measured'").mark_line(strokeWidth=2)
    line = line.encode(x=x, y=y, color=colour, strokeDash=dash, tooltip=tips)
    measured = alt.Chart(ROWS).transform_filter("datum.part == 'measured'")
    spread = measured.transform_filter("datum.high > datum.low && datum.low > 0").mark_rule(color=GREY, strokeWidth=1.5)
    points = measured.mark_point(filled=True, size=60, color=INK, opacity=1).encode(x=x, y=y, tooltip=tips)
    return layered(line, spread.encode(x=x, y="low:Q", y2="high:Q"), points)


def crossover(results: Results) -> list[Row]:
    """The formula for any length (`line`), the values of this length (`dot`), and lines of equal time (`even`)."""
    rows: list[Row] = []
    for of, length, language in cases(results):
        records = [r for r in results.theory if (r["of"], r["length"], r["quantity"]) == (of, length, "ser")]
        errors = exact_error_curve(language, length)
        if errors is None or errors.constant.value <= 0 or any(r["schedule"] != "linear" for r in records):
            continue
        constant, about = errors.constant.value / length, {"of": of, "series": of}
        grid = 1 / (1 + np.exp(-np.linspace(np.log(LEAST / (1 - LEAST)), np.log(MOST / (1 - MOST)), POINTS)))
        line = about | {"part": "line"}
        rows += [line | {"place": float(ser), "value": model_calls_per_token(constant, ser)} for ser in grid]
        for r in [r for r in records if r["name"] == EXACT] or [r for r in records if r["kind"] == "measured"]:
            if LEAST <= r["value"] <= MOST:
                calls = model_calls(deltas("linear", r["steps"]), length) / length
                rows.append(about | {"part": "dot", "place": r["value"], "value": calls})
        for ratio in RATIOS:
            ser = ser_at(constant, ratio)
            text = f"a model call takes {1 / ratio:.2g} AR tokens: faster above {ser:.2%}"
            rows.append(about | {"part": "even", "place": ser if ser >= LEAST else None, "value": ratio, "shown": text})
    return rows


def draw_crossover(results: Results) -> Any:
    x = alt.X("place:Q", title="allowed SER", axis=alt.Axis(format="~%", grid=False, tickCount=6))
    x = x.scale(type="log", domain=[LEAST, 1.0], nice=False)
    y = alt.Y("value:Q", title="model calls per token").scale(domain=[0, 1])
    line, dot, even = (alt.Chart(ROWS).transform_filter(f"datum.part == '{what}'") for what in ("line", "dot", "even"))
    formula = line.mark_line(strokeWidth=2.5, color=COLOURS[0]).encode(x=x, y=y)
    level = even.mark_rule(strokeDash=[6, 4], color=GREY).encode(y=y)
    text = even.mark_text(align="left", dx=4, dy=-7, fontSize=11, color=INK)
    text = text.encode(x=alt.value(0), y=y, text="shown:N")
    cross = even.mark_point(filled=True, size=70, shape="diamond", color=COLOURS[2], opacity=1).encode(x=x, y=y)
    dots = dot.mark_point(filled=True, size=55, color=INK, opacity=1).encode(x=x, y=y)
    return layered(level, formula, cross, dots, text)


def divergences(results: Results) -> list[Row]:
    """KL at N = 1..8 of first-order chains, at a length that is quick to search (theory.best_orders)."""
    rows: list[Row] = []
    for of, full, language in cases(results):
        chain, length = first_order(language), min(full, LONGEST)
        if chain is None or (choices := headroom(language, length, STEPS)) is None:
            continue
        hidden, information = torch.ones((1, length), dtype=torch.bool), curve(language, length)
        fit = Fit(language, length)
        for n, (order, choice) in enumerate(zip(of_orders(language, length, STEPS), choices, strict=True), 1):
            values = (
                information.divergence(deltas("linear", n)).value,
                information.divergence(deltas("optimal", n, fit)).value,
                float(order_divergence(chain, orders.dyadic(n, hidden))[0]),
                float(order),
                float(choice),
            )
            about = {"of": of, "place": n, "size": f"{length} tokens"}
            shown = [(name, v) for name, v in zip(ORDERS, values, strict=True) if v > SMALLEST_KL]
            rows += [about | {"series": name, "value": v} for name, v in shown]
    return rows


def draw_orders(results: Results) -> Any:
    colours, dashes = ([look[i] for look in ORDERS.values()] for i in (0, 1))
    colour = alt.Color("series:N", legend=LEGEND).scale(domain=list(ORDERS), range=colours)
    dash = alt.StrokeDash("series:N", legend=LEGEND).scale(domain=list(ORDERS), range=dashes)
    axis = alt.Axis(format="d", grid=False, values=list(range(1, STEPS + 1)))
    x = alt.X("place:Q", title="N, the number of steps", axis=axis)
    y = alt.Y("value:Q", title="KL(q || p of an order), nats", axis=alt.Axis(format="~g", tickCount=6))
    line = alt.Chart(ROWS).mark_line(strokeWidth=2.5)
    line = line.encode(x=x, y=y.scale(type="log", nice=False), color=colour, strokeDash=dash)
    return line.add_params(*parameters()).properties(width=WIDTH, height=HEIGHT)


DRAWN: dict[str, tuple[Callable[[Results], Any], Callable[[Results], list[Row]]]] = {
    "theory-ser": (partial(draw_bounds, quantity="ser"), partial(bounds, quantity="ser")),
    "theory-ter": (partial(draw_bounds, quantity="ter_ratio"), partial(bounds, quantity="ter_ratio")),
    "theory-crossover": (draw_crossover, crossover),
    "theory-orders": (draw_orders, divergences),
}
WORDS = {  # title and subtitle
    "theory-ser": ("SER: exact value and bounds", "dashed: bounds; points: measured, 95% intervals"),
    "theory-ter": (
        "TER: exact value and bounds",
        "above the language's own TER; points: measured mean over orders, itself an upper bound",
    ),
    "theory-crossover": (
        "SER above which masked diffusion is faster than AR",
        "line: formula for any length; dots: this length; dashed: time of a model call; AR is faster left of a diamond",
    ),
    "theory-orders": (
        "Divergence by the order of positions",
        f"at most {LONGEST} tokens; no random order beats the best fixed one, no rule the best choice",
    ),
}
FIGURES = [
    Figure(name, place, *WORDS[name], draw, own=own, options={"obeys": ("of",)})
    for place, (name, (draw, own)) in enumerate(DRAWN.items(), 90)
]
