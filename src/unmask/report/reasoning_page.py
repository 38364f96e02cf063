"""Reasoning drawn: a row for each task; answers, whole rows and answers by wrong steps against N, then against time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from functools import partial
from typing import Any

import altair as alt
import pandas as pd

from unmask.core.estimates import Estimate
from unmask.experiments.board.table import Table
from unmask.experiments.measures.catalogue import Record
from unmask.report import frame
from unmask.report.frame import COLOURS, PAGE, Sentence
from unmask.report.publishing import Made, Page
from unmask.report.reasoning import EXCESS, ORDERS, Settings, measured, recipe, seconds
from unmask.report.rounds import across, network_item, placed

WIDTH, HEIGHT = 220, 210  # of a panel, in pixels
NAMES = {"ancestral": "random order", "low-confidence": "by confidence", "left-to-right": "left to right"}
NAMES |= {"autoregressive": "AR"}
LOOKS = {"random order": COLOURS[2], "by confidence": COLOURS[3], "left to right": COLOURS[1], "AR": COLOURS[0]}
MODELS = {"trained": [1, 0], "exact": [4, 3]}
PANELS = {
    "answer": "right answers",
    "steps": "all steps right (1 - SER)",
    "lucky_answers": "right answers by wrong steps",
}
ASKED = {
    "questions": "Questions: 1+2+3+4= is given",
    "chains": "Chains from nothing: 4+9=3;3+5=8;..",
}
TITLE = (
    "Right answers are one thing, right steps another",
    "Sums modulo 10. Lines: trained MDMs; dashed: the ideal denoiser; diamonds: the AR twin, one token at a time.",
)
CAPTION = (
    "Across: the number of sampling steps N, AR at the right end; in the last column milliseconds a row, {batch} rows "
    "at once on one thread. Each point is the share of {rows} rows, with its 95% interval. An answer is right if the "
    "last result is what is asked for; a step is wrong if it does not follow from what stands before it. Of a question "
    "all follows, so that the ideal denoiser needs one round."
)
CUT = 0.5  # where all are above it, an axis begins with the least
CLOSE = 0.02  # below the AR model: so much is as good


def page(device: str = "auto") -> Page[Settings, list[Record]]:
    """device: where networks learn, and nothing that numbers depend on; hence no setting."""
    return Page(PAGE, partial(recipe, device=device), measured, contents)


def contents(records: Sequence[Record], settings: Settings, about: Made) -> dict[str, bytes]:
    """All files by name."""
    plain = frame.themed(chart(records, settings))
    found = frame.drawings({"reasoning": frame.alone(plain, frame.heading(*TITLE, fontSize=18, offset=16))})
    found |= frame.numbers("data", records, origin=about.origin, seconds=about.seconds, settings=asdict(settings))
    found[PAGE] = frame.page(
        "unmask reasoning: answers and steps",
        "reasoning.html",
        about.origin,
        found,
        sentences(records, settings),
        tables(records, settings),
        figure=frame.figure(
            "reasoning", *TITLE, CAPTION.format(rows=settings.rows, batch=settings.batch), plain, plain
        ),
        networks="\n".join(network_item(*entry) for entry in networks(records).items()),
        **about.explorer.parts(),
    )
    return found


def chart(records: Sequence[Record], settings: Settings) -> Any:
    data = placed([record for record in records if record["measure"] in PANELS], settings.steps)
    alone = data[(data["task"] == "questions") & (data["model"] == "exact")]  # more rounds change nothing
    data = pd.concat([data, alone.assign(place=float(max(settings.steps)))])
    data["order"] = data["sampler"].map(NAMES)
    each = seconds(records, settings)
    data["milliseconds"] = [
        1000 * each[task, kind] * count
        for task, kind, count in zip(data["task"], data["kind"], data["evaluations"], strict=True)
    ]
    rows = []
    for number, task in enumerate(settings.tasks):
        here, last = data[data["task"] == task], number == len(settings.tasks) - 1
        across_n = across(settings.steps, "N, the number of sampling steps" if last else None)
        panels = [_panel(here, measure, across_n, PANELS[measure]) for measure in PANELS]
        time = alt.X(
            "milliseconds:Q", title="milliseconds a row" if last else None, axis=alt.Axis(grid=False, tickCount=4)
        )
        time = time.scale(type="log", nice=False, padding=12)
        panels.append(_panel(here[here["model"] == "trained"], "steps", time, "all steps right, by time"))
        rows.append(
            alt.hconcat(*panels, spacing=58, bounds="flush").properties(title=alt.TitleParams(ASKED[task], fontSize=14))
        )
    return alt.vconcat(*rows, spacing=26).resolve_scale(color="shared", strokeDash="shared")


def _panel(data: pd.DataFrame, measure: str, x: Any, title: str) -> Any:
    data = data[data["measure"] == measure]
    low, high = (0.0, data["high"].max()) if measure == "lucky_answers" else (data["low"].min(), 1.0)
    if low < CUT:
        low = 0.0
    room = 0.04 * (high - low)  # for points on the edge
    axis = alt.Axis(format=".0%" if high - low > 0.1 else ".1%", tickCount=5)
    ends_of_axis = alt.Scale(domain=[max(low - room, 0), high + room], nice=False, zero=False)
    y, least = (alt.Y(f"{end}:Q", title=None, axis=axis, scale=ends_of_axis) for end in ("value", "low"))
    legend = alt.Legend(title=None, orient="top", symbolType="stroke", symbolStrokeWidth=3)
    colour = alt.Color("order:N", legend=legend).scale(domain=list(LOOKS), range=list(LOOKS.values()))
    dash = alt.StrokeDash("model:N", legend=None).scale(domain=list(MODELS), range=list(MODELS.values()))
    told = {"order": "order", "model": "denoiser", "rounds": "N", "shown": "share", "evaluations": "evaluations a row"}
    tooltip = [alt.Tooltip(f"{field}:N", title=said) for field, said in told.items()]
    steps, ends = data[data["kind"] == "mdm"], data[data["kind"] == "ar"]
    base = alt.Chart(steps).encode(x=x, color=colour)
    spread = alt.Chart(data[(data["high"] > data["low"]) & (data["model"] == "trained")]).mark_rule(strokeWidth=1.5)
    spread = spread.encode(x=x, color=colour, y=least, y2="high:Q")
    line = base.mark_line(strokeWidth=2, clip=True).encode(y=y, strokeDash=dash, detail="model:N")
    points = base.transform_filter("datum.model == 'trained'").mark_point(filled=True, size=40, opacity=1)
    points = points.encode(y=y, tooltip=tooltip)
    diamonds = alt.Chart(ends).mark_point(shape="diamond", filled=True, size=120, opacity=1)
    diamonds = diamonds.encode(x=x, y=y, color=colour, tooltip=tooltip)
    drawn = alt.layer(spread, line, points, diamonds).properties(width=WIDTH, height=HEIGHT)
    return drawn.properties(title=alt.TitleParams(title, fontSize=12, fontWeight="normal"))


def sentences(records: Sequence[Record], settings: Settings) -> list[Sentence]:
    """What to see, from the numbers."""
    found, each = _lookup(records), seconds(records, settings)
    said = []
    for task in settings.tasks:
        trained = {
            (order, n): {measure: found[task, "trained", order, n, measure] for measure in PANELS}
            for order in ORDERS
            for n in settings.steps
        }
        ar = {measure: found[task, "trained", "autoregressive", None, measure] for measure in PANELS}
        (order, n), luckiest = max(trained.items(), key=lambda entry: entry[1]["lucky_answers"]["value"])
        said.append(
            Sentence(
                f"{_percent(luckiest['lucky_answers'])} by wrong steps",
                f"{task.capitalize()}: so many rows have the right answer by wrong steps where these are most, "
                f"{NAMES[order]} with N = {n}: {_percent(luckiest['answer'])} of the answers are right, and of "
                f"{_percent(luckiest['steps'])} of the rows every step.",
            )
        )
        ends = {order: trained[order, max(settings.steps)] for order in ORDERS}
        shares = ", ".join(f"{NAMES[order]} {_percent(end['steps'])}" for order, end in ends.items())
        good = [
            (1000 * each[task, "mdm"] * one["steps"]["evaluations"], order, n)
            for (order, n), one in trained.items()
            if one["steps"]["value"] >= ar["steps"]["value"] - CLOSE
        ]
        took = 1000 * each[task, "ar"] * ar["steps"]["evaluations"]
        rest = f"No MDM is as good within {CLOSE:.0%}; AR takes {took:.3g} ms a row."
        if good:
            least, order, n = min(good)
            times = f"{least:.3g} ms a row to {took:.3g}"
            rest = f"As good within {CLOSE:.0%} is, soonest, N = {n}, {NAMES[order]}: {times}."
        said.append(
            Sentence(
                f"AR {_percent(ar['steps'])}",
                f"{task.capitalize()}: so many rows are right in every step. Of the MDM's with "
                f"N = {max(settings.steps)}: {shares}. {rest}",
            )
        )
    return said


def tables(records: Sequence[Record], settings: Settings) -> list[Table]:
    """Of each task, by N and of AR: answers, whole rows, answers by wrong steps; then the networks and their times."""
    found, each, most = _lookup(records), seconds(records, settings), max(settings.steps)
    made = []
    for task in settings.tasks:
        columns = [("exact", order) for order in ORDERS if (task, "exact", order, most, "answer") in found]
        columns += [("trained", order) for order in ORDERS]
        head = ["N", *(f"{NAMES[order]}, {'ideal' if model == 'exact' else model}" for model, order in columns)]
        for measure, title in PANELS.items():
            rows = [
                (f"{n}", [_cell(found[task, model, order, n, measure]) for model, order in columns])
                for n in settings.steps
            ]
            ar = _cell(found[task, "trained", "autoregressive", None, measure])
            rows.append(("AR", [("", "")] * (len(columns) - 1) + [ar]))
            made.append(Table(f"{ASKED[task]}; {title}", head, rows))
    rows = [
        (
            f"{record['task']}, {record['kind'].upper()}",
            [
                (f"{record['value']:+.2f}%", f"{record['low']:+.2f} to {record['high']:+.2f}"),
                (f"{1000 * each[record['task'], record['kind']]:.3g}", ""),
            ],
        )
        for record in records
        if record["measure"] == EXCESS
    ]
    title = f"The networks; milliseconds of an evaluation, or a token, of one of {settings.batch} rows"
    return [*made, Table(title, ["network", "loss above the entropy", "milliseconds"], rows)]


def networks(records: Sequence[Record]) -> dict[str, str]:
    """Their directories, seen from that of the page."""
    return {f"{r['task']}, {r['kind'].upper()}": r["network"] for r in records if r["measure"] == EXCESS}


def _lookup(records: Sequence[Record]) -> dict[tuple[str, str, str, int | None, str], Record]:
    return {(r["task"], r["model"], r["sampler"], r["steps"], r["measure"]): r for r in records}


def _percent(record: Record) -> str:
    return f"{100 * record['value']:.3g}%"


def _cell(record: Record) -> tuple[str, str]:
    estimate = Estimate.of_record(record)
    value, low, high = (f"{100 * end:.1f}%" for end in (estimate.value, estimate.low, estimate.high))
    return value, f"{low} to {high}"
