"""From settings to files, for every page that a sweep measures.

    settings -> recipe -> sweep in OUT/sweep -> results -> files in OUT

A `Page` has a function for each arrow; `publish` calls them.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from html import escape
from itertools import starmap
from pathlib import Path
from typing import Any, Generic, TypeVar

from unmask.core.entries import mapped, picked
from unmask.core.errors import UnmaskError
from unmask.core.files import atomic, check_writable, finite, origin
from unmask.experiments.board.run import recipe as recipe_of_board
from unmask.experiments.board.settings import Settings as OfBoard
from unmask.experiments.board.table import HOW_TO_READ, Board, Table, of_sweep
from unmask.experiments.board.table import tables as of_board
from unmask.experiments.cell import cells_of, check
from unmask.experiments.recipe import Recipe, read_recipe
from unmask.experiments.run import Sweep, sweep
from unmask.experiments.tables import csv_of
from unmask.report import charts
from unmask.report.figures import drawn
from unmask.report.metrics import Card, View, saved
from unmask.report.page import page, repeated
from unmask.report.results import COLUMNS, STORE, Results, read
from unmask.report.verdict import Shown

PAGE = "index.html"
NUMBERS = "data"  # the name of the data files

Settings = TypeVar("Settings", bound=Any)  # a dataclass
Measured = TypeVar("Measured")


@dataclass(frozen=True)
class Context:
    """The input of every page besides its own measurements."""

    origin: Mapping[str, Any]
    shown: Shown  # all results of its store
    about: Mapping[str, Any] = field(default_factory=dict)  # entries of the data file
    svg: bool = False  # also the first three figures as SVG


@dataclass(frozen=True)
class Page(Generic[Settings, Measured]):
    """How to measure and show a page, for any settings."""

    file: str  # the file to open, which is written last
    recipe: Callable[[Settings], Recipe]
    measured: Callable[[Sweep, Settings], Measured]  # the result of the cells; fails if necessary cells are missing
    contents: Callable[[Measured, Context], dict[str, bytes]]
    view: View = field(default_factory=View)


@dataclass(frozen=True)
class Selection:
    """The cells that the page of a recipe shows."""

    recipe: str  # a name, or a file
    set: tuple[str, ...] = ()  # other values, as for `--set` of `unmask sweep run`
    languages: tuple[str, ...] = ()  # some languages of the recipe (default: all)
    device: str | None = None  # of networks; no number depends on it


@dataclass(frozen=True)
class Published(Generic[Measured]):
    """The measurement, and its files."""

    measured: Measured
    page: Path
    files: list[Path]
    seconds: float  # of this run
    shown: Shown


def page_of(name: str) -> Page[Selection, Sweep]:
    """The page of a recipe; it fails if a cell failed."""
    return Page(PAGE, _recipe, lambda sweep, _: sweep.whole(), lambda sweep, given: contents(given), saved(name))


def _recipe(selection: Selection) -> Recipe:
    recipe = read_recipe(selection.recipe, selection.set)
    if selection.device is not None:
        recipe = recipe.with_changes({"device": selection.device})
    return recipe.only("language", selection.languages) if selection.languages else recipe


def publish(
    page: Page[Settings, Measured], settings: Settings, out: str | Path, svg: bool = False, **options: Any
) -> Published[Measured]:
    """Measure the cells that OUT/sweep does not contain, and write the page.

    svg: also the first three figures as SVG. options: of `unmask.sweep`; without an engine this process measures.
    """
    out = Path(out)
    check_directory(out, page.file)
    recipe = page.recipe(settings)
    check(cells_of(recipe))

    began = time.perf_counter()
    store = sweep(recipe, store=out / STORE, fresh=True, **{"engine": "here"} | options)
    measured = page.measured(store, settings)
    shown = Shown(read([store.directory], set(store.keys)), page.view)

    about = {"seconds": store.work, "settings": asdict(settings)}
    given = Context(origin(**asdict(settings)), shown, about, svg)
    files = write(out, page.contents(measured, given), page.file)
    return Published(measured, (out / page.file).resolve(), files, time.perf_counter() - began, shown)


def report(directories: Sequence[str | Path], out: Path, svg: bool = False) -> tuple[Shown, list[Path]]:
    """Write the page of some stores, with its numbers; svg: also its first three figures."""
    shown = Shown(read(directories))
    return shown, write(out, contents(Context(origin(), shown, svg=svg)), PAGE)


def contents(given: Context) -> dict[str, bytes]:
    """All files by name."""
    shown, results = given.shown, given.shown.results
    figures = drawn(shown)
    files = charts.for_talk(figures) if given.svg else {}
    about = {**given.about} | {"sources": results.sources, "missing": results.missing}
    files |= numbers(NUMBERS, records(results), origin=given.origin, **about)
    return files | {PAGE: page(shown, figures, given.origin, files)}


def records(results: Results) -> list[dict[str, Any]]:
    return [finite(picked(point, COLUMNS)) for point in results.points]


def numbers(name: str, records: Sequence[Mapping[str, Any]], **about: Any) -> dict[str, bytes]:
    """NAME.json, with their origin and one record per line, and NAME.csv."""
    lines = ",\n  ".join(map(json_of, records))
    head = "".join(starmap(' "{}": {},\n'.format, mapped(json_of, about).items()))
    data = f'{{\n{head} "records": [\n  {lines}\n ]\n}}\n'
    return {f"{name}.json": data.encode(), f"{name}.csv": csv_of(records).encode()}


def json_of(value: Any) -> str:
    return json.dumps(finite(value), allow_nan=False)


def check_directory(out: Path, last: str) -> None:
    """Fail before any measurement unless `out` is a writable directory, or can be created."""
    if os.path.exists(out) and not os.path.isdir(out):
        raise UnmaskError(f"cannot write to {out}: it is a file; name a directory with --out")
    check_writable(out / last if os.path.isdir(out) else out)


def write(out: Path, contents: Mapping[str, bytes], last: str) -> list[Path]:
    """Write each file completely or not at all, `last` as the last; after an error remove a new directory."""
    created = not os.path.exists(out)
    if created:
        out.mkdir()

    written = []
    try:
        for name in sorted(contents, key=lambda name: name == last):
            with atomic(out / name) as file:
                file.write(contents[name])
            written.append(out / name)
    except BaseException:
        if created:
            for name in contents:
                (out / name).unlink(missing_ok=True)
            with suppress(OSError):  # other files in it stay
                out.rmdir()
        raise

    return written


def board_contents(board: Board, given: Context) -> dict[str, bytes]:
    """board.json, .csv and the page."""
    shown, against = given.shown, board.settings.against
    shown.results.missing += left_out(board)
    files = numbers(
        "board", board.records, origin=given.origin, **given.about, failures=list(map(asdict, board.failures))
    )
    units = f"compared with {against}. SER and TER columns: model calls per sequence for this error"
    own = [one._replace(title=f"{one.title}; {units}") for one in of_board(board)]
    words = escape(HOW_TO_READ.format(against=against), False)
    how = f'<details><summary>How to read the table</summary><p class="note">{words}</p></details>'
    first = "\n".join([*map(table, own), how])
    return files | {PAGE: page(shown, drawn(shown), given.origin, files, first, best_of_board(own))}


BOARD: Page[OfBoard, Board] = Page("board.json", recipe_of_board, of_sweep, board_contents, saved("board"))


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


def cell(value: str, interval: str) -> str:
    small = f"<small>{escape(interval)}</small>" if interval else ""
    return f"<td>{escape(value)}{small}</td>"


def table(one: Table) -> str:
    """HTML that scrolls by keys, too, on a narrow screen."""
    head = repeated('<th scope="col">{}</th>', one.head)
    rows = []
    for heading, cells in one.rows:
        rows.append(f'<tr><th scope="row">{escape(heading)}</th>{"".join(starmap(cell, cells))}</tr>')
    title, body = escape(one.title), "\n".join(rows)
    return f"""<div class="table" tabindex="0" role="region" aria-label="{title}"><table><caption>{title}</caption>
<tr>{head}</tr>
{body}</table></div>"""
