"""The figures, from the records of the cells: one Altair definition for the page, SVG and PNG.

Neutral parts are drawn in the colour of the surrounding text, so that a figure suits light, dark and paper. Languages
differ in colour (Paul Tol's vibrant scheme, which colour-blind readers tell apart) and in the shape of their points.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import altair as alt
import pandas as pd

from unmask.core.estimates import Estimate
from unmask.experiments.measures.catalogue import Record
from unmask.report.measured import of_steps
from unmask.report.plan import Settings

COLOURS = ("#0077bb", "#009988", "#ee3377", "#ee7733", "#8c6bb1", "#7a7a7a")
SHAPES = ("circle", "square", "diamond", "triangle-up", "cross", "triangle-down")
INK = "currentColor"
GREY = "#7a7a7a"  # for what cannot take the colour of the text
HEIGHT = 320
AR_PLACE = 2.6  # AR stands this many times to the right of the last N: a place on the axis, not a number of steps
RATIOS = {"ter_ratio", "ter_upper_ratio"}
TITLES = {
    "overview": ("Masked diffusion with a perfect network: fluent after a few dozen steps, correct after many more",),
    "fluency": (
        "Fluency: the token error rate (TER)",
        "relative to the language's own, which no model can beat; 1.00 is perfect",
    ),
    "correctness": (
        "Correctness: the sequence error rate (SER)",
        "the share of sequences with something the language forbids; lower is better",
    ),
    "generative-perplexity": (
        "Fluency as the paper plots it: generative perplexity",
        "of samples, under the language without impossible strings; 1.00 is the language's own",
    ),
    "lengths": (
        "How many steps each of them needs, as the text grows",
        "flat: whatever the length; parallel to the dotted line: in proportion to the length",
    ),
}
TOOLTIP = {"language": "language", "length": "L", "rounds": "N", "shown": "value", "cost": "evaluations a row"}
FIELDS = ["place", "value", "low", "high", "needed", *TOOLTIP]

Width = int | str  # of a plot: pixels, or "container"


class Figures:
    """The figures of one demo by name; they share colours, shapes and the axis of N."""

    def __init__(self, records: Sequence[Record], settings: Settings) -> None:
        self.settings = settings
        self.frame = pd.DataFrame([_readable(record) for record in of_steps(records)])
        self.languages = list(dict.fromkeys([*settings.languages, *settings.panel]))
        self.last = max(settings.steps)
        self.frame["place"] = self.frame["steps"].fillna(self.last * AR_PLACE)
        optional = {"generative-perplexity": self.generative_perplexity} if settings.generative_perplexity else {}
        self.makers = {"fluency": self.fluency, "correctness": self.correctness} | optional | {"lengths": self.lengths}

    def plain(self, name: str, width: Width) -> alt.LayerChart:
        """For a page, which has its own headings and background."""
        drawn: alt.LayerChart = themed(self.makers[name](width))
        return drawn

    def titled(self, name: str, width: int) -> alt.LayerChart:
        """To stand alone: on white, since what surrounds it is not known."""
        drawn: alt.LayerChart = themed(self.makers[name](width).properties(title=_heading(name), background="white"))
        return drawn

    def overview(self, width: int) -> alt.HConcatChart:
        """Fluency and correctness side by side: the picture for a README."""
        parts = [self.makers[name](width).properties(title=_heading(name)) for name in ("fluency", "correctness")]
        both = alt.hconcat(*parts, spacing=40).resolve_legend(color="independent", shape="independent")
        title = _heading("overview", fontSize=18, offset=20)
        drawn: alt.HConcatChart = themed(both.properties(title=title, background="white"))
        return drawn

    def correctness(self, width: Width) -> alt.LayerChart:
        """SER against N."""
        data = self.of({"ser"})
        y = alt.Y("value:Q", title="SER: share of wrong sequences", axis=alt.Axis(format=".0%", tickCount=5))
        y = y.scale(domain=[0, 1], nice=False)
        return self.against_steps("correctness", self.of({"ser_predicted"}), data, y, "bottom-left", width)

    def fluency(self, width: Width) -> alt.LayerChart:
        """TER, or its bound, relative to the language's own."""
        axis = "TER / TER of the language"
        return self.ratio("fluency", self.of({"ter_ratio_predicted"}), self.of(RATIOS), axis, width)

    def generative_perplexity(self, width: Width) -> alt.LayerChart:
        """What the paper plots as TER."""
        data = self.of({"generative_perplexity_ratio"})
        return self.ratio(
            "generative-perplexity", data.head(0), data, "generative perplexity / TER of the language", width
        )

    def ratio(self, name: str, curves: pd.DataFrame, data: pd.DataFrame, axis: str, width: Width) -> alt.LayerChart:
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
        steps = sorted(self.settings.steps)
        axis = alt.Axis(
            values=[*steps, self.last * AR_PLACE],
            labelExpr=f"datum.value > {self.last} ? 'AR' : format(datum.value, 'd')",
            labelOverlap="greedy",
            labelSeparation=5,
            grid=False,
        )
        x = alt.X("place:Q", title=f"N, the number of sampling steps (L = {self.settings.length} tokens)", axis=axis)
        x = x.scale(type="log", base=2, nice=False, domain=[steps[0] * 0.85, self.last * AR_PLACE * 2.5])
        end = alt.Chart(data[data["steps"].isna()].head(1)).encode(x=x)
        rule = end.mark_rule(color=INK, opacity=0.4, strokeDash=[2, 3])
        rule = rule.encode(y=alt.value(HEIGHT / 2), y2=alt.value(HEIGHT))
        point = end.mark_point(shape="diamond", size=170, filled=True, color=INK, opacity=1).encode(y=y)
        label = end.mark_text(text="exact", color=INK, align="left", dx=10, dy=-9, fontSize=12).encode(y=y)
        return self.layers(name, lines, data[data["steps"].notna()], x, y, [rule, point, label], legend, width)

    def lengths(self, width: Width) -> alt.LayerChart:
        """The N that fluency and correctness need, against L."""
        kinds = {
            "steps_for_ser": f"steps until SER is {self.settings.ser:.0%}",
            "steps_for_ter": f"steps until TER is within {self.settings.excess:.0%}",
        }
        same = "N = L, as AR: one step a token"
        data = self.of(set(kinds)).assign(needed=lambda frame: frame["measure"].map(kinds))
        lengths = sorted(self.settings.panel_lengths)
        ends = [lengths[0], lengths[-1]]
        ticks = [factor * 10**power for power in range(7) for factor in (1, 3)]
        x = alt.X("length:Q", title="L, the number of tokens", axis=alt.Axis(values=lengths, format="d", grid=False))
        y = alt.Y("value:Q", title="N, the number of steps needed", axis=alt.Axis(format="d", values=ticks))
        x = x.scale(type="log", base=2, nice=False, domain=[ends[0] * 0.85, ends[1] * 1.18])
        y = y.scale(type="log", nice=False, padding=12)
        dash = alt.StrokeDash(
            "needed:N",
            scale=alt.Scale(domain=[*kinds.values(), same], range=[[1, 0], [6, 4], [2, 4]]),
            legend=alt.Legend(
                title=None, orient="top-left", symbolStrokeColor=GREY, symbolSize=400, symbolType="stroke"
            ),
        )
        reference = alt.Chart(pd.DataFrame({"length": ends, "value": ends, "needed": same}))
        reference = reference.mark_line(color=GREY, strokeWidth=2).encode(x=x, y=y, strokeDash=dash)
        return self.layers("lengths", data, data, x, y, [reference], "top", width, strokeDash=dash, detail="needed:N")

    def of(self, measures: set[str]) -> pd.DataFrame:
        return self.frame[self.frame["measure"].isin(measures)]

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
        spread = points[points["high"] > points["low"]]
        interval = alt.Chart(spread).mark_rule(strokeWidth=1.5).encode(y="low:Q", y2="high:Q", **look)
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
        drawn: alt.LayerChart = alt.layer(*beside, line, interval, dots.add_params(chosen))  # type: ignore[assignment]
        return drawn.properties(width=width, height=HEIGHT)

    def by_language(self, channel: Any, values: Sequence[str], shown: Sequence[str], legend: str) -> Any:
        """The same language looks the same in every figure, and only those that are there have a legend."""
        looks = [values[self.languages.index(name) % len(values)] for name in shown]
        kind = alt.Legend(title=None, orient=legend, symbolSize=90)  # type: ignore[arg-type]
        return channel("language:N", scale=alt.Scale(domain=list(shown), range=looks), legend=kind)


def themed(chart: Any) -> Any:
    """Quiet axes in the colour of the text."""
    fonts = "system-ui, -apple-system, Segoe UI, Helvetica, Arial, sans-serif"
    text = {"labelColor": INK, "titleColor": INK, "labelFontSize": 12, "titleFontSize": 12, "titleFontWeight": "normal"}
    lines = {"gridColor": INK, "gridOpacity": 0.12, "domainColor": INK, "domainOpacity": 0.4, "tickColor": INK}
    return (
        chart.configure(font=fonts, background="transparent")
        .configure_view(stroke=None)
        .configure_axis(**text, **lines, tickOpacity=0.4)
        .configure_legend(labelColor=INK, labelFontSize=12, labelLimit=240, offset=8)
        .configure_title(anchor="start", color=INK, subtitleColor=INK, fontSize=16, subtitleFontSize=12, offset=12)
    )


def _heading(name: str, **options: Any) -> alt.TitleParams:
    title, *below = TITLES[name]
    return alt.TitleParams(title, subtitle=below, **options)


def _readable(record: Record) -> dict[str, Any]:
    """A record with its columns for the tooltip."""
    fields = {name: record[name] for name in Estimate.__dataclass_fields__}
    rounds = "AR" if record["steps"] is None else str(record["steps"])
    return record | {"shown": str(Estimate(**fields)), "rounds": rounds, "cost": f"{record['evaluations']:.4g}"}
