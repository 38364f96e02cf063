"""The page and the files of a board: its table, then the figures of the explorer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

from unmask.experiments.board.grid import Settings, recipe
from unmask.experiments.board.run import Board, of_sweep
from unmask.experiments.board.standings import Record
from unmask.experiments.board.table import HOW_TO_READ, Table, tables
from unmask.report import frame, whole
from unmask.report.explorer.figure import figures
from unmask.report.explorer.fragment import Explorer
from unmask.report.frame import Definition, Sentence
from unmask.report.publishing import Context, Page
from unmask.report.results import CURVE, Results, points
from unmask.report.view import saved

VIEW = saved("board")
TITLE = "Errors against cost: left is cheaper, down is better"


def contents(board: Board, settings: Settings, context: Context) -> dict[str, bytes]:
    """All files by name."""
    about = {"origin": context.origin, "seconds": context.seconds, "settings": asdict(settings)}
    about["failures"] = [asdict(failure) for failure in board.failures]
    files = frame.numbers("board", board.records, **about)
    files |= frame.beside("board", [frame.svg(one).encode() for one in fronts(board.records).values()], TITLE)
    context.explorer.results.missing.extend(left_out(board))
    units = "SER and TER columns: model calls per sequence for this error"
    against = f"compared with {settings.against}. {units}"
    shown = [one._replace(title=f"{one.title}; {against}") for one in tables(board)]
    words = frame.text(HOW_TO_READ.format(against=settings.against))
    how = f'<details><summary>How to read the table</summary><p class="note">{words}</p></details>'
    page = whole.page(context.explorer, context.origin, files, context.out, shown, how, messages(shown))
    return files | page


PAGE: Page[Settings, Board] = Page("board.json", recipe, of_sweep, contents, view=VIEW)


def messages(shown: Sequence[Table]) -> list[Sentence]:
    """The best sampler of each language."""
    sentences = []
    for table in shown:
        (best, [(accuracy, _), *_]), *others = table.rows
        beside = f" Next: {others[0][0]}, AUP {others[0][1][0][0].split()[0]}." if others else ""
        words = f"The best sampler on {table.title.partition(';')[0]}. An AUP of 1 is perfect.{beside}"
        sentences.append(Sentence(f"{best}: AUP {accuracy.split()[0]}", words))
    return sentences


def fronts(records: Sequence[Record]) -> dict[str, Definition]:
    """SER against model calls, by language."""
    rows = [record | {"job": CURVE, "key": ""} for record in records if record["budget"] is not None]
    explorer = Explorer(Results(points(rows)), VIEW)
    front = next(one for one in figures() if one.name == "front")
    names = explorer.results.choices("of")
    return {of: explorer.drawn(front, of=of) | {"title": of, "width": 420} for of in names}


def left_out(board: Board) -> list[str]:
    """Settings that could not be measured, each with its reason and languages."""
    reasons: dict[str, list[str]] = {}
    for f in board.failures:
        setting = f.sampler if f.value is None else f"{f.sampler} at {f.knob} = {f.value}"
        reasons.setdefault(f"{setting}: {f.message}", []).append(f.language)
    return [f"left out: {reason} ({', '.join(dict.fromkeys(of))})" for reason, of in reasons.items()]
