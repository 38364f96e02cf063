"""The divergence as an area: the information curve h, and above it the staircase of a schedule (theory.md 7.2).

E KL(q || p_order) = sum_k delta_k h(p_k) - int h        a left Riemann sum less the integral
"""

from __future__ import annotations

from typing import Any

import altair as alt
import numpy as np
import pandas as pd

from unmask.languages import Language
from unmask.report.frame import COLOURS, HEIGHT, INK, alone, heading, themed
from unmask.schedules import Fit, Schedule, deltas
from unmask.theory.known import curve

ROUNDS = 8
SCHEDULES = ("linear", "optimal")
POINTS = 200
WIDTH = 300
BITS = 1 / np.log(2)


def chart(language: Language, length: int, rounds: int = ROUNDS) -> Any:
    """Linear and optimal staircases of a few rounds side by side, in bits a token, on white."""
    information = curve(language, length)
    u = (np.arange(POINTS + 1) / POINTS) ** 2  # dense where h is steep
    line = pd.DataFrame({"u": u, "h": information.h(u) * BITS / length})
    panels = []
    for name in SCHEDULES:
        delta = deltas(name, rounds, Fit(language, length))
        start = Schedule(delta).p.numpy()
        height = information.h(start) * BITS / length
        stairs = pd.DataFrame({"u": [*start, 1.0], "h": [*height, height[-1]]})
        excess = information.divergence(delta).value * BITS / length
        below = f"shaded: {excess:.4f} bits a token"
        title = alt.TitleParams(f"{name}, N = {rounds}", subtitle=below, fontSize=13)
        panels.append(_panel(line, stairs, title))
    both = alt.hconcat(*panels).resolve_scale(y="shared")
    entropy = information.entropy.value * BITS / length
    below = f"the curve: what a token is worth after a share u of them; the area below it: {entropy:.4f} bits"
    return alone(themed(both), heading("What a schedule pays beyond the language's own entropy", below))


def _panel(line: pd.DataFrame, stairs: pd.DataFrame, title: alt.TitleParams) -> Any:
    x = alt.X("u:Q", title="u, the share that is revealed", axis=alt.Axis(format="~%", grid=False, tickCount=5))
    x = x.scale(domain=[0, 1], nice=False)
    y = alt.Y("h:Q", title="h(u) / L, in bits").scale(zero=False)
    above = np.interp(line["u"], stairs["u"], np.arange(len(stairs))).astype(int)
    between = line.assign(top=stairs["h"].to_numpy()[above])
    shade = alt.Chart(between).mark_area(color=COLOURS[2], opacity=0.25).encode(x=x, y=y, y2="top:Q")
    steps = alt.Chart(stairs).mark_line(interpolate="step-after", color=COLOURS[2], strokeWidth=1.5).encode(x=x, y=y)
    curve_line = alt.Chart(line).mark_line(color=INK, strokeWidth=2).encode(x=x, y=y)
    return alt.layer(shade, steps, curve_line).properties(width=WIDTH, height=HEIGHT, title=title)
