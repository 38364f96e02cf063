"""Figure 2 drawn: what judges say of what is written in N rounds, with AR at the end and the text itself as a line."""

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
from unmask.report import frame
from unmask.report.figure_2 import LEARNED, MEASURES, SECONDS, Measured, Settings, measured, quick, recipe
from unmask.report.frame import COLOURS, INK, PAGE, Sentence, text
from unmask.report.publishing import Made, Page
from unmask.report.rounds import across, network_item, placed

WIDTH, HEIGHT = 400, 230  # of a panel, in pixels
LOOKS = {"mdm": COLOURS[2], "ar": COLOURS[0], "text": INK}
NAMES = {"mdm": "MDM", "ar": "AR", "text": "the text"}
PANELS = {
    "generative_perplexity": ("generative perplexity by the AR model", ".0f", True),
    "ngram_perplexity": ("perplexity a character by the n-gram", ".1f", False),
    "token_entropy": ("entropy of a row's tokens, nats", ".2f", False),
    "unknown_words": ("words that the text does not have", ".0%", False),
}
TITLE = (
    "A text learned twice: what N rounds buy, and what they cost",
    "pink: the MDM; blue diamond: its AR twin, one token at a time; line: the text itself; above points: times as fast",
)
CAPTION = (
    "Across: the number of sampling steps N; AR stands at the right end. Each value is the mean of {rows} rows, with "
    "its 95% interval. The numbers above the points of the first panel say how many times as fast as AR with its cache "
    "an MDM writes {batch} rows in N rounds. A word that the text does not have is to it what an impossible sequence "
    "is to a language."
)
ALONE = 0.8  # of AR's evaluations: with so many a round reveals hardly more than one token
CLOSE = 1.05  # times the value of the most rounds: there a curve is said to be flat


def page(device: str = "auto") -> Page[Settings, Measured]:
    """device: where networks learn, and nothing that numbers depend on; hence no setting."""
    return Page(PAGE, partial(recipe, device=device), measured, contents)


def contents(made: Measured, settings: Settings, about: Made) -> dict[str, bytes]:
    """All files by name."""
    plain = frame.themed(chart(made.records, settings))
    found = frame.drawings({"figure-2": frame.alone(plain, frame.heading(*TITLE, fontSize=18, offset=16))})
    found |= frame.numbers("data", made.records, origin=about.origin, seconds=about.seconds, settings=asdict(settings))
    found[PAGE] = frame.page(
        "unmask figure-2: a text learned twice",
        "figure_2.html",
        about.origin,
        found,
        sentences(made.records, settings),
        tables(made.records, settings),
        figure=frame.figure("figure-2", *TITLE, CAPTION.format(rows=settings.rows, batch=settings.batch), plain, plain),
        examples="\n".join(_example(record) for record in made.examples),
        networks="\n".join(network_item(*entry) for entry in networks(made.records).items()),
        label=text(made.label),
        length=str(made.length),
        quick=quick().size,
        whole=Settings().size,
        **about.explorer.parts(),
    )
    return found


def chart(records: Sequence[Record], settings: Settings) -> Any:
    data = placed([record for record in records if record["measure"] in PANELS], settings.steps)
    data.loc[data["who"] == "text", "rounds"] = "-"
    data["writer"] = data["who"].map(NAMES)
    fast = speed(records)
    data["faster"] = [f"{fast[steps]:.2g}x" if steps in fast else "" for steps in data["steps"]]
    panels = [_panel(data[data["measure"] == name], name, settings) for name in PANELS]
    return alt.vconcat(*(alt.hconcat(*panels[i : i + 2], spacing=30) for i in (0, 2)), spacing=24)


def _panel(data: pd.DataFrame, measure: str, settings: Settings) -> Any:
    said, form, logarithmic = PANELS[measure]
    x = across(settings.steps, "N, the number of sampling steps")
    y = alt.Y("value:Q", title=None, axis=alt.Axis(format=form, tickCount=5))
    y = y.scale(type="log", nice=False, padding=18) if logarithmic else y.scale(zero=False, padding=8)
    colour = alt.Color("who:N", legend=None).scale(domain=list(LOOKS), range=list(LOOKS.values()))
    told = {"writer": "written by", "rounds": "N", "shown": "value", "evaluations": "evaluations a row"}
    tooltip = [alt.Tooltip(f"{field}:N", title=title) for field, title in told.items()]
    steps, ends, real = (data[data["who"] == who] for who in ("mdm", "ar", "text"))
    rule = alt.Chart(real).mark_rule(strokeDash=[5, 4], strokeWidth=1.5, opacity=0.7)
    rule = rule.encode(y=y, color=colour, tooltip=tooltip)
    spread = alt.Chart(data[(data["high"] > data["low"]) & (data["who"] != "text")]).mark_rule(strokeWidth=1.5)
    spread = spread.encode(x=x, color=colour, y=alt.Y("low:Q").title(None), y2="high:Q")
    base = alt.Chart(steps).encode(x=x, y=y, color=colour)
    line = base.mark_line(strokeWidth=2)
    points = base.mark_point(filled=True, size=45, opacity=1).encode(tooltip=tooltip)
    diamonds = alt.Chart(ends).mark_point(shape="diamond", filled=True, size=130, opacity=1)
    diamonds = diamonds.encode(x=x, y=y, color=colour, tooltip=tooltip)
    layers = [rule, spread, line, points, diamonds]
    if logarithmic:
        layers.append(base.mark_text(dy=-12, fontSize=11).encode(text="faster:N", color=alt.value(INK)))
    drawn = alt.layer(*layers).properties(width=WIDTH, height=HEIGHT)
    return drawn.properties(title=alt.TitleParams(said, fontSize=13))


def speed(records: Sequence[Record]) -> dict[int, float]:
    """How many times as fast as AR each number of rounds is, of the same batch."""
    times = {(record["who"], record["steps"]): record["value"] for record in records if record["measure"] == SECONDS}
    return {steps: times["ar", None] / seconds for (who, steps), seconds in times.items() if who == "mdm"}


def sentences(records: Sequence[Record], settings: Settings) -> list[Sentence]:
    """What to see, from the numbers."""
    found = _lookup(records)
    least, most = min(settings.steps), max(settings.steps)
    values = {n: found["generative_perplexity", "mdm", n]["value"] for n in settings.steps}
    flat = min(n for n, value in values.items() if value <= CLOSE * values[most])
    ar, real = (found["generative_perplexity", who, None]["value"] for who in ("ar", "text"))
    fast = speed(records)
    even = [n for n in sorted(settings.steps) if fast[n] >= 1]
    wrong = {n: found["unknown_words", "mdm", n]["value"] for n in settings.steps}
    entropy = {who: found["token_entropy", who, most if who == "mdm" else None]["value"] for who in NAMES}
    bits = {r["who"]: r["value"] for r in records if r["measure"] == "bits_per_character"}
    best = "Even the fewest rounds are slower than AR with its cache"
    if even:
        best = f"Up to {max(even)} rounds are as fast as AR with its cache, {settings.batch} rows at once"
    rest = ""
    own, theirs = (found["generative_perplexity", *which] for which in (("mdm", most), ("ar", None)))
    if own["evaluations"] > ALONE * theirs["evaluations"]:  # nearly one token a round
        times = own["value"] / theirs["value"]
        rest = f" After {most} rounds the MDM's perplexity is {times:.2g} times AR's: that is learning, not sampling."
    return [
        Sentence(
            f"{flat} rounds",
            f"From there on generative perplexity is within {CLOSE - 1:.0%} of what {most} rounds have, "
            f"{values[most]:.3g}; with {least} it is {values[least]:.3g}. The AR twin's rows have {ar:.3g}, the text "
            f"{real:.3g}; a row's entropy is {entropy['mdm']:.3g}, {entropy['ar']:.3g} and {entropy['text']:.3g} nats.",
        ),
        Sentence(f"{fast[flat]:.2g}x", f"So fast as AR are {flat} rounds. {best}."),
        Sentence(
            f"{wrong[most]:.1%} of words",
            f"So many does the text not have after {most} rounds; with {least} it was {wrong[least]:.1%}, with {flat} "
            f"{wrong[flat]:.1%}. Of the AR twin it is "
            f"{found['unknown_words', 'ar', None]['value']:.1%}, with one evaluation a token.",
        ),
        Sentence(
            f"{bits['mdm']:.2f} and {bits['ar']:.2f} bits",
            "So much a character the MDM and the AR model lose on what is held out, the MDM at most: the first is a "
            f"bound. Both have as many weights, and have read the same windows.{rest}",
        ),
    ]


def tables(records: Sequence[Record], settings: Settings) -> list[Table]:
    """What judges say by N, AR and the text last; then both networks."""
    found, fast = _lookup(records), speed(records)
    shown = [measure for measure in MEASURES if (measure, "ar", None) in found]
    heads = {
        "generative_perplexity": "gen. perplexity",
        "ngram_perplexity": "n-gram, a character",
        "smollm2_perplexity": "SmolLM2",
        "token_entropy": "entropy, nats",
        "unknown_words": "unknown words",
        "rows_with_unknown_words": "rows with one",
    }
    rows = []
    for who, steps in [*(("mdm", n) for n in settings.steps), ("ar", None), ("text", None)]:
        cells = [_cell(found.get((measure, who, steps)), measure) for measure in shown]
        cells.append(_time(found.get((SECONDS, who, steps))))
        cells.append((f"{fast[steps]:.2g}x" if steps in fast else "-", ""))
        rows.append((f"{steps}" if who == "mdm" else NAMES[who], cells))
    written = Table(
        f"By the number of rounds N, {settings.rows} rows; seconds of {settings.batch} rows at once",
        ["N", *(heads[measure] for measure in shown), "time", "speed"],
        rows,
    )
    learned = [record for record in records if record["measure"] == LEARNED[0]]
    bits = {record["who"]: record for record in records if record["measure"] == LEARNED[1]}
    rows = [
        (
            NAMES[record["who"]],
            [
                _cell(record, LEARNED[0]),
                _cell(bits[record["who"]], LEARNED[1]),
                (f"{record['parameters']:,}", ""),
                (f"{record['tokens']:,}", ""),
                (f"{record['flop']:.2g}", ""),
            ],
        )
        for record in learned
    ]
    heads_of_learned = ["network", "nats a token", "bits a character", "parameters", "tokens read", "FLOP, in matrices"]
    title = (
        "What was trained, by what is held out; the MDM has a vector for each place besides, and its loss is a bound"
    )
    return [written, Table(title, heads_of_learned, rows)]


def networks(records: Sequence[Record]) -> dict[str, str]:
    """Their directories, seen from that of the page."""
    return {NAMES[r["who"]]: r["network"] for r in records if r["measure"] == LEARNED[0]}


def _example(record: Record) -> str:
    who = f"MDM, N = {record['steps']}" if record["steps"] else NAMES[record["who"]]
    return f'<h3>{text(who)}</h3>\n<pre style="white-space: pre-wrap">{text(record["text"])}</pre>'


def _lookup(records: Sequence[Record]) -> dict[tuple[str, str, int | None], Record]:
    return {(record["measure"], record["who"], record["steps"]): record for record in records}


def _cell(record: Record | None, measure: str) -> tuple[str, str]:
    if record is None:
        return "-", ""
    share = "words" in measure
    scale, form = (100, "{:.1f}%") if share else (1, "{:.4g}" if "perplexity" in measure else "{:.3f}")
    estimate = Estimate.of_record(record)
    value, low, high = (form.format(scale * end) for end in (estimate.value, estimate.low, estimate.high))
    return value, f"no interval of {estimate.n}" if estimate.open else f"{low} to {high}"


def _time(record: Record | None) -> tuple[str, str]:
    if record is None:
        return "-", ""
    return f"{record['value']:.3g} s", f"{record['low']:.3g} to {record['high']:.3g}"
