"""Objects in a notebook: `.plot()` and `_repr_html_` of core/shown.py call `plot` and `html`."""

from __future__ import annotations

from functools import singledispatch
from typing import Any

import altair as alt
import numpy as np
import pandas as pd

from unmask.core.errors import UnmaskError
from unmask.experiments.board.run import Board
from unmask.experiments.run import Sweep
from unmask.report import board, frame
from unmask.report.explorer.fragment import Explorer, verdict_html
from unmask.report.frame import COLOURS
from unmask.report.results import read
from unmask.samplers import Generation
from unmask.theory.curves import InformationCurve

WIDTH, ROW = 480, 26  # pixels
MOST_ROWS = 40  # sequences drawn of a generation
POINTS = 200  # of a curve


@singledispatch
def plot(thing: Any) -> Any:
    expected = "expected a generation, an information curve, a board or a sweep"
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
