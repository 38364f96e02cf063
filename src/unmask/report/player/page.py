"""Players as HTML, with their data as JSON. All symbols are inserted as text, never as HTML."""

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
    """One player as a part of a page that contains `assets` once; each player needs its own name.

    row: the first sequence to show, at its first error (default: the first impossible one).
    """
    check(runs)
    opens = telling(runs) if row is None else row
    data = json.dumps({"open": opens, "runs": [run.plain() for run in runs]}, separators=(",", ":"), allow_nan=False)
    return Template(_part("player.html")).substitute(
        name=html.escape(name),
        title=html.escape(" and ".join(cut(run.name) for run in runs)),
        final="\n".join(f"<p>{html.escape(run.name)}: {html.escape(_final(run, opens))}</p>" for run in runs),
        data=data.replace("<", "\\u003c"),  # no token ends or begins a script
    )


def assets() -> str:
    """The style and the script of all players in a page."""
    return f"<style>\n{_part('player.css')}</style>\n<script>\n{_part('player.js')}</script>"


def page(runs: Sequence[Run], title: str = "unmask play", made_by: str = "", row: int | None = None) -> bytes:
    """A self-contained page with one player.

    made_by: the command that created it.
    """
    command = f"<p class='note'>Created with <code>{html.escape(made_by)}</code></p>" if made_by else ""
    parts = {"player": fragment(runs, "player", row), "assets": assets(), "command": command}
    content = Template(_part("alone.html")).substitute(parts, title=html.escape(title))
    return content.encode(errors="backslashreplace")  # an argument of the command may not be text


def _final(run: Run, row: int) -> str:
    recorded = run.trace.rows[row]
    final = recorded.final
    symbols = [run.trace.symbol(final[k]) if k in final else "_" for k in range(recorded.length)]
    return ("" if max(map(len, symbols)) > 2 else " ").join(symbols)


@cache
def _part(name: str) -> str:
    return files("unmask.report.player").joinpath(name).read_text("utf-8")
