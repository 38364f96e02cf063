"""The divergence of random orders, fixed orders and the best order, against N (theory.best_orders, derandomised)."""

from __future__ import annotations

from typing import Any

import altair as alt
import torch

from unmask.report.explorer.figure import HEIGHT, ROWS, WIDTH, Figure, Row, parameters
from unmask.report.explorer.figures.bounds import cases
from unmask.report.frame import COLOURS, INK
from unmask.report.results import Results
from unmask.schedules import Fit, deltas, orders
from unmask.theory.best_orders import headroom, of_orders
from unmask.theory.chains import first_order, order_divergence
from unmask.theory.known import curve

ROUNDS, LONGEST = 8, 128
SEEN = 1e-5  # nats
LOOKS: dict[str, tuple[str, list[int]]] = {  # colour and dash
    "random order, linear": (COLOURS[0], [1, 0]),
    "random order, its best schedule": (COLOURS[0], [6, 4]),
    "dyadic": (COLOURS[3], [1, 0]),
    "best order": (COLOURS[1], [1, 0]),
    "best choice given the revealed tokens": (INK, [2, 3]),
}


def own(results: Results) -> list[Row]:
    """KL at N = 1..8 of first-order chains, at a length that is quick to search."""
    found: list[Row] = []
    for of, whole, language in cases(results):
        chain, length = first_order(language), min(whole, LONGEST)
        if chain is None or (choices := headroom(language, length, ROUNDS)) is None:
            continue
        hidden, information = torch.ones((1, length), dtype=torch.bool), curve(language, length)
        fit = Fit(language, length)
        for n, (order, choice) in enumerate(zip(of_orders(language, length, ROUNDS), choices, strict=True), 1):
            values = (
                information.divergence(deltas("linear", n)).value,
                information.divergence(deltas("optimal", n, fit)).value,
                float(order_divergence(chain, orders.dyadic(n, hidden))[0]),
                float(order),
                float(choice),
            )
            about = {"of": of, "place": n, "size": f"{length} tokens"}
            found += [about | {"series": name, "value": v} for name, v in zip(LOOKS, values, strict=True) if v > SEEN]
    return found


def draw(results: Results) -> Any:
    legend = alt.Legend(title=None, orient="bottom", columns=2, symbolType="stroke", symbolSize=300, labelLimit=320)
    colours, dashes = ([look[i] for look in LOOKS.values()] for i in (0, 1))
    colour = alt.Color("series:N", legend=legend).scale(domain=list(LOOKS), range=colours)
    dash = alt.StrokeDash("series:N", legend=legend).scale(domain=list(LOOKS), range=dashes)
    axis = alt.Axis(format="d", grid=False, values=list(range(1, ROUNDS + 1)))
    x = alt.X("place:Q", title="N, the number of steps", axis=axis)
    y = alt.Y("value:Q", title="KL(q || p of an order), nats", axis=alt.Axis(format="~g", tickCount=6))
    line = alt.Chart(ROWS).mark_line(strokeWidth=2.5)
    line = line.encode(x=x, y=y.scale(type="log", nice=False), color=colour, strokeDash=dash)
    return line.add_params(*parameters()).properties(width=WIDTH, height=HEIGHT)


FIGURES = [
    Figure(
        name="theory-orders",
        place=93,
        options={"obeys": ("of",)},
        title="Divergence by the order of positions",
        under=f"at most {LONGEST} tokens; no random order beats the best fixed one, no rule the best choice",
        draw=draw,
        own=own,
    )
]
