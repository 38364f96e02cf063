"""Model calls per token against the SER that they reach, and the SER at which AR is as fast."""

from __future__ import annotations

from typing import Any

import altair as alt
import numpy as np

from unmask.cost.flops import evaluations
from unmask.diagnosis.table import EXACT
from unmask.report.explorer.figure import HEIGHT, ROWS, WIDTH, Figure, Row, parameters
from unmask.report.explorer.figures.bounds import cases
from unmask.report.frame import COLOURS, GREY, INK
from unmask.report.results import Results
from unmask.schedules import deltas
from unmask.theory.crossover import evaluations_per_token, ser_at
from unmask.theory.known import exact_error_curve

RATIOS = (0.1, 0.35, 0.7)  # AR tokens per model call, inverted; the second is the one of the poster
LEAST, MOST, POINTS = 1e-3, 0.999, 200


def own(results: Results) -> list[Row]:
    """The formula for any length (`law`), the values of this length (`dot`), and lines of equal time (`even`)."""
    found: list[Row] = []
    for of, length, language in cases(results):
        records = [r for r in results.theory if (r["of"], r["length"], r["quantity"]) == (of, length, "ser")]
        errors = exact_error_curve(language, length)
        if errors is None or errors.constant.value <= 0 or any(r["schedule"] != "linear" for r in records):
            continue
        constant, about = errors.constant.value / length, {"of": of, "series": of}
        grid = 1 / (1 + np.exp(-np.linspace(np.log(LEAST / (1 - LEAST)), np.log(MOST / (1 - MOST)), POINTS)))
        found += [
            about | {"what": "law", "place": float(ser), "value": evaluations_per_token(constant, ser)} for ser in grid
        ]
        seen = [r for r in records if r["name"] == EXACT] or [r for r in records if r["kind"] == "measured"]
        for r in seen:
            if LEAST <= r["value"] <= MOST:
                calls = evaluations(deltas("linear", r["steps"]), length) / length
                found.append(about | {"what": "dot", "place": r["value"], "value": calls})
        for ratio in RATIOS:
            ser = ser_at(constant, ratio)
            text = f"a call takes {1 / ratio:.2g} tokens of AR: faster above {ser:.2%}"
            found.append(
                about | {"what": "even", "place": ser if ser >= LEAST else None, "value": ratio, "shown": text}
            )
    return found


def draw(results: Results) -> Any:
    x = alt.X("place:Q", title="allowed SER", axis=alt.Axis(format="~%", grid=False, tickCount=6))
    x = x.scale(type="log", domain=[LEAST, 1.0], nice=False)
    y = alt.Y("value:Q", title="model calls per token").scale(domain=[0, 1])
    law, dot, even = (alt.Chart(ROWS).transform_filter(f"datum.what == '{what}'") for what in ("law", "dot", "even"))
    curve = law.mark_line(strokeWidth=2.5, color=COLOURS[0]).encode(x=x, y=y)
    level = even.mark_rule(strokeDash=[6, 4], color=GREY).encode(y=y)
    text = even.mark_text(align="left", dx=4, dy=-7, fontSize=11, color=INK)
    text = text.encode(x=alt.value(0), y=y, text="shown:N")
    cross = even.mark_point(filled=True, size=70, shape="diamond", color=COLOURS[2], opacity=1).encode(x=x, y=y)
    dots = dot.mark_point(filled=True, size=55, color=INK, opacity=1).encode(x=x, y=y)
    drawn = alt.layer(level, curve, cross, dots, text)
    return drawn.add_params(*parameters()).properties(width=WIDTH, height=HEIGHT)


FIGURES = [
    Figure(
        name="theory-crossover",
        place=92,
        options={"obeys": ("of",)},
        title="When masked diffusion is faster than AR",
        under="line: formula for any length; dots: this length; dashed: cost of a model call; AR is faster left of a "
        "diamond",
        draw=draw,
        own=own,
    )
]
