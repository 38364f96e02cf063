"""What figures against the number of rounds share: N across, on a scale of logarithms, and AR at its right end."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import altair as alt
import pandas as pd

from unmask.core.estimates import Estimate
from unmask.experiments.measures.catalogue import Record
from unmask.report.frame import text

AR_PLACE = 2.6  # AR stands so many times to the right of the last N


def placed(records: Sequence[Record], steps: Sequence[int]) -> pd.DataFrame:
    """The records with the place of each, and what it is called and worth; those without `steps` are AR's."""
    data = pd.DataFrame(list(records))
    data["place"] = data["steps"].fillna(max(steps) * AR_PLACE)
    data["rounds"] = ["AR" if pd.isna(count) else f"{count:.0f}" for count in data["steps"]]
    data["shown"] = [str(Estimate.of_record(record)) for record in data.to_dict("records")]
    return data


def across(
    steps: Sequence[int],
    title: str | None,
    labels: bool = True,
    apart: int = 4,
    room: tuple[float, float] = (0.8, 1.6),
) -> Any:
    """apart: pixels between labels that are shown; room: where the axis ends, times the least N and AR's place."""
    last = max(steps)
    ticks = alt.Axis(
        values=[*sorted(steps), last * AR_PLACE],
        labelExpr=f"datum.value > {last} ? 'AR' : format(datum.value, 'd')",
        grid=False,
        labelOverlap="greedy",
        labelSeparation=apart,
        labels=labels,
    )
    x = alt.X("place:Q", title=title, axis=ticks)
    return x.scale(type="log", base=2, nice=False, domain=[min(steps) * room[0], last * AR_PLACE * room[1]])


def network_item(named: str, directory: str) -> str:
    """A line of a page's list of networks."""
    return f'<li>{text(named)}: <a href="{directory}/README.md"><code>{directory}</code></a></li>'
