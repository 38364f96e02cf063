"""The crossover drawn: evaluations a token against the SER that they buy, and where AR is as fast."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import altair as alt
import numpy as np
import pandas as pd

from unmask.cost.flops import evaluations
from unmask.diagnosis.table import EXACT, Record
from unmask.report.frame import COLOURS, GREY, HEIGHT, INK, alone, heading, themed
from unmask.schedules import deltas
from unmask.theory.crossover import evaluations_per_token, ser_at

WIDTH = 520
RATIOS = (0.1, 0.35, 0.7)  # how many evaluations a token of AR may take as long as; the second is that of the poster
LEAST, MOST, POINTS = 1e-3, 0.999, 200


def chart(constant: float, length: int, records: Sequence[Record]) -> Any:
    """The law of c(q), what is exact or measured of the linear schedule at this length, and times of AR."""
    grid = 1 / (1 + np.exp(-np.linspace(np.log(LEAST / (1 - LEAST)), np.log(MOST / (1 - MOST)), POINTS)))
    law = pd.DataFrame({"ser": grid, "evaluations": [evaluations_per_token(constant, ser) for ser in grid]})
    of_ser = [record for record in records if record["quantity"] == "ser"]
    seen = [r for r in of_ser if r["name"] == EXACT] or [r for r in of_ser if r["kind"] == "measured"]
    points = pd.DataFrame(
        [
            {"ser": r["value"], "evaluations": evaluations(deltas("linear", r["steps"]), length) / length}
            for r in seen
            if LEAST <= r["value"] <= MOST
        ],
        columns=["ser", "evaluations"],
    )
    lines = pd.DataFrame([_line(constant, ratio) for ratio in RATIOS])
    x = alt.X("ser:Q", title="SER that is allowed", axis=alt.Axis(format="~%", grid=False, tickCount=6))
    x = x.scale(type="log", domain=[LEAST, 1.0], nice=False)
    y = alt.Y("evaluations:Q", title="evaluations a token").scale(domain=[0, 1])
    curve = alt.Chart(law).mark_line(strokeWidth=2.5, color=COLOURS[0]).encode(x=x, y=y)
    level = alt.Chart(lines).mark_rule(strokeDash=[6, 4], color=GREY).encode(y=y)
    base = alt.Chart(lines)
    text = base.mark_text(align="left", dx=4, dy=-7, fontSize=11, color=INK).encode(
        x=alt.datum(LEAST), y=y, text="text:N"
    )
    cross = base.mark_point(filled=True, size=70, shape="diamond", color=COLOURS[2], opacity=1).encode(x=x, y=y)
    dots = alt.Chart(points).mark_point(filled=True, size=55, color=INK, opacity=1).encode(x=x, y=y)
    drawn = alt.layer(level, curve, cross, dots, text).properties(width=WIDTH, height=HEIGHT)
    below = (
        f"line: (c/lambda)(1 - exp(-lambda/c)), c = {constant:.3g}, whatever the length; dots: this length, {length}",
        "dashed: an evaluation costs so much; AR takes one token after another, and is faster to the left of a diamond",
    )
    return alone(themed(drawn), heading("When masked diffusion is faster than autoregression", *below))


def _line(constant: float, ratio: float) -> dict[str, Any]:
    ser = ser_at(constant, ratio)
    text = f"an evaluation lasts {1 / ratio:.2g} tokens of AR: faster above {ser:.2%}"
    return {"evaluations": ratio, "ser": ser if ser >= LEAST else None, "text": text}
