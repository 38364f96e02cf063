"""A board as files and as a page: its table first, then the figures of the explorer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

from unmask.experiments.board.grid import Settings, recipe
from unmask.experiments.board.run import Board, of_sweep
from unmask.experiments.board.standings import Record
from unmask.experiments.board.table import HOW_TO_READ, tables
from unmask.report import frame, whole
from unmask.report.explorer.figure import Figure, figures
from unmask.report.explorer.fragment import Explorer
from unmask.report.frame import Definition
from unmask.report.publishing import Made, Page
from unmask.report.results import CURVE, Results, points
from unmask.report.view import View

VIEW = View("board", ("front", "headroom", "ser-by-language", "ter-by-language", "diversity-by-language", "schedule"))
TITLE = "Errors against cost: left is cheaper, down is better"


def contents(board: Board, settings: Settings, made: Made) -> dict[str, bytes]:
    """All files by name."""
    about = {"origin": made.origin, "seconds": made.seconds, "settings": asdict(settings)}
    about["failures"] = [asdict(failure) for failure in board.failures]
    found = frame.numbers("board", board.records, **about)
    found |= frame.beside("board", [frame.svg(one).encode() for one in fronts(board.records).values()], TITLE)
    made.explorer.results.missing[:] = [*made.explorer.results.missing, *left_out(board)]
    shown = [one._replace(title=f"{one.title}; compared with {settings.against}") for one in tables(board)]
    how = f'<p class="note">{frame.text(HOW_TO_READ.format(against=settings.against))}</p>'
    return found | whole.page(made.explorer, made.origin, found, made.out, shown, how)


PAGE: Page[Settings, Board] = Page("board.json", recipe, of_sweep, contents, view=VIEW)


def fronts(records: Sequence[Record]) -> dict[str, Definition]:
    """SER against model calls, by language."""
    rows = [record | {"metric": CURVE, "key": ""} for record in records if record["budget"] is not None]
    explorer = Explorer(Results(points(rows)), VIEW)
    front: Figure = next(one for one in figures() if one.name == "front")
    names = explorer.results.choices("of")
    return {of: explorer.drawn(front, of=of) | {"title": of, "width": 420} for of in names}


def left_out(board: Board) -> list[str]:
    """Settings that could not be measured, each with its reason and languages."""
    reasons: dict[str, list[str]] = {}
    for f in board.failures:
        what = f.sampler if f.value is None else f"{f.sampler} at {f.knob} = {f.value}"
        reasons.setdefault(f"{what}: {f.message}", []).append(f.language)
    return [f"left out: {reason} ({', '.join(dict.fromkeys(of))})" for reason, of in reasons.items()]
