"""A board as files, and drawn: errors and diversity against evaluations, one small multiple a language."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import altair as alt
import pandas as pd

from unmask.experiments.board.grid import Settings, recipe
from unmask.experiments.board.run import Board, of_sweep
from unmask.experiments.board.standings import Record
from unmask.report import frame, labels, whole
from unmask.report.frame import INK
from unmask.report.kinds import ORACLES, bare, colour
from unmask.report.publishing import Made, Page

WIDTH, HEIGHT, LOW_HEIGHT = 330, 300, 170  # of a panel, in pixels
SIZES = alt.value(28), alt.value(9)  # of a point of a line that has a name, and of one that has none
REPEATS = "below 100%: repeats itself"
MOST_DIVERSE = 1.5  # what is above has no structure at all, and need not be told apart
FIRST = ("ancestral", *ORACLES, "strided", "low-confidence", "gibbs", "entropy", "speculative", "remdm")
MANY = 10  # lines: beyond that only the first have names
TITLE = (
    "Which positions are revealed together decides more than how many",
    "to the left: fewer evaluations; down: fewer wrong sequences; below 100% diversity: it repeats itself",
)
HEADING: dict[str, Any] = {"fontSize": 18, "offset": 16}  # how it looks


def contents(board: Board, settings: Settings, made: Made) -> dict[str, bytes]:
    """All files by name."""
    chart = frame.alone(frame.themed(panels(board.records)), frame.heading(*TITLE, **HEADING))
    about = {"origin": made.origin, "seconds": made.seconds, "settings": asdict(settings)}
    about["failures"] = [asdict(failure) for failure in board.failures]
    found = frame.numbers("board", board.records, **about) | frame.drawings({"board": chart})
    return found | whole.page(made.explorer, made.origin, found)


PAGE: Page[Settings, Board] = Page("board.json", recipe, of_sweep, contents)


def panels(records: Sequence[Record]) -> alt.HConcatChart:
    """A column for each language and length: SER above, diversity below."""
    data = pd.DataFrame([_readable(r) for r in records if r["measure"] in ("ser", "diversity")])
    data = data[data["value"].notna() & (data["sampler"] != "autoregressive")].filter(items=FIELDS)
    places = list(dict.fromkeys(zip(data["language"], data["length"], strict=True)))
    columns = []
    for language, length in places:
        here = data[(data["language"] == language) & (data["length"] == length)]
        first = (language, length) == places[0]
        above = _panel(here[here["measure"] == "ser"], length, language, first)
        below = _panel(here[here["measure"] == "diversity"], length, "", first)
        columns.append(alt.vconcat(above, below, spacing=14))
    return alt.hconcat(*columns, spacing=28)


def _panel(data: pd.DataFrame, length: int, title: str, first: bool) -> Any:
    """Lines, bands, points and names of one language; AR at the right end. A line without a name is thin."""
    errors = bool(title)
    height, top = (HEIGHT, 1.0) if errors else (LOW_HEIGHT, MOST_DIVERSE)
    end = length * 1.35
    ticks = [2**i for i in range(int(math.log2(length)) + 1)]
    across = alt.Axis(values=ticks, format="d", grid=False, labelOverlap="greedy", labelSeparation=4, labels=not errors)
    name = None if errors else f"evaluations a sequence (L = {length} tokens)"
    x = alt.X("evaluations:Q", title=name, axis=across).scale(type="log", base=2, nice=False, domain=[0.9, end])
    said = "SER: share of wrong sequences" if errors else "diversity of samples"
    y = alt.Y("value:Q", title=said if first else None, axis=alt.Axis(format=".0%", tickCount=5 if errors else 4))
    y = y.scale(domain=[0, top], nice=False, clamp=True)
    data = data.assign(value=data["value"].clip(upper=top)).sort_values("evaluations")
    names = sorted(dict.fromkeys(data["sampler"]), key=_rank)
    colours = alt.Scale(domain=names, range=[colour(name) for name in names])
    look: dict[str, Any] = {"color": alt.Color("sampler:N", scale=colours, legend=None), "detail": "sampler:N"}
    heads = [name for name in names if len(names) <= MANY or bare(name) in FIRST]
    written = _names({name: data[data["sampler"] == name] for name in heads}, height, top, end)
    named = data["sampler"].isin(written["sampler"])
    seer = data["sampler"].map(bare).isin(ORACLES)
    band = alt.Chart(data[named]).mark_area(opacity=0.13).encode(x=x, y=alt.Y("low:Q"), y2="high:Q", **look)
    thin = alt.Chart(data[~named & ~seer]).mark_line(strokeWidth=1, opacity=0.6).encode(x=x, y=y, **look)
    thick = alt.Chart(data[named & ~seer]).mark_line(strokeWidth=2).encode(x=x, y=y, **look)
    dashed = alt.Chart(data[seer]).mark_line(strokeWidth=2, strokeDash=[6, 4]).encode(x=x, y=y, **look)
    told = [alt.Tooltip(f"{field}:N", title=title) for field, title in TOOLTIP.items()]
    dots = alt.Chart(data).mark_point(filled=True, opacity=1).encode(x=x, y=y, tooltip=told, **look)
    dots = dots.encode(size=alt.condition(alt.FieldOneOfPredicate("sampler", list(written["sampler"])), *SIZES))
    parts: list[Any] = [*_autoregression(length, errors, x), *([band] if errors else []), thin, thick, dashed, dots]
    for side in ("left", "right"):
        text = alt.Chart(written[written["side"] == side]).mark_text(align=side, baseline="middle", fontSize=11)
        parts.append(text.encode(x=alt.X("px:Q", scale=None), y=alt.Y("py:Q", scale=None), text="sampler:N", **look))
    drawn: Any = alt.layer(*parts)
    return drawn.properties(width=WIDTH, height=height, title=title)


def _autoregression(length: int, errors: bool, x: alt.X) -> list[alt.Chart]:
    """As many evaluations as tokens, and no error; in diversity, the language's own."""
    at = pd.DataFrame({"evaluations": [length], "value": [0.0 if errors else 1.0], "text": ["AR"]})
    base = alt.Chart(at).encode(x=x)
    rule = base.mark_rule(color=INK, opacity=0.4, strokeDash=[2, 3])
    point = base.mark_point(shape="diamond", size=150, filled=True, color=INK, opacity=1).encode(y="value:Q")
    if errors:
        label = base.mark_text(color=INK, align="left", dx=9, dy=-8, fontSize=12).encode(y="value:Q", text="text")
        return [rule, point, label]
    own = alt.Chart(at).mark_rule(color=INK, opacity=0.4, strokeDash=[2, 3]).encode(y="value:Q")
    words = alt.Chart(pd.DataFrame({"x": [5], "y": [LOW_HEIGHT - 9], "text": [REPEATS]}))
    words = words.mark_text(color=INK, opacity=0.7, align="left", baseline="middle", fontSize=11, fontStyle="italic")
    words = words.encode(x=alt.X("x:Q", scale=None), y=alt.Y("y:Q", scale=None), text="text:N")
    return [rule, own, point, words]


def _names(lines: dict[str, pd.DataFrame], height: float, top: float, end: float) -> pd.DataFrame:
    """Where each line's name stands, in pixels; the bottom of the lower panel is taken."""

    def across(evaluations: float) -> float:
        return WIDTH * math.log(evaluations / 0.9) / math.log(end / 0.9)

    pixels = {
        name: [(across(e), height * (1 - v / top)) for e, v in zip(line["evaluations"], line["value"], strict=True)]
        for name, line in lines.items()
    }
    taken = [] if top == 1.0 else [(0.0, height - 18, 10 + labels.LETTER * len(REPEATS), height)]
    placed = labels.place(pixels, WIDTH, height, taken)
    rows = [{"sampler": name, "px": px, "py": py, "side": side} for name, (px, py, side) in placed.items()]
    return pd.DataFrame(rows, columns=["sampler", "px", "py", "side"])


def _rank(specification: str) -> tuple[int, int]:
    """Who chooses a place for its name first."""
    name = bare(specification)
    return FIRST.index(name) if name in FIRST else len(FIRST), len(specification)


TOOLTIP = {"sampler": "sampler", "setting": "budget", "cost": "evaluations a row", "shown": "value"}
FIELDS = ["measure", "language", "length", "value", "low", "high", "evaluations", *TOOLTIP]


def _readable(r: Record) -> dict[str, Any]:
    """A record with its columns for the tooltip."""
    shown = f"{r['value']:.3g} [{r['low']:.3g}, {r['high']:.3g}]" if r["value"] is not None else ""
    return r | {"shown": shown, "setting": f"{r['knob']} = {r['budget']}", "cost": f"{r['evaluations']:.4g}"}
