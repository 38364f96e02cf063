"""Figure 1 drawn: a column for each language, SER above, generative perplexity below; black exact, colour trained."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from functools import partial
from typing import Any

import altair as alt
import pandas as pd

from unmask.core.estimates import Estimate
from unmask.experiments.board.table import Table
from unmask.experiments.measures.catalogue import Record
from unmask.networks.model.shape import KINDS
from unmask.report import frame
from unmask.report.figure_1 import Settings, recipe, records_of
from unmask.report.frame import COLOURS, INK, PAGE, Sentence
from unmask.report.publishing import Made, Page
from unmask.report.rounds import across, network_item, placed

WIDTH, HEIGHT = 250, 230  # of a panel, in pixels
MOST_WIDE, WRAPPED = 4, 3  # languages side by side; where there are more, so many
LEAST_SPAN = 0.08  # of perplexities: below it, an axis would show rounding
LOOKS = {"exact": INK, "trained": COLOURS[2]}
MEASURES = {
    "ser": ("SER: share of wrong sequences", ".0%"),
    "generative_perplexity_ratio": ("generative perplexity / TER of the language", ".2f"),
}
TITLE = (
    "The paper's first figure, with what is the sampler's fault and what is the network's",
    "black: the ideal denoiser; pink: networks trained on the language; diamonds: AR, one token at a time",
)
CAPTION = (
    "Across: the number of sampling steps N; AR stands at the right end. Up, above: the share of {rows} sampled "
    "sequences that the language cannot produce; below: generative perplexity of those that it can, relative to the "
    "language's own TER. Bars: 95% intervals. Where black is, parallel sampling is with a perfect network; from there "
    "to pink is what these networks have not learned."
)


def page(device: str = "auto") -> Page[Settings, list[Record]]:
    """device: where networks learn, and nothing that numbers depend on; hence no setting."""
    return Page(PAGE, partial(recipe, device=device), records_of, contents)


def contents(records: Sequence[Record], settings: Settings, about: Made) -> dict[str, bytes]:
    """All files by name."""
    plain = frame.themed(chart(records, settings))
    found = frame.drawings({"figure-1": frame.alone(plain, frame.heading(*TITLE, fontSize=18, offset=16))})
    found |= frame.numbers("data", records, origin=about.origin, seconds=about.seconds, settings=asdict(settings))
    found[PAGE] = frame.page(
        "unmask figure-1: exact and trained",
        "figure_1.html",
        about.origin,
        found,
        sentences(records, settings),
        tables(records, settings),
        figure=frame.figure("figure-1", *TITLE, CAPTION.format(rows=settings.rows), plain, plain),
        networks="\n".join(network_item(*entry) for entry in networks(records).items()),
        length=settings.size,
        preset=_presets(settings),
        **about.explorer.parts(),
    )
    return found


def chart(records: Sequence[Record], settings: Settings) -> Any:
    data = placed([record for record in records if record["measure"] in MEASURES], settings.steps)
    columns: list[Any] = []
    wide = len(settings.languages) if len(settings.languages) <= MOST_WIDE else WRAPPED
    for name in settings.languages:
        here = data[data["language"] == name]
        panels = [
            _panel(here[here["measure"] == measure], measure, settings, name, first=len(columns) % wide == 0)
            for measure in MEASURES
        ]
        columns.append(alt.vconcat(*panels, spacing=14))
    rows = [alt.hconcat(*columns[first : first + wide], spacing=24) for first in range(0, len(columns), wide)]
    return alt.vconcat(*rows, spacing=36)


def _panel(data: pd.DataFrame, measure: str, settings: Settings, name: str, first: bool) -> Any:
    said, form = MEASURES[measure]
    above = measure == "ser"
    title = None if above else f"N, the number of sampling steps (L = {settings.lengths[name]})"
    x = across(settings.steps, title, labels=not above)
    y = alt.Y("value:Q", title=said if first else None, axis=alt.Axis(format=form, tickCount=5))
    y = y.scale(domain=[0, 1] if above else _domain(data), nice=False, zero=False)
    colour = alt.Color("model:N", legend=None).scale(domain=list(LOOKS), range=list(LOOKS.values()))
    told = {"model": "denoiser", "rounds": "N", "shown": "value", "evaluations": "evaluations a row"}
    tooltip = [alt.Tooltip(f"{field}:N", title=title) for field, title in told.items()]
    steps, ends = data[data["steps"].notna()], data[data["steps"].isna()]
    base = alt.Chart(steps).encode(x=x, color=colour)
    spread = alt.Chart(data[data["high"] > data["low"]]).mark_rule(strokeWidth=1.5)
    spread = spread.encode(x=x, color=colour, y=alt.Y("low:Q").title(said if first else None), y2="high:Q")
    line = base.mark_line(strokeWidth=2).encode(y=y)
    points = base.mark_point(filled=True, size=45, opacity=1).encode(y=y, tooltip=tooltip)
    rule = alt.Chart(ends.head(1)).mark_rule(color=INK, opacity=0.4, strokeDash=[2, 3]).encode(x=x)
    diamonds = alt.Chart(ends).mark_point(shape="diamond", filled=True, size=130, opacity=1)
    diamonds = diamonds.encode(x=x, y=y, color=colour, tooltip=tooltip)
    drawn = alt.layer(rule, spread, line, points, diamonds).properties(width=WIDTH, height=HEIGHT)
    return drawn.properties(title=alt.TitleParams(name, fontSize=13)) if above else drawn


def _domain(data: pd.DataFrame) -> list[float]:
    """From the least to the greatest, with a little room."""
    ends = data[["low", "high", "value"]].stack()
    if ends.empty:
        return [1.0, 1.0 + LEAST_SPAN]
    room = max(0.05 * (ends.max() - ends.min()), LEAST_SPAN / 2)
    return [ends.min() - room, ends.max() + room]


def sentences(records: Sequence[Record], settings: Settings) -> list[Sentence]:
    """What to see, from the numbers."""
    found = _lookup(records)
    most = max(settings.steps)
    gaps = [
        100 * (found["ser", name, "trained", n]["value"] - found["ser", name, "exact", n]["value"])
        for name in settings.languages
        for n in settings.steps
    ]
    exact, learned, ar = (
        [100 * found["ser", name, model, n]["value"] for name in settings.languages]
        for model, n in (("exact", most), ("trained", most), ("trained", None))
    )
    excess = {
        kind: [record["value"] for record in records if (record["measure"], record["kind"]) == ("excess_percent", kind)]
        for kind in ("mdm", "ar")
    }
    return [
        Sentence(
            f"SER {_span(learned)}",
            f"After {most} steps {_span(exact)} of the ideal denoiser's sequences are wrong, and {_span(learned)} of "
            "those of the trained MDMs. The first is the price of sampling in parallel, and the rest is learning.",
        ),
        Sentence(
            f"{min(gaps):+.1f} to {max(gaps):+.1f} points",
            "So much the SER of the MDMs is above the ideal denoiser's, over all languages and numbers of steps.",
        ),
        Sentence(
            f"AR: {_span(ar)}",
            f"Of the sequences of the AR models {_span(ar)} are wrong, at one evaluation a token. Their loss is "
            f"{_span(excess['ar'])} above the entropy of the language, that of the MDMs {_span(excess['mdm'])}.",
        ),
    ]


def tables(records: Sequence[Record], settings: Settings) -> list[Table]:
    """Of each language SER and generative perplexity by N, AR last; then the trainings."""
    found = _lookup(records)
    heads = ["N", "SER, exact", "SER, trained", "gen. perplexity, exact", "gen. perplexity, trained"]
    made = []
    for name in settings.languages:
        rows = []
        for steps in (*settings.steps, None):
            cells = [
                _cell(found.get((measure, name, model, steps)), measure)
                for measure in MEASURES
                for model in ("exact", "trained")
            ]
            rows.append(("AR" if steps is None else f"{steps}", cells))
        made.append(
            Table(
                f"{name}, {settings.lengths[name]} tokens; perplexity relative to the language's own TER", heads, rows
            )
        )
    trainings = [record for record in records if record["measure"] == "excess_percent"]
    rows = [
        (
            f"{record['language']}, {record['kind'].upper()}",
            [
                (f"{record['entropy']:.4f}", ""),
                (f"{record['value']:+.2f}%", f"{record['low']:+.2f} to {record['high']:+.2f}"),
                (f"{record['training_steps']}", ""),
                (f"{record['seconds']:.0f} s", ""),
            ],
        )
        for record in trainings
    ]
    heads = ["network", "entropy, nats a token", "loss above it", "training steps", "time"]
    learned = Table("What was trained: validation loss beside the exact entropy", heads, rows)
    return [_parts(records, settings), *made, learned]


def _presets(settings: Settings) -> str:
    names = dict.fromkeys(f"<em>{settings.preset_of(name)}</em>" for name in settings.languages)
    *others, last = names
    return f"the presets {', '.join(others)} and {last}" if others else f"the preset {last}"


def _parts(records: Sequence[Record], settings: Settings) -> Table:
    """What of the errors is sampling, and what is learning."""
    found, most = _lookup(records), max(settings.steps)
    above = {(r["language"], r["kind"]): r for r in records if r["measure"] == "excess_percent"}
    rows = []
    for name in settings.languages:
        exact, trained, ar = (
            found["ser", name, model, n] for model, n in (("exact", most), ("trained", most), ("trained", None))
        )
        learning = 100 * (trained["value"] - exact["value"])
        excess = [(f"{above[name, kind]['value']:+.2f}%", "") for kind in KINDS]
        rows.append((name, [_cell(exact, "ser"), (f"{learning:+.1f} points", ""), _cell(ar, "ser"), *excess]))
    heads = [
        "language",
        "sampling",
        "learning adds",
        "AR, trained",
        "MDM's loss above the entropy",
        "AR's loss above it",
    ]
    return Table(f"What is sampling and what is learning: SER after {most} steps, and of AR", heads, rows)


def networks(records: Sequence[Record]) -> dict[str, str]:
    """Their directories, seen from that of the page."""
    return {
        f"{record['language']}, {record['kind'].upper()}": record["network"]
        for record in records
        if record["measure"] == "excess_percent"
    }


def _lookup(records: Sequence[Record]) -> dict[tuple[str, str, str, int | None], Record]:
    return {
        (record["measure"], record["language"], record["model"], record["steps"]): record
        for record in records
        if record["measure"] in MEASURES
    }


def _cell(record: Record | None, measure: str) -> tuple[str, str]:
    if record is None:
        return "-", "no sequence is possible"
    scale, form = (100, "{:.1f}%") if measure == "ser" else (1, "{:.3f}")
    estimate = Estimate.of_record(record)
    value, low, high = (form.format(scale * end) for end in (estimate.value, estimate.low, estimate.high))
    if estimate.exact:
        return value, "exact"
    return value, f"no interval of {estimate.n}" if estimate.open else f"{low} to {high}"


def _span(percents: Sequence[float]) -> str:
    low, high = (f"{end:.0f}%" if end >= 10 else f"{end:.2g}%" for end in (min(percents), max(percents)))
    return low if low == high else f"{low} to {high}"
