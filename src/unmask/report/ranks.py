"""Two rankings drawn: each sampler's rank on one board against that on another, one panel a language."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import altair as alt
import pandas as pd

from unmask.core.files import origin
from unmask.experiments.board.ranks import Ranking, read
from unmask.report import labels
from unmask.report.frame import INK, alone, drawings, heading, numbers, themed
from unmask.report.kinds import colour
from unmask.report.publishing import check_directory, write

SIDE = 430  # of a panel, in pixels
LAST = "ranks.json"
TITLE = "How samplers rank on two boards"
BELOW = (
    "ranks by accuracy under parallelism, from 1 for the best: across on the first board, downwards on the other",
    "filled: in a pair of samplers that is turned beyond chance",
)


def check(out: Path) -> None:
    """Fail before the work is done."""
    check_directory(out, LAST)


def publish(out: Path, rankings: Sequence[Ranking], boards: Sequence[Path]) -> list[Path]:
    """ranks.svg and .png, and the numbers as JSON and CSV."""
    drawn = drawings({"ranks": alone(themed(panels(rankings)), heading(TITLE, *BELOW))})
    made_by = origin(boards={str(path): read(path).origin for path in boards})
    told = [made.to_dict() for made in rankings]
    return write(out, drawn | numbers("ranks", records(rankings), origin=made_by, rankings=told), LAST)


def records(rankings: Sequence[Ranking]) -> list[dict[str, Any]]:
    """A row a sampler and language."""
    found = []
    for made in rankings:
        turned = {name for pair in made.turned for name in pair}
        for one in made.standings:
            about = {"language": made.language, "length": made.length, "sampler": one.sampler}
            places = {"first_rank": one.first_rank, "second_rank": one.second_rank, "turned": one.sampler in turned}
            found.append(about | {"first": one.first[0], "second": one.second[0]} | places)
    return found


def panels(rankings: Sequence[Ranking]) -> alt.HConcatChart:
    """Side by side, the best at the upper left."""
    drawn = []
    for made in rankings:
        title = f"{made.language}: tau {made.tau:.2f}, {len(made.turned)} of {made.decided} pairs turned"
        here = _panel(pd.DataFrame(records([made])))
        drawn.append(here.properties(width=SIDE, height=SIDE, title=alt.Title(title, fontSize=13)))
    return alt.hconcat(*drawn, spacing=34)


def _panel(data: pd.DataFrame) -> Any:
    last = len(data) + 1
    ends: dict[str, Any] = {"domain": [0, last], "nice": False}
    x = alt.X("first_rank:Q", title="rank on the first board", axis=alt.Axis(grid=False)).scale(**ends)
    y = alt.Y("second_rank:Q", title="rank on the other", axis=alt.Axis(grid=False)).scale(**ends, reverse=True)
    names = list(data["sampler"])
    colours = alt.Scale(domain=names, range=[colour(name) for name in names])
    look: dict[str, Any] = {"color": alt.Color("sampler:N", scale=colours, legend=None)}
    same = alt.Chart(pd.DataFrame({"first_rank": [0, last], "second_rank": [0, last]}))
    parts: list[Any] = [same.mark_line(strokeDash=[6, 4], color=INK, opacity=0.5).encode(x=x, y=y)]
    told = [alt.Tooltip(f"{name}:N") for name in ("sampler", "first", "second")]
    for filled in (True, False):
        dots = alt.Chart(data[data["turned"] == filled]).mark_point(filled=filled, size=40, opacity=1)
        parts.append(dots.encode(x=x, y=y, tooltip=told, **look))
    at = {n: [(SIDE * a / last, SIDE * b / last)] for n, a, b in data[["sampler", "first_rank", "second_rank"]].values}
    far = sorted(at, key=lambda name: -abs(at[name][0][0] - at[name][0][1]))  # who moves most has his name first
    placed = labels.place({name: at[name] for name in far}, SIDE, SIDE)
    rows = [{"sampler": name, "px": px, "py": py, "side": side} for name, (px, py, side) in placed.items()]
    for side, written in pd.DataFrame(rows).groupby("side"):
        text = alt.Chart(written).mark_text(align=side, baseline="middle", fontSize=11)
        parts.append(text.encode(x=alt.X("px:Q", scale=None), y=alt.Y("py:Q", scale=None), text="sampler:N", **look))
    return alt.layer(*parts)
