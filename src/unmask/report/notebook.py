"""How objects look in a notebook: what `.plot()` and `_repr_html_` of core/shown.py answer with, a function a kind."""

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
from unmask.diagnosis.learning import Learning
from unmask.experiments.board.run import Board
from unmask.experiments.jobs.run import Sweep
from unmask.generation import Generation
from unmask.metrics import Score
from unmask.report import board, frame
from unmask.report.explorer.fragment import Explorer, verdict_html
from unmask.report.frame import COLOURS, INK
from unmask.report.results import read
from unmask.theory.curves import InformationCurve

WIDTH, ROW = 480, 26  # pixels
MOST_ROWS = 40  # of a generation, drawn
PLACES = 200  # of a curve
BINS = 10  # of the share of a row that is hidden
SMALLEST = 1e-12  # p-value that is told from a smaller one


@singledispatch
def plot(thing: Any) -> Any:
    raise UnmaskError(f"nobody has said how a {type(thing).__name__} is drawn")


def html(thing: Any) -> str:
    """Its words above its drawing; of a sweep its verdict."""
    words = f"<pre>{frame.text(repr(thing))}</pre>"
    if isinstance(thing, Sweep):
        explorer = Explorer(read([thing.directory]))
        words += verdict_html(explorer.verdict) if explorer.yardsticks else ""
    return f'<div style="background:#fff;color:#1d232b">{words}{frame.svg(frame.themed(plot(thing)))}</div>'


@plot.register
def _(made: Generation) -> Any:
    """Rows down, positions across, coloured by the round that has revealed each token; what was given is empty."""
    rows = min(len(made.tokens), MOST_ROWS)
    data = pd.DataFrame(
        [
            {"row": row, "position": position + 1, "round": order, "token": token}
            for row in range(rows)
            for position, (order, token) in enumerate(
                zip(made.order[row].tolist(), made.tokens[row].tolist(), strict=True)
            )
            if order > 0
        ]
    )
    colour = alt.Color("round:Q", scale=alt.Scale(scheme="viridis"), legend=alt.Legend(title="round"))
    bare = alt.Axis(labels=False, ticks=False, grid=False)
    tooltip = ["row", "position", "round", "token"]
    drawn = alt.Chart(data).mark_rect()
    drawn = drawn.encode(x=alt.X("position:O", axis=bare), y=alt.Y("row:O", axis=bare), color=colour, tooltip=tooltip)
    return drawn.properties(width=WIDTH, height=max(4 * rows, ROW), title="which round revealed what")


@plot.register
def _(score: Score) -> Any:
    """Shares with their intervals; what is no share stands in the words."""
    shares = {"ser": score.ser} | {n: e for n, e in score.yardsticks.items() if e is not None and n.endswith("s")}
    return _intervals({name: one for name, one in shares.items() if 0 <= one.value <= 1}, "share of rows", (0.0, 1.0))


@plot.register
def _(verdict: Verdict) -> Any:
    """Evaluations of the plan and of the best schedule, beside what costs as much as AR."""
    data = pd.DataFrame(
        [
            {"plan": f"{plan.schedule}, N = {plan.steps}", "evaluations": plan.evaluations}
            for plan in (verdict.chosen, verdict.optimal)
        ]
    ).drop_duplicates("plan")
    even = verdict.flop_break_even if verdict.time_break_even is None else verdict.time_break_even
    y = alt.Y("plan:N", title=None, sort=None, axis=alt.Axis(labelLimit=240))
    bars = alt.Chart(data).mark_bar(color=COLOURS[0]).encode(y=y, x=alt.X("evaluations:Q", title="evaluations"))
    rule = alt.Chart(pd.DataFrame({"even": [even], "text": ["AR costs as much"]}))
    line = rule.mark_rule(color=INK, strokeDash=[3, 3]).encode(x="even:Q")
    words = rule.mark_text(align="left", dx=4, color=INK).encode(x="even:Q", y=alt.value(6), text="text:N")
    return alt.layer(bars, line, words).properties(width=WIDTH, height=2 * ROW + 10)


@plot.register
def _(audit: Audit) -> Any:
    """p-values of its tests, and how small one must be to be an alarm."""
    data = pd.DataFrame([{"test": n, "p": max(p, SMALLEST)} for n, p in audit.p_values.items()])
    data["alarm"] = data["p"] < audit.alarm_each
    x = alt.X("p:Q", title="p-value").scale(type="log", domain=[SMALLEST, 1])
    colour = alt.Color("alarm:N", legend=None).scale(domain=[False, True], range=[COLOURS[0], COLOURS[2]])
    points = alt.Chart(data).mark_point(filled=True, size=80, opacity=1)
    points = points.encode(x=x, y=alt.Y("test:N", title=None, axis=alt.Axis(labelLimit=240)), color=colour)
    rule = alt.Chart(pd.DataFrame({"p": [audit.alarm_each]})).mark_rule(strokeDash=[3, 3], color=INK).encode(x=x)
    return alt.layer(rule, points).properties(width=WIDTH, height=ROW * len(data), title=audit.sentence)


@plot.register
def _(learning: Learning) -> Any:
    """KL a hidden position, in nats, by the share of the row that is hidden."""
    found = {(low + 1) / BINS: learning.mean(low / BINS, (low + 1) / BINS) for low in range(BINS)}
    return _intervals({f"up to {100 * end:.0f}% hidden": one for end, one in found.items() if one}, "KL, nats", None)


@plot.register
def _(curve: InformationCurve) -> Any:
    """h(u): what a token is worth after a share u of them is revealed; the area below it is the entropy."""
    u = np.linspace(0.0, 1.0, PLACES + 1)
    data = pd.DataFrame({"u": u, "h": curve.h(u)})
    x = alt.X("u:Q", title="u, the share that is revealed", axis=alt.Axis(format="%"))
    line = alt.Chart(data).mark_line(color=COLOURS[0], strokeWidth=2)
    return line.encode(x=x, y=alt.Y("h:Q", title="h(u), nats")).properties(width=WIDTH, height=260)


@plot.register
def _(made: Board) -> Any:
    """Errors against cost on its first language."""
    return alt.Chart.from_dict(next(iter(board.fronts(made.records).values())))


@plot.register
def _(made: Sweep) -> Any:
    """The first figure that its results have."""
    explorer = Explorer(read([made.directory]))
    if not explorer.figures:
        raise UnmaskError(
            f"{made.directory} has nothing that can be drawn yet; `unmask sweep status` says how far it is"
        )
    return alt.Chart.from_dict(next(iter(explorer.begun.values())))


def _intervals(estimates: dict[str, Estimate], title: str, ends: tuple[float, float] | None) -> Any:
    """A dot and a bar each; an open end is as far as the value."""
    rows = []
    for name, one in estimates.items():
        low, high = (one.value, one.value) if one.open else (one.low, one.high)
        rows.append({"what": name, "value": one.value, "low": low, "high": high, "said": str(one)})
    data = pd.DataFrame(rows)
    x = alt.X("value:Q", title=title)
    x = x if ends is None else x.scale(domain=list(ends))
    base = alt.Chart(data).encode(y=alt.Y("what:N", title=None, sort=None, axis=alt.Axis(labelLimit=240)))
    rule = base.mark_rule(color=COLOURS[0], strokeWidth=2).encode(x=alt.X("low:Q", title=title), x2="high:Q")
    points = base.mark_point(filled=True, size=70, color=COLOURS[0], opacity=1).encode(x=x, tooltip=["what", "said"])
    return alt.layer(rule, points).properties(width=WIDTH, height=ROW * max(len(data), 1))
