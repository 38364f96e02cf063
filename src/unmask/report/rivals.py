"""Orders drawn: what random ones, fixed ones and the best of all pay, against N (theory.best_orders, derandomised)."""

from __future__ import annotations

from typing import Any

import altair as alt
import pandas as pd
import torch

from unmask.languages import Language
from unmask.report.frame import COLOURS, HEIGHT, alone, heading, themed
from unmask.schedules import Fit, deltas, orders
from unmask.theory.best_orders import headroom, of_orders
from unmask.theory.chains import first_order, order_divergence
from unmask.theory.known import curve

WIDTH, ROUNDS, LONGEST = 520, 8, 128
SEEN = 1e-5  # nats
LOOKS = {  # colour and dash: chance above, choice below
    "random order, linear": (COLOURS[0], [1, 0]),
    "random order, its best schedule": (COLOURS[0], [6, 4]),
    "dyadic": (COLOURS[3], [1, 0]),
    "best order": (COLOURS[1], [1, 0]),
    "best choice, in the light of what stands": ("#222222", [2, 3]),
}


def chart(language: Language, length: int) -> Any | None:
    """KL of each at N = 1..8 on a first-order chain, at no more tokens than are quickly searched; None of others."""
    chain = first_order(language)
    length = min(length, LONGEST)
    if chain is None or (choices := headroom(language, length, ROUNDS)) is None:
        return None
    hidden, information = torch.ones((1, length), dtype=torch.bool), curve(language, length)
    fit = Fit(language, length)
    rows = []
    for n, (order, choice) in enumerate(zip(of_orders(language, length, ROUNDS), choices, strict=True), 1):
        values = (
            information.divergence(deltas("linear", n)).value,
            information.divergence(deltas("optimal", n, fit)).value,
            float(order_divergence(chain, orders.dyadic(n, hidden))[0]),
            float(order),
            float(choice),
        )
        rows += [{"rounds": n, "name": name, "nats": v} for name, v in zip(LOOKS, values, strict=True) if v > SEEN]
    legend = alt.Legend(title=None, orient="bottom", columns=2, symbolType="stroke", symbolSize=300, labelLimit=320)
    names = list(LOOKS)
    colour = alt.Color("name:N", legend=legend).scale(domain=names, range=[look[0] for look in LOOKS.values()])
    dash = alt.StrokeDash("name:N", legend=legend).scale(domain=names, range=[look[1] for look in LOOKS.values()])
    x = alt.X(
        "rounds:Q",
        title="N, the number of rounds",
        axis=alt.Axis(format="d", grid=False, values=list(range(1, ROUNDS + 1))),
    )
    y = alt.Y("nats:Q", title="KL(q || p of an order), in nats", axis=alt.Axis(format="~g", tickCount=6)).scale(
        type="log", nice=False
    )
    line = alt.Chart(pd.DataFrame(rows)).mark_line(strokeWidth=2.5)
    drawn = line.encode(x=x, y=y, color=colour, strokeDash=dash).properties(width=WIDTH, height=HEIGHT)
    below = f"{length} tokens; on average no random order beats the best fixed one, and no rule the best choice"
    return alone(themed(drawn), heading("What the order is worth", below))
