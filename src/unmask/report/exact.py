"""Figures and numbers without a sweep: `unmask theory figure` and `unmask board ranks`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import altair as alt
import pandas as pd

from unmask.core.files import finite, origin
from unmask.diagnosis.table import Record
from unmask.experiments.board.ranks import Ranking, read
from unmask.languages import Language
from unmask.report import frame, whole
from unmask.report.explorer.figure import colour
from unmask.report.explorer.fragment import Explorer
from unmask.report.frame import Sentence
from unmask.report.publishing import write
from unmask.report.results import THEORY, Results
from unmask.report.view import saved

STAIRS = ("schedule", "schedule-optimal")
CURVE = "theory-curve"
RANKS = "ranks.json"
BELOW = ("by accuracy under parallelism, the best on top", "thick: in a pair that both boards decide differently")
BOARDS = ("first board", "other board")
WIDTH, LINE = 260, 15  # pixels: of a panel, and from one rank to the next


def theory(
    out: Path, language: Language, length: int, records: Sequence[Record], configuration: dict[str, Any]
) -> list[Path]:
    """Write theory-ser, -ter, -crossover, -orders and -curve as SVG and PNG, numbers, and a page."""
    of = configuration["language"]
    about = {"of": of, "length": length, "schedule": configuration["schedule"]}
    results = Results([], theory=[finite(record) | about for record in records], languages={of: language})
    explorer, source = Explorer(results, saved("theory")), origin(**configuration) | {"language": language.source()}
    drawn = explorer.drawings()
    stairs = [frame.svg(drawn.pop(name)).encode() for name in STAIRS if name in drawn]
    files = frame.drawings(drawn) | frame.beside(CURVE, stairs, "Divergence of a schedule")
    files |= frame.numbers("theory", records, origin=source)
    page = whole.page(explorer, source, files, out, messages=messages(records, length))
    return write(out, files | page, THEORY)


def messages(records: Sequence[Record], length: int) -> list[Sentence]:
    """The SER from the fewest to the most steps, and the tightest upper bounds with the most steps."""
    fewest, most = (end(record["steps"] for record in records) for end in (min, max))
    known = {(r["quantity"], r["kind"], r["steps"]): r["value"] for r in records if r["kind"] in ("exact", "measured")}
    sentences: list[Sentence] = []
    for kind, about in (("exact", "Exact values"), ("measured", "Measured values")):
        ends = [known[key] for steps in (fewest, most) if (key := ("ser", kind, steps)) in known]
        if len(ends) == 2 and not sentences:
            number = f"SER {100 * ends[0]:.3g}% \u2192 {100 * ends[1]:.3g}%"
            sentences.append(Sentence(number, f"{about} with {fewest} and with {most} steps, at {length} tokens."))
    for quantity, less, text in (("ser", 0.0, "SER <="), ("ter_ratio", 1.0, "TER <= the language's own +")):
        bounds = [r for r in records if (r["quantity"], r["kind"], r["steps"]) == (quantity, "upper", most)]
        if bounds:
            best = min(bounds, key=lambda record: record["value"])
            words = f"The tightest of {len(bounds)} upper bounds with {most} steps: {best['name']}."
            sentences.append(Sentence(f"{text} {100 * (best['value'] - less):.2g}%", words))
    return sentences


def ranks(out: Path, rankings: Sequence[Ranking], boards: Sequence[Path]) -> list[Path]:
    """Write ranks.svg and .png, and the numbers as JSON and CSV."""
    heading = frame.heading("Ranks of samplers on two boards", *BELOW)
    drawn = frame.drawings({"ranks": frame.alone(frame.themed(rank_panels(rankings)), heading)})
    about: dict[str, Any] = {"origin": origin(boards={str(path): read(path).origin for path in boards})}
    about["rankings"] = [ranking.to_dict() for ranking in rankings]
    return write(out, drawn | frame.numbers("ranks", rank_records(rankings), **about), RANKS)


def rank_records(rankings: Sequence[Ranking]) -> list[dict[str, Any]]:
    """A row per sampler and language."""
    records = []
    for ranking in rankings:
        turned = {name for pair in ranking.turned for name in pair}
        for one in ranking.standings:
            about = {"language": ranking.language, "length": ranking.length, "sampler": one.sampler}
            about |= {"first": one.first[0], "second": one.second[0]}
            about |= {"first_rank": one.first_rank, "second_rank": one.second_rank, "turned": one.sampler in turned}
            records.append(about)
    return records


def rank_panels(rankings: Sequence[Ranking]) -> alt.HConcatChart:
    """A panel per language: a line from the rank of each sampler on one board to its rank on the other."""
    drawn = []
    for ranking in rankings:
        pairs = f"{len(ranking.turned)} of {ranking.decided} decided pairs reversed"
        title = f"{ranking.language}: tau {ranking.tau:.2f}, {pairs}"
        panel = _panel(pd.DataFrame(rank_records([ranking])))
        height = LINE * (len(ranking.standings) + 1)
        drawn.append(panel.properties(width=WIDTH, height=height, title=alt.Title(title, fontSize=13)))
    return alt.hconcat(*drawn, spacing=34)


def _panel(data: pd.DataFrame) -> Any:
    """Equal ranks are one below the other, so that no name covers another."""
    parts = []
    for board, value, rank in zip(BOARDS, ("first", "second"), ("first_rank", "second_rank"), strict=True):
        place = data[rank].rank(method="first")
        parts.append(data[["sampler", "turned"]].assign(board=board, place=place, rank=data[rank], aup=data[value]))
    both = pd.concat(parts)
    names = list(data["sampler"])
    colours = alt.Scale(domain=names, range=[colour(name) for name in names])
    look: dict[str, Any] = {"color": alt.Color("sampler:N", scale=colours, legend=None)}
    x = alt.X("board:N", title=None, sort=list(BOARDS), axis=alt.Axis(labelAngle=0, orient="top", grid=False))
    y = alt.Y("place:Q", axis=None).scale(domain=[0, len(data) + 1], nice=False, reverse=True)
    tips = [alt.Tooltip(f"{name}:N") for name in ("sampler", "rank", "aup")]
    base = alt.Chart(both).encode(x=x, y=y, tooltip=tips, **look)
    thick = alt.condition("datum.turned", alt.value(2.5), alt.value(1.0))
    layers: list[Any] = [base.mark_line().encode(detail="sampler:N", strokeWidth=thick)]
    layers.append(base.mark_point(filled=True, size=40, opacity=1))
    left, right = (base.transform_filter(f"datum.board == '{board}'").encode(text="sampler:N") for board in BOARDS)
    layers += [left.mark_text(align="right", dx=-9, fontSize=11), right.mark_text(align="left", dx=9, fontSize=11)]
    return alt.layer(*layers)
