"""The page of `unmask parallel run`: PBx, settings and tasks as tables, then accuracy against speed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from unmask.experiments.board.table import Table
from unmask.experiments.evaluation.run import check
from unmask.experiments.parallel.run import Settings, measured, recipe
from unmask.experiments.parallel.table import Grid, Suite
from unmask.experiments.sweeps.run import Sweep
from unmask.report import frame, whole
from unmask.report.frame import Sentence
from unmask.report.publishing import Context, Page
from unmask.report.results import STORE
from unmask.report.view import saved

NAME = "parallel"


def page(out: Path) -> Page[Settings, list[Suite]]:
    """The page in a directory; answers in the store of this directory are not generated again."""
    return Page(frame.PAGE, lambda settings: recipe(settings, out / STORE), _suites, _contents, saved(NAME))


def _suites(sweep: Sweep, settings: Settings) -> list[Suite]:
    return measured(check(sweep.whole().directory).samples, settings)


def _contents(suites: list[Suite], settings: Settings, context: Context) -> dict[str, bytes]:
    about = {"origin": context.origin, "seconds": context.seconds, "settings": asdict(settings)}
    files = frame.numbers(NAME, [suite.to_dict() for suite in suites], **about)
    shown = [_table(grid) for suite in suites for grid in (suite.pbx(), suite.by_task(), suite.by_setting())]
    notes = "".join(f"<li>{frame.text(message)}</li>" for suite in suites for message in suite.messages)
    below = f"<details><summary>Remarks on these numbers</summary><ul>{notes}</ul></details>" if notes else ""
    return files | whole.page(context.explorer, context.origin, files, context.out, shown, below, _cards(suites))


def _table(grid: Grid) -> Table:
    """Intervals in brackets go below their value."""
    title, head, rows = grid
    return Table(title, head, [(heading, [_cell(cell) for cell in cells]) for heading, *cells in rows])


def _cell(text: str) -> tuple[str, str]:
    value, bracket, rest = text.partition(" [")
    interval, _, more = rest.partition("]")
    return value + more, f"[{interval}]" if bracket else ""


def _cards(suites: Sequence[Suite]) -> list[Sentence]:
    """The fastest sampler of each model at the highest threshold that it reaches."""
    sentences = []
    for suite in suites:
        for threshold in suite.thresholds:
            best = max(suite.swept, key=lambda one: float(one.reached(threshold)[0]), default=None)
            if best is not None and (value := best.pbx(threshold).value) is not None:
                words = f"The fastest sampler of {suite.model} that scores {threshold:g}%: {best.name}."
                sentences.append(Sentence(f"{value:.3g} tokens per step", words))
                break
    return sentences
