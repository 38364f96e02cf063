"""Pages that begin with a table of their own: a board, tasks by PBx, and the bounds of theory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from html import escape
from pathlib import Path
from typing import Any

from unmask.core.files import finite, origin
from unmask.diagnosis.table import Record
from unmask.experiments.board.run import Settings, recipe
from unmask.experiments.board.run import Board, of_sweep
from unmask.experiments.board.table import HOW_TO_READ, Table
from unmask.experiments.board.table import tables as of_board
from unmask.experiments.run import Sweep
from unmask.languages import Language
from unmask.report import charts
from unmask.report.figures import front
from unmask.report.page import drawn, page, scrolled
from unmask.report.publishing import PAGE, Context, Page, numbers, write
from unmask.report.results import THEORY, Results
from unmask.report.verdict import Shown
from unmask.report.view import Card, saved
from unmask.tasks.evaluation.run import check
from unmask.tasks.parallel import run as parallel_run
from unmask.tasks.parallel.table import Grid, Suite

ERRORS = "Errors against cost: left is cheaper, down is better"
STAIRS, CURVE = ("schedule", "schedule-optimal"), "theory-curve"


def board_contents(board: Board, given: Context) -> dict[str, bytes]:
    """board.json, .csv, .svg, .png and the page."""
    shown, against = given.shown, board.settings.against
    shown.results.missing += left_out(board)
    files = numbers(
        "board", board.records, origin=given.origin, **given.about, failures=[asdict(f) for f in board.failures]
    )
    if (cost := front(shown)) is not None:
        parts = [charts.chosen(cost, of, number) for number, of in enumerate(shown.languages)]
        files |= charts.beside("board", parts, ERRORS)
    units = f"compared with {against}. SER and TER columns: model calls per sequence for this error"
    own = [one._replace(title=f"{one.title}; {units}") for one in of_board(board)]
    words = escape(HOW_TO_READ.format(against=against), False)
    how = f'<details><summary>How to read the table</summary><p class="note">{words}</p></details>'
    first = "\n".join([*map(table, own), how])
    return files | {PAGE: page(shown, drawn(shown), given.origin, files, given.out, first, best_of_board(own))}


BOARD: Page[Settings, Board] = Page("board.json", recipe, of_sweep, board_contents, saved("board"))


def best_of_board(tables: Sequence[Table]) -> list[Card]:
    """The best sampler of each language."""
    messages = []
    for one in tables:
        (best, [(accuracy, _), *_]), *others = one.rows
        beside = f" Next: {others[0][0]}, AUP {others[0][1][0][0].split()[0]}." if others else ""
        words = f"The best sampler on {one.title.partition(';')[0]}. An AUP of 1 is perfect.{beside}"
        messages.append((f"{best}: AUP {accuracy.split()[0]}", words))
    return messages


def left_out(board: Board) -> list[str]:
    """Settings that could not be measured, each with its reason and languages."""
    reasons: dict[str, list[str]] = {}
    for f in board.failures:
        setting = f.sampler if f.value is None else f"{f.sampler} at {f.knob} = {f.value}"
        reasons.setdefault(f"{setting}: {f.message}", []).append(f.language)
    return [f"left out: {reason} ({', '.join(dict.fromkeys(of))})" for reason, of in reasons.items()]


def suites_of(sweep: Sweep, settings: parallel_run.Settings) -> list[Suite]:
    return parallel_run.measured(check(sweep.whole().directory).samples, settings)


def parallel_contents(suites: list[Suite], given: Context) -> dict[str, bytes]:
    """parallel.json, .csv and the page: PBx, settings and tasks as tables, then accuracy against speed."""
    files = numbers("parallel", [suite.to_dict() for suite in suites], origin=given.origin, **given.about)
    first = [table(celled(suite.pbx())) for suite in suites if suite.swept]
    for suite in suites:
        notes = "".join(f"<li>{escape(message, False)}</li>" for message in suite.messages)
        folded = {
            "Each task: accuracy, and the ceiling of the sampler": table(celled(suite.by_task())),
            "Each setting: mean accuracy and tokens per step": table(celled(suite.by_setting())),
            "Remarks on these numbers": f"<ul>{notes}</ul>",
        }
        first += [f"<details><summary>{title}</summary>{inside}</details>" for title, inside in folded.items()]
    html = page(given.shown, drawn(given.shown), given.origin, files, given.out, "\n".join(first), fastest(suites))
    return files | {PAGE: html}


PARALLEL: Page[parallel_run.Settings, list[Suite]]
PARALLEL = Page(PAGE, parallel_run.recipe, suites_of, parallel_contents, saved("parallel"))


def fastest(suites: Sequence[Suite]) -> list[Card]:
    """The fastest sampler of each model at the highest threshold that it reaches."""
    messages = []
    for suite in suites:
        for threshold in suite.thresholds:
            best = max(suite.swept, key=lambda one: float(one.reached(threshold)[0]), default=None)
            if best is not None and (value := best.pbx(threshold).value) is not None:
                words = f"The fastest sampler of {suite.model} that scores {threshold:g}%: {best.name}."
                messages.append((f"{value:.3g} tokens per step", words))
                break
    return messages


def celled(grid: Grid) -> Table:
    """Intervals in brackets go below their value."""
    title, head, rows = grid
    return Table(title, head, [(heading, [cell(one) for one in cells]) for heading, *cells in rows])


def cell(text: str) -> tuple[str, str]:
    value, bracket, rest = text.partition(" [")
    interval, _, more = rest.partition("]")
    return value + more, f"[{interval}]" if bracket else ""


def table(one: Table) -> str:
    head = "".join(f'<th scope="col">{escape(name)}</th>' for name in one.head)
    rows = []
    for heading, cells in one.rows:
        data = "".join(f"<td>{escape(v)}{f'<small>{escape(i)}</small>' if i else ''}</td>" for v, i in cells)
        rows.append(f'<tr><th scope="row">{escape(heading)}</th>{data}</tr>')
    body = "\n".join(rows)
    return scrolled(f"<caption>{escape(one.title)}</caption>\n<tr>{head}</tr>\n{body}", escape(one.title))


def theory(
    out: Path, language: Language, length: int, records: Sequence[Record], configuration: dict[str, Any]
) -> list[Path]:
    """Write theory-ser, -ter, -crossover, -orders and -curve as SVG and PNG, numbers, and a page."""
    of = configuration["language"]
    about = {"of": of, "length": length, "schedule": configuration["schedule"]}
    results = Results(theory=[finite(record) | about for record in records], languages={of: language})
    shown, source = Shown(results, saved("theory")), origin(**configuration) | {"language": language.source()}
    figures = drawn(shown)
    stairs = [figures[name] for name in STAIRS if name in figures]
    files = charts.drawings({name: one for name, one in figures.items() if name not in STAIRS})
    files |= charts.beside(CURVE, stairs, "Divergence of a schedule") | numbers("theory", records, origin=source)
    return write(
        out, files | {PAGE: page(shown, figures, source, files, out, messages=tightest(records, length))}, THEORY
    )


def tightest(records: Sequence[Record], length: int) -> list[Card]:
    """The SER from the fewest to the most steps, and the tightest upper bounds with the most steps."""
    fewest, most = (end(record["steps"] for record in records) for end in (min, max))
    known = {(r["quantity"], r["kind"], r["steps"]): r["value"] for r in records if r["kind"] in ("exact", "measured")}
    messages: list[Card] = []
    for kind, about in (("exact", "Exact values"), ("measured", "Measured values")):
        ends = [known[key] for steps in (fewest, most) if (key := ("ser", kind, steps)) in known]
        if len(ends) == 2 and not messages:
            number = f"SER {100 * ends[0]:.3g}% \u2192 {100 * ends[1]:.3g}%"
            messages.append((number, f"{about} with {fewest} and with {most} steps, at {length} tokens."))
    for quantity, less, text in (("ser", 0.0, "SER <="), ("ter_ratio", 1.0, "TER <= the language's own +")):
        bounds = [r for r in records if (r["quantity"], r["kind"], r["steps"]) == (quantity, "upper", most)]
        if bounds:
            best = min(bounds, key=lambda record: record["value"])
            words = f"The tightest of {len(bounds)} upper bounds with {most} steps: {best['name']}."
            messages.append((f"{text} {100 * (best['value'] - less):.2g}%", words))
    return messages
