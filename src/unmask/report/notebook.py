"""Objects in a notebook: `.plot()` and `_repr_html_` of core/tables.py call `plot` and `html`."""

from __future__ import annotations

from functools import singledispatch
from html import escape
from typing import Any

import numpy as np

from unmask.core.errors import UnmaskError, needed
from unmask.experiments.board.table import Board
from unmask.experiments.run import Sweep
from unmask.report import charts
from unmask.report.figures import drawn, front
from unmask.report.results import Results, points, read
from unmask.report.verdict import Shown
from unmask.samplers import Generation
from unmask.theory.curves import InformationCurve

with needed("pages", "a picture"):
    import altair as alt
    import pandas as pd

WIDTH, MOST_ROWS, POINTS = 480, 40, 200  # pixels; sequences drawn of a generation; points of a curve


@singledispatch
def plot(thing: Any) -> Any:
    expected = "expected a generation, an information curve, a board or a sweep"
    raise UnmaskError(f"a {type(thing).__name__} has no drawing; {expected}")


def html(thing: Any) -> str:
    """The text of an object above its drawing, which loads nothing."""
    drawing = charts.svg(charts.fixed(charts.styled(plot(thing)).to_dict()))
    return f"<div style='background:#fff;color:#1d232b'><pre>{escape(repr(thing))}</pre>{drawing}</div>"


@plot.register
def _(generation: Generation) -> Any:
    """Sequences down, positions across, coloured by the step that revealed each token; given tokens are empty."""
    order, tokens = generation.order[:MOST_ROWS], generation.tokens[:MOST_ROWS]
    row, position = (order > 0).nonzero(as_tuple=True)
    cells = {"row": row, "position": position + 1, "step": order[order > 0], "token": tokens[order > 0]}
    data = pd.DataFrame({name: values.tolist() for name, values in cells.items()})
    bare = alt.Axis(labels=False, ticks=False, grid=False)
    drawing = alt.Chart(data).mark_rect()
    drawing = drawing.encode(
        alt.X("position:O", axis=bare), alt.Y("row:O", axis=bare), alt.Color("step:Q"), tooltip=[*cells]
    )
    return drawing.properties(width=WIDTH, height=max(4 * len(order), 26), title="Step that revealed each token")


@plot.register
def _(curve: InformationCurve) -> Any:
    """h(u): the entropy of a hidden token after a fraction u is revealed; the area below it is the entropy."""
    u = np.linspace(0.0, 1.0, POINTS + 1)
    x = alt.X("u:Q", title="u, the revealed fraction", axis=alt.Axis(format="%"))
    line = alt.Chart(pd.DataFrame({"u": u, "h": curve.h(u)})).mark_line(color=charts.LIGHT[0], strokeWidth=2)
    return line.encode(x=x, y=alt.Y("h:Q", title="h(u), nats")).properties(width=WIDTH, height=260)


@plot.register
def _(board: Board) -> Any:
    """Errors against cost on its first language."""
    rows = [record | {"job": "", "key": ""} for record in board.records if record["budget"] is not None]
    drawing = front(Shown(Results(points(rows))))
    return None if drawing is None else alt.Chart.from_dict(charts.alone(drawing))


@plot.register
def _(sweep: Sweep) -> Any:
    """The first figure of its results."""
    figures = drawn(Shown(read([sweep.directory])))
    if not figures:
        raise UnmaskError(f"{sweep.directory} contains no data to draw; see `unmask sweep status` for its progress")
    return alt.Chart.from_dict(charts.alone(next(iter(figures.values()))))
