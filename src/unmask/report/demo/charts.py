"""How the demo draws its records: lines, points and intervals by language, alike in every figure.

Languages differ in colour and in the shape of their points.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from typing import Any

import altair as alt
import pandas as pd

from unmask.core.estimates import Estimate
from unmask.experiments.measures.catalogue import Record
from unmask.report.demo.settings import Settings
from unmask.report.frame import COLOURS, HEIGHT, INK
from unmask.report.rounds import AR_PLACE, across

SHAPES = ("circle", "square", "diamond", "triangle-up", "cross", "triangle-down")
TOOLTIP = {"language": "language", "length": "L", "rounds": "N", "shown": "value", "cost": "evaluations a row"}
FIELDS = ["place", "value", "low", "high", "needed", *TOOLTIP]

Width = int | str  # of a plot: pixels, or "container"


class Charts:
    """The records of one demo, drawn; the charts share colours, shapes and the axis of N."""

    def __init__(self, records: Sequence[Record], settings: Settings) -> None:
        self.records, self.settings = records, settings
        self.frame = pd.DataFrame([_readable(record) for record in records if "sampler" not in record])
        self.languages = settings.shown
        self.frame["place"] = self.frame["steps"].fillna(max(settings.steps) * AR_PLACE)

    def of(self, measures: Set[str]) -> pd.DataFrame:
        return self.frame[self.frame["measure"].isin(measures)]

    def ratio(self, name: str, curves: pd.DataFrame, data: pd.DataFrame, axis: str, width: Width) -> alt.LayerChart:
        """What is relative to the language's own, against N."""
        data = data[data["language"].isin(data.loc[data["steps"].notna(), "language"])]
        y = alt.Y("value:Q", title=axis, axis=alt.Axis(format=".2f", tickCount=6)).scale(zero=False)
        return self.against_steps(name, curves, data, y, "top-right", width)

    def against_steps(
        self, name: str, curves: pd.DataFrame, data: pd.DataFrame, y: alt.Y, legend: str, width: Width
    ) -> alt.LayerChart:
        """Against N on a logarithmic axis, with AR, the same for all languages, at its right end.

        Curves are predictions; the points of a language that has none are joined for the eye.
        """
        joined = data[data["steps"].notna() & ~data["language"].isin(curves["language"])]
        lines = pd.concat([joined, curves]) if len(curves) else joined
        title = f"N, the number of sampling steps (L = {self.settings.length} tokens)"
        x = across(self.settings.steps, title, apart=5, room=(0.85, 2.5))
        end = alt.Chart(data[data["steps"].isna()].head(1)).encode(x=x)
        rule = end.mark_rule(color=INK, opacity=0.4, strokeDash=[2, 3])
        rule = rule.encode(y=alt.value(HEIGHT / 2), y2=alt.value(HEIGHT))
        point = end.mark_point(shape="diamond", size=170, filled=True, color=INK, opacity=1).encode(y=y)
        label = end.mark_text(text="exact", color=INK, align="left", dx=10, dy=-9, fontSize=12).encode(y=y)
        return self.layers(name, lines, data[data["steps"].notna()], x, y, [rule, point, label], legend, width)

    def layers(
        self,
        name: str,
        lines: pd.DataFrame,
        points: pd.DataFrame,
        x: alt.X,
        y: alt.Y,
        beside: Sequence[alt.Chart],
        legend: str,
        width: Width,
        **of_lines: Any,
    ) -> alt.LayerChart:
        """Lines, intervals and points of all languages; a click on the legend singles one out."""
        chosen = alt.selection_point(name=f"only_{name.replace('-', '_')}", fields=["language"], bind="legend")
        lines, points = lines.filter(items=FIELDS), points.filter(items=FIELDS)
        shown = list(dict.fromkeys(points["language"]))
        look = {
            "x": x,
            "color": self.by_language(alt.Color, COLOURS, shown, legend),
            "opacity": alt.condition(chosen, alt.value(1.0), alt.value(0.12)),
        }
        line = alt.Chart(lines).mark_line(strokeWidth=2).encode(y=y, **look, **of_lines)
        spread = points[points["high"].astype(float) > points["low"].astype(float)]  # both ends are known
        interval = [alt.Chart(spread).mark_rule(strokeWidth=1.5).encode(y="low:Q", y2="high:Q", **look)]
        dots = (
            alt.Chart(points)
            .mark_point(filled=True, size=60)
            .encode(
                y=y,
                shape=self.by_language(alt.Shape, SHAPES, shown, legend),
                tooltip=[alt.Tooltip(f"{field}:N", title=title) for field, title in TOOLTIP.items()],
                **look,
            )
        )
        drawn: alt.LayerChart = alt.layer(*beside, line, *(interval if len(spread) else []), dots.add_params(chosen))  # type: ignore[assignment]
        return drawn.properties(width=width, height=HEIGHT)

    def by_language(self, channel: Any, values: Sequence[str], shown: Sequence[str], legend: str) -> Any:
        """The same language looks the same in every figure, and only those that are there have a legend."""
        looks = [values[self.languages.index(name) % len(values)] for name in shown]
        kind = alt.Legend(title=None, orient=legend, symbolSize=90)  # type: ignore[arg-type]
        return channel("language:N", scale=alt.Scale(domain=list(shown), range=looks), legend=kind)


def _readable(record: Record) -> dict[str, Any]:
    """A record with its columns for the tooltip."""
    rounds = "AR" if record["steps"] is None else str(record["steps"])
    return record | {"shown": str(Estimate.of_record(record)), "rounds": rounds, "cost": f"{record['evaluations']:.4g}"}
