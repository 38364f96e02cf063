"""The page of `unmask eval parallel run`: PBx, settings and tasks as tables, then accuracy against speed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from unmask.experiments.board.table import Table
from unmask.experiments.run import Sweep
from unmask.report import frame, whole
from unmask.report.frame import Sentence
from unmask.report.publishing import Context, Page
from unmask.report.view import saved
from unmask.tasks.evaluation.run import check
from unmask.tasks.parallel.run import Settings, measured, recipe
from unmask.tasks.parallel.table import Grid, Suite

NAME = "parallel"


def page(out: Path) -> Page[Settings, list[Suite]]:
    """The page in a directory; answers in the store of this directory are not generated again."""
    return Page(frame.PAGE, recipe, _suites, _contents, saved(NAME))


def _suites(sweep: Sweep, settings: Settings) -> list[Suite]:
    return measured(check(sweep.whole().directory).samples, settings)


def _contents(suites: list[Suite], settings: Settings, context: Context) -> dict[str, bytes]:
    about = {"origin": context.origin, "seconds": context.seconds, "settings": asdict(settings)}
    files = frame.numbers(NAME, [suite.to_dict() for suite in suites], **about)
    shown = [_table(suite.pbx()) for suite in suites if suite.swept]
    below = "".join(_folded(suite) for suite in suites)
    return files | whole.page(context.explorer, context.origin, files, context.out, shown, below, _cards(suites))


def _folded(suite: Suite) -> str:
    """The longer tables and the messages of a model."""
    notes = "".join(f"<li>{frame.text(message)}</li>" for message in suite.messages)
    parts = {
        "Each task: accuracy, and the ceiling of the sampler": frame.table(_table(suite.by_task())),
        "Each setting: mean accuracy and tokens per step": frame.table(_table(suite.by_setting())),
        "Remarks on these numbers": f"<ul>{notes}</ul>",
    }
    texts = (f"<details><summary>{title}</summary>{inside}</details>" for title, inside in parts.items())
    return "".join(texts)


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
