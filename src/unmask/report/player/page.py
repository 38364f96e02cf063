"""Players as HTML: the data as JSON in which nothing ends the script, all text put in as text by the script."""

from __future__ import annotations

import html
import json
from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from string import Template

from unmask.core.errors import cut
from unmask.report.player.run import Run, check, telling


def fragment(runs: Sequence[Run], name: str = "player", row: int | None = None) -> str:
    """One player as a part of a page, which has `assets` once; names tell several of them apart.

    row: which of the rows it opens with; one that goes wrong unless told otherwise. It opens at the first error.
    """
    check(runs)
    opens = telling(runs) if row is None else row
    data = json.dumps({"open": opens, "runs": [run.told() for run in runs]}, separators=(",", ":"), allow_nan=False)
    return Template(_part("player.html")).substitute(
        name=_text(name),
        title=_text(" and ".join(cut(run.name) for run in runs)),
        final="\n".join(f"<p>{_text(run.name)}: {_text(_final(run, opens))}</p>" for run in runs),
        data=data.replace("<", "\\u003c"),  # no token in it ends the script, or begins one
    )


def assets() -> str:
    """The looks and the script of all players in a page."""
    return f"<style>\n{_part('player.css')}</style>\n<script>\n{_part('player.js')}</script>"


def page(runs: Sequence[Run], title: str = "unmask play", made_by: str = "", row: int | None = None) -> bytes:
    """A whole page with one player, to be opened, sent, or put into another page's iframe; it asks nobody for anything.

    made_by: the command that makes it again.
    """
    return (
        Template(_part("alone.html"))
        .substitute(
            title=_text(title),
            player=fragment(runs, "player", row),
            assets=assets(),
            made=f"<p class='note'>Made by <code>{_text(made_by)}</code></p>" if made_by else "",
        )
        .encode(errors="backslashreplace")  # a word of the command may be no text
    )


def _final(run: Run, row: int) -> str:
    told = run.trace.rows[row]
    stands = told.final
    symbols = [run.trace.symbol(stands[place]) if place in stands else "_" for place in range(told.length)]
    return ("" if max(map(len, symbols)) > 2 else " ").join(symbols)


@cache
def _part(name: str) -> str:
    return files("unmask.report.player").joinpath(name).read_text("utf-8")


def _text(text: str) -> str:
    return html.escape(text)
