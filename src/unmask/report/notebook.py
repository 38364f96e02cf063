"""Objects in a notebook: `.plot()` and `_repr_html_` of core/shown.py call `plot` and `html`."""

from __future__ import annotations

from functools import singledispatch
from typing import Any

import altair as alt
import numpy as np
import pandas as pd

from unmask.core.errors import UnmaskError
from unmask.core.estimates import Estimate
from unmask.cost.planner import Verdict
from unmask.diagnosis.audit import Audit
from unmask.diagnosis.gap import Gap
from unmask.diagnosis.learning import Learning
from unmask.experiments.board.run import Board
from unmask.experiments.sweeps.run import Sweep
from unmask.generation import Generation
from unmask.metrics import Score
from unmask.report import board, frame
from unmask.report.explorer.fragment import Explorer, verdict_html
from unmask.report.frame import COLOURS, INK
from unmask.report.results import read
from unmask.theory.curves import InformationCurve

WIDTH, ROW = 480, 26  # pixels
MOST_ROWS = 40  # sequences drawn of a generation
POINTS = 200  # of a curve
BINS = 10  # of the hidden fraction of a sequence
SMALLEST = 1e-12  # p-value drawn for smaller ones


@singledispatch
def plot(thing: Any) -> Any:
    expected = "expected a generation, score, verdict, audit, gap, learning error, information curve, board or sweep"
    raise UnmaskError(f"a {type(thing).__name__} has no drawing; {expected}")


def html(thing: Any) -> str:
    """The text of an object above its drawing, with the verdict of a sweep."""
    words = f"<pre>{frame.text(repr(thing))}</pre>"
    if isinstance(thing, Sweep):
        explorer = Explorer(read([thing.directory]))
        words += verdict_html(explorer.verdict) if explorer.metrics else ""
    return f'<div style="background:#fff;color:#1d232b">{words}{frame.svg(frame.themed(plot(thing)))}</div>'


@plot.register
def _(generation: Generation) -> Any:
    """Sequences down, positions across, coloured by the step that revealed each token; given tokens are empty."""
    rows = min(len(generation.tokens), MOST_ROWS)
    cells = []
    for row, pairs in enumerate(zip(generation.order[:rows].tolist(), generation.tokens[:rows].tolist(), strict=True)):
        about = enumerate(zip(*pairs, strict=True), 1)
        cells += [{"row": row, "position": at, "step": step, "token": token} for at, (step, token) in about if step > 0]
    data = pd.DataFrame(cells)
    colour = alt.Color("step:Q", scale=alt.Scale(scheme="viridis"), legend=alt.Legend(title="step"))
    bare = alt.Axis(labels=False, ticks=False, grid=False)
    tooltip = ["row", "position", "step", "token"]
    drawn = alt.Chart(data).mark_rect()
    drawn = drawn.encode(x=alt.X("position:O", axis=bare), y=alt.Y("row:O", axis=bare), color=colour, tooltip=tooltip)
    return drawn.properties(width=WIDTH, height=max(4 * rows, ROW), title="Step that revealed each token")


@plot.register
def _(score: Score) -> Any:
    """Fractions with their intervals."""
    fractions = {"ser": score.ser} | {n: e for n, e in score.metrics.items() if e is not None and n.endswith("s")}
    shown = {name: one for name, one in fractions.items() if 0 <= one.value <= 1}
    return _intervals(shown, "fraction of sequences", (0.0, 1.0))


@plot.register
def _(verdict: Verdict) -> Any:
    """Model calls of the plan and of the best schedule, with the break-even number."""
    plans = {f"{plan.schedule}, N = {plan.steps}": plan.model_calls for plan in (verdict.chosen, verdict.optimal)}
    data = pd.DataFrame({"plan": list(plans), "calls": list(plans.values())})
    even = verdict.flop_break_even if verdict.time_break_even is None else verdict.time_break_even
    y = alt.Y("plan:N", title=None, sort=None, axis=alt.Axis(labelLimit=240))
    bars = alt.Chart(data).mark_bar(color=COLOURS[0]).encode(y=y, x=alt.X("calls:Q", title="model calls per sequence"))
    rule = alt.Chart(pd.DataFrame({"even": [even], "text": ["same cost as AR"]}))
    line = rule.mark_rule(color=INK, strokeDash=[3, 3]).encode(x="even:Q")
    words = rule.mark_text(align="left", dx=4, color=INK).encode(x="even:Q", y=alt.value(6), text="text:N")
    return alt.layer(bars, line, words).properties(width=WIDTH, height=2 * ROW + 10)


@plot.register
def _(audit: Audit) -> Any:
    """p-values of the tests, and the limit below which each is an alarm."""
    data = pd.DataFrame([{"test": n, "p": max(p, SMALLEST)} for n, p in audit.p_values.items()])
    data["alarm"] = data["p"] < audit.alarm_each
    x = alt.X("p:Q", title="p-value").scale(type="log", domain=[SMALLEST, 1])
    colour = alt.Color("alarm:N", legend=None).scale(domain=[False, True], range=[COLOURS[0], COLOURS[2]])
    points = alt.Chart(data).mark_point(filled=True, size=80, opacity=1)
    points = points.encode(x=x, y=alt.Y("test:N", title=None, axis=alt.Axis(labelLimit=240)), color=colour)
    rule = alt.Chart(pd.DataFrame({"p": [audit.alarm_each]})).mark_rule(strokeDash=[3, 3], color=INK).encode(x=x)
    return alt.layer(rule, points).properties(width=WIDTH, height=ROW * len(data), title=audit.sentence)


@plot.register
def _(gap: Gap) -> Any:
    """Dependence of two tokens of a step, by their distance."""
    pairs = {f"distance {part['distance']}": part["nats"] for part in gap.by_distance() if part["nats"] is not None}
    return _intervals(pairs, "nats per pair of tokens in one step", None)


@plot.register
def _(learning: Learning) -> Any:
    """KL per hidden position, in nats, by the hidden fraction of the sequence."""
    means = {(low + 1) / BINS: learning.mean(low / BINS, (low + 1) / BINS) for low in range(BINS)}
    return _intervals({f"up to {100 * end:.0f}% hidden": one for end, one in means.items() if one}, "KL, nats", None)


@plot.register
def _(curve: InformationCurve) -> Any:
    """h(u): the entropy of a hidden token after a fraction u is revealed; the area below it is the entropy."""
    u = np.linspace(0.0, 1.0, POINTS + 1)
    data = pd.DataFrame({"u": u, "h": curve.h(u)})
    x = alt.X("u:Q", title="u, the revealed fraction", axis=alt.Axis(format="%"))
    line = alt.Chart(data).mark_line(color=COLOURS[0], strokeWidth=2)
    return line.encode(x=x, y=alt.Y("h:Q", title="h(u), nats")).properties(width=WIDTH, height=260)


@plot.register
def _(measured: Board) -> Any:
    """Errors against cost on its first language."""
    return alt.Chart.from_dict(next(iter(board.fronts(measured.records).values())))


@plot.register
def _(sweep: Sweep) -> Any:
    """The first figure of its results."""
    explorer = Explorer(read([sweep.directory]))
    if not explorer.figures:
        raise UnmaskError(f"{sweep.directory} contains no data to draw; see `unmask sweep status` for its progress")
    return alt.Chart.from_dict(next(iter(explorer.begun.values())))


def _intervals(estimates: dict[str, Estimate], title: str, ends: tuple[float, float] | None) -> Any:
    """A dot and an interval each; without a bar where the interval is open."""
    rows = []
    for name, one in estimates.items():
        low, high = (one.value, one.value) if one.open else (one.low, one.high)
        rows.append({"what": name, "value": one.value, "low": low, "high": high, "words": str(one)})
    data = pd.DataFrame(rows, columns=["what", "value", "low", "high", "words"])
    x = alt.X("value:Q", title=title)
    x = x if ends is None else x.scale(domain=list(ends))
    base = alt.Chart(data).encode(y=alt.Y("what:N", title=None, sort=None, axis=alt.Axis(labelLimit=240)))
    rule = base.mark_rule(color=COLOURS[0], strokeWidth=2).encode(x=alt.X("low:Q", title=title), x2="high:Q")
    points = base.mark_point(filled=True, size=70, color=COLOURS[0], opacity=1).encode(
        x=x, tooltip=["what:N", "words:N"]
    )
    return alt.layer(rule, points).properties(width=WIDTH, height=ROW * max(len(data), 1))
