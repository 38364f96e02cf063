"""Two rankings drawn: a line from each sampler's rank on one board to its rank on another, one panel per language."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import altair as alt
import pandas as pd

from unmask.core.files import origin
from unmask.experiments.board.ranks import Ranking, read
from unmask.report.explorer.looks import colour
from unmask.report.frame import alone, drawings, heading, numbers, themed
from unmask.report.publishing import check_directory, write

WIDTH, LINE = 260, 15  # pixels: of a panel, and from one rank to the next
LAST = "ranks.json"
TITLE = "Ranks of samplers on two boards"
BELOW = ("by accuracy under parallelism, the best on top", "thick: in a pair that both boards decide differently")
BOARDS = ("first board", "other board")


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
    """A row per sampler and language."""
    found = []
    for made in rankings:
        turned = {name for pair in made.turned for name in pair}
        for one in made.standings:
            about = {"language": made.language, "length": made.length, "sampler": one.sampler}
            places = {"first_rank": one.first_rank, "second_rank": one.second_rank, "turned": one.sampler in turned}
            found.append(about | {"first": one.first[0], "second": one.second[0]} | places)
    return found


def panels(rankings: Sequence[Ranking]) -> alt.HConcatChart:
    """Side by side."""
    drawn = []
    for made in rankings:
        title = f"{made.language}: tau {made.tau:.2f}, {len(made.turned)} of {made.decided} pairs turned"
        here = _panel(pd.DataFrame(records([made])))
        height = LINE * (len(made.standings) + 1)
        drawn.append(here.properties(width=WIDTH, height=height, title=alt.Title(title, fontSize=13)))
    return alt.hconcat(*drawn, spacing=34)


def _panel(data: pd.DataFrame) -> Any:
    """Equal ranks stand one below the other, so that no name covers another."""
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
    told = [alt.Tooltip(f"{name}:N") for name in ("sampler", "rank", "aup")]
    base = alt.Chart(both).encode(x=x, y=y, tooltip=told, **look)
    thick = alt.condition("datum.turned", alt.value(2.5), alt.value(1.0))
    layers: list[Any] = [base.mark_line().encode(detail="sampler:N", strokeWidth=thick)]
    layers.append(base.mark_point(filled=True, size=40, opacity=1))
    left, right = (base.transform_filter(f"datum.board == '{board}'").encode(text="sampler:N") for board in BOARDS)
    layers += [left.mark_text(align="right", dx=-9, fontSize=11), right.mark_text(align="left", dx=9, fontSize=11)]
    return alt.layer(*layers)
