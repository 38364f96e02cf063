"""The figures of the demo, each whole: what of the sweep it needs, which records it shows, its words, its drawing."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar

import altair as alt
import pandas as pd

from unmask.core.errors import UnmaskError
from unmask.core.estimates import Estimate
from unmask.core.files import finite
from unmask.experiments.board import Settings as BoardSettings
from unmask.experiments.board.run import measured as curves_of
from unmask.experiments.board.standings import records as of_board
from unmask.experiments.jobs.run import Sweep
from unmask.experiments.measures.catalogue import Record
from unmask.experiments.measures.rounds import predictable
from unmask.experiments.measures.sources import ground_truth
from unmask.languages import PRESETS
from unmask.report import board
from unmask.report.demo.charts import Charts, Width
from unmask.report.demo.settings import LARGE, Settings
from unmask.report.frame import GREY

Part = dict[str, Any]  # of a recipe

SEEDS = 2  # of a comparison of samplers
ACROSS = (
    "Across: the number of sampling steps N, doubling from tick to tick; AR, which takes no such steps, stands at the "
    "right end."
)
ABOUT = ("language", "length", "pruned", "steps")
BARS = "bars: 95% intervals"


class Figure(ABC):
    """One of them; `FIGURES` says in which order they stand in the page."""

    name: ClassVar[str]  # of its files
    title: ClassVar[str]
    subtitle: ClassVar[str]
    section: ClassVar[str] = "figures"  # of the page: a place in its template
    shows: ClassVar[frozenset[str]] = frozenset()  # measures of ancestral sampling, from languages as they are
    width: ClassVar[int] = 520  # of its plot, in pixels
    heading: ClassVar[Mapping[str, int]] = {}  # how its title looks where it stands alone
    fluid: ClassVar[bool] = True  # as wide as its place, in a page that is read on a screen

    def wanted(self, settings: Settings) -> bool:
        return True

    @abstractmethod
    def parts(self, settings: Settings) -> list[Part]:
        """Of the sweep; figures may share some."""

    def records(self, sweep: Sweep) -> list[Record]:
        """What it shows beside `shows`."""
        return []

    @abstractmethod
    def caption(self, settings: Settings) -> str:
        """What it shows, axis by axis, in HTML."""

    @abstractmethod
    def draw(self, charts: Charts, width: Width) -> Any: ...


class Fluency(Figure):
    name = "fluency"
    title = "Fluency: the token error rate (TER)"
    subtitle = "relative to the language's own, which no model can beat; 1.00 is perfect"
    shows = frozenset({"ter", "ter_ratio", "ter_upper", "ter_upper_ratio", "ter_ratio_predicted"})

    def parts(self, settings: Settings) -> list[Part]:
        return [_errors(settings), _curves(settings)]

    def caption(self, settings: Settings) -> str:
        return (
            f"{ACROSS} Up: TER by its definition, divided by the language's own TER. interval-5 is exact; "
            "for the others it is the upper bound <code>ter_upper</code>, for all N from one pass over "
            f"{settings.profile_rows} sequences ({BARS}). The curves of interval-5 and paper-2gram are theory. This is "
            "not what the paper plots: where its plots say TER they show generative perplexity, another quantity "
            "(<code>--generative-perplexity</code>)."
        )

    def draw(self, charts: Charts, width: Width) -> Any:
        curves = charts.of({"ter_ratio_predicted"})
        points = charts.of({"ter_ratio", "ter_upper_ratio"})
        return charts.ratio(self.name, curves, points, "TER / TER of the language", width)


class Correctness(Figure):
    name = "correctness"
    title = "Correctness: the sequence error rate (SER)"
    subtitle = "the share of sequences with something the language forbids; lower is better"
    shows = frozenset({"ser", "ser_predicted"})

    def parts(self, settings: Settings) -> list[Part]:
        return [_errors(settings), _curves(settings)]

    def caption(self, settings: Settings) -> str:
        s = settings
        fewer = f", {s.small_rows} of {' and '.join(LARGE)}" if s.small_rows != s.rows else ""
        return (
            f"{ACROSS} Up: the share of sampled sequences that the language cannot produce ({s.rows} sequences a "
            f"point{fewer}; {BARS}). The curves of interval-5 and paper-2gram are theory, drawn without looking at the "
            "points; the other lines join points. Click a name to single it out."
        )

    def draw(self, charts: Charts, width: Width) -> Any:
        y = alt.Y("value:Q", title="SER: share of wrong sequences", axis=alt.Axis(format=".0%", tickCount=5))
        y = y.scale(domain=[0, 1], nice=False)
        curves, points = charts.of({"ser_predicted"}), charts.of({"ser"})
        return charts.against_steps(self.name, curves, points, y, "bottom-left", width)


class GenerativePerplexity(Figure):
    name = "generative-perplexity"
    title = "Fluency as the paper plots it: generative perplexity"
    subtitle = "of samples, under the language without impossible strings; 1.00 is the language's own"

    def wanted(self, settings: Settings) -> bool:
        return settings.generative_perplexity

    def parts(self, settings: Settings) -> list[Part]:
        """Of languages that can be had without impossible strings: the random ones."""
        s = settings
        names = [name for name in s.languages if name in PRESETS and PRESETS[name].random]
        if not names:
            return []
        fixed = {"length": s.length, "pruned": False}
        grid = {"language": names, "steps": list(s.steps)}
        return [{"metrics": ["samples", "autoregressive"], "grid": grid, "fixed": fixed, "rows": s.perplexity_rows}]

    def records(self, sweep: Sweep) -> list[Record]:
        """Itself, and relative to the language's own TER."""
        rows = [row for row in of_ancestral(sweep) if not row["pruned"]]
        own = {row["language"]: row["value"] for row in rows if row["measure"] == "ter"}
        found = []
        for row in rows:
            if row["measure"] in ("ter", "generative_perplexity"):  # AR draws from the language itself
                ratio = Estimate.of_record(row).map(lambda value, row=row: value / own[row["language"]])
                found.append(record(row) | {"measure": "generative_perplexity"})
                found.append(record(row) | {"measure": "generative_perplexity_ratio"} | finite(ratio.to_dict()))
        return found

    def caption(self, settings: Settings) -> str:
        return (
            f"{ACROSS} Up: what the paper plots as TER, 2 to the mean bits a token of {settings.perplexity_rows} "
            f"<em>sampled</em> sequences under the language, divided by the language's own TER ({BARS}). It needs "
            "languages without impossible strings (nothing pruned), where SER is 0 by construction, and it can be low "
            "for a sampler that repeats itself."
        )

    def draw(self, charts: Charts, width: Width) -> Any:
        points = charts.of({"generative_perplexity_ratio"})
        return charts.ratio(self.name, points.head(0), points, "generative perplexity / TER of the language", width)


class Lengths(Figure):
    name = "lengths"
    title = "How many steps each of them needs, as the text grows"
    subtitle = "flat: whatever the length; parallel to the dotted line: in proportion to the length"
    shows = frozenset({"steps_for_ter", "steps_for_ser"})
    width = 900

    def parts(self, settings: Settings) -> list[Part]:
        s = settings
        fluency = f"steps_for_ter(rows={s.profile_rows}, excess={s.excess})"
        grid = {"language": list(s.panel), "length": list(s.panel_lengths)}
        return [{"metrics": [fluency, f"steps_for_ser(ser={s.ser})"], "grid": grid, "rows": s.small_rows}]

    def caption(self, settings: Settings) -> str:
        s = settings
        return (
            "Across: the length L. Up: the number of steps N; both axes are logarithmic. Solid: until "
            f"{s.ser:.0%} of the sequences are wrong (SER); dashed: until TER is within {s.excess:.0%} of the "
            "language's own (by <code>ter_upper</code>, except for interval-5). interval-5 is exact; others are "
            f"measured ({s.small_rows} sequences at each of three N for SER, {s.profile_rows} for TER; {BARS}). "
            "Dotted: as many steps as tokens, which is what AR takes."
        )

    def draw(self, charts: Charts, width: Width) -> Any:
        s = charts.settings
        kinds = {
            "steps_for_ser": f"steps until SER is {s.ser:.0%}",
            "steps_for_ter": f"steps until TER is within {s.excess:.0%}",
        }
        same = "N = L, as AR: one step a token"
        data = charts.of(self.shows).assign(needed=lambda frame: frame["measure"].map(kinds))
        lengths = sorted(s.panel_lengths)
        ends = [lengths[0], lengths[-1]]
        ticks = [factor * 10**power for power in range(7) for factor in (1, 3)]
        x = alt.X("length:Q", title="L, the number of tokens", axis=alt.Axis(values=lengths, format="d", grid=False))
        y = alt.Y("value:Q", title="N, the number of steps needed", axis=alt.Axis(format="d", values=ticks))
        x = x.scale(type="log", base=2, nice=False, domain=[ends[0] * 0.85, ends[1] * 1.18])
        y = y.scale(type="log", nice=False, padding=12)
        legend = alt.Legend(title=None, orient="top-left", symbolStrokeColor=GREY, symbolSize=400, symbolType="stroke")
        scale = alt.Scale(domain=[*kinds.values(), same], range=[[1, 0], [6, 4], [2, 4]])
        dash = alt.StrokeDash("needed:N", scale=scale, legend=legend)
        reference = alt.Chart(pd.DataFrame({"length": ends, "value": ends, "needed": same}))
        reference = reference.mark_line(color=GREY, strokeWidth=2).encode(x=x, y=y, strokeDash=dash)
        look = {"strokeDash": dash, "detail": "needed:N"}
        return charts.layers(self.name, data, data, x, y, [reference], "top", width, **look)


class Samplers(Figure):
    """Some samplers side by side at a few budgets: a small board, half of its rows from each of two seeds."""

    name = "samplers"
    title, subtitle = board.TITLE
    section = "samplers"
    heading = board.HEADING
    fluid = False

    def parts(self, settings: Settings) -> list[Part]:
        s = settings
        made = {
            "metrics": ["curve"],
            "grid": {"language": list(s.sampler_languages), "sampler": list(s.samplers)},
            "fixed": {"length": s.sampler_length, "quick": True, "ter_rows": 0},
            "rows": max(s.sampler_rows // SEEDS, 1),
            "zip": {
                name: [first + i for i in range(SEEDS)]
                for name, first in (("language_seed", s.language_seed), ("seed", s.seed))
            },
        }
        return [made]

    def records(self, sweep: Sweep) -> list[Record]:
        curves, failures = curves_of(sweep)
        if failures:
            first = failures[0]
            raise UnmaskError(f"cannot compare {first.sampler} on {first.language}: {first.message}")
        shown = [record for record in of_board(curves, BoardSettings()) if record["measure"] in ("ser", "diversity")]
        return [r | {"pruned": True, "steps": r["budget"] if r["knob"] == "steps" else None} for r in shown]

    def caption(self, settings: Settings) -> str:
        return (
            "Across: evaluations a sequence needed, doubling from tick to tick, the same for every sampler; AR stands "
            "at L. Up, above: the share of impossible sequences; what falls further to the left is right with fewer "
            "evaluations. Up, below: how diverse the samples are, the entropy of neighbouring tokens relative to the "
            "language's own; what lies below 100% repeats itself, and is right by saying little. Bands: 95% intervals. "
            "Blue: random orders; green: orders that keep neighbours apart or together; pink and orange: where and how "
            "much is chosen by confidence; violet: tokens are taken back; grey: exact laws; dashed: the clairvoyant "
            f"sampler, which asks the language what depends on what. {settings.sampler_rows} sequences a point; "
            "<code>unmask board</code> has every sampler, and the numbers."
        )

    def draw(self, charts: Charts, width: Width) -> Any:
        """As wide as its languages are many."""
        return board.panels([record for record in charts.records if "sampler" in record])


OVERVIEW = (Fluency(), Correctness())
FIGURES = (*OVERVIEW, GenerativePerplexity(), Lengths(), Samplers())


def figures(settings: Settings) -> list[Figure]:
    return [figure for figure in FIGURES if figure.wanted(settings)]


def of_ancestral(sweep: Sweep) -> list[dict[str, Any]]:
    """The rows of its table that are not about other samplers."""
    return [row for row in sweep.rows() if row["metric"] != "curve"]


def record(row: Mapping[str, Any]) -> Record:
    """What the demo keeps of such a row."""
    estimate = {name: row[name] for name in Estimate.__dataclass_fields__}
    about = {name: row.get(name) for name in ABOUT}
    return {"measure": row["measure"]} | about | estimate | {"evaluations": row["evaluations"]}


def _errors(s: Settings) -> Part:
    """SER and TER against N, with AR beside them."""
    return {
        "metrics": ["samples", f"ter_upper(rows={s.profile_rows})", "autoregressive"],
        "zip": {
            "language": list(s.languages),
            "rows": [s.small_rows if name in LARGE else s.rows for name in s.languages],
        },
        "grid": {"steps": list(s.steps)},
        "fixed": {"length": s.length},
    }


def _curves(s: Settings) -> Part:
    """What theory draws behind the points of the languages that it knows; empty if there are none."""
    known = [name for name in s.languages if predictable(ground_truth(name, s.language_seed), s.length)]
    fixed = {"length": s.length, "least": min(s.steps), "most": max(s.steps)}
    return {"metrics": ["prediction"], "grid": {"language": known}, "fixed": fixed} if known else {}
