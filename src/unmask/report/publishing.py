"""From settings to files, for every page that a sweep measures.

    settings -> recipe -> sweep in OUT/sweep -> results -> files in OUT

A `Page` has a function for each arrow; `publish` calls them. `page_of` is the page of a recipe: recipes/NAME.yaml with
the words of views/NAME.html.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from threading import Event, Thread
from typing import Any, Generic, TypeVar

import pandas as pd

from unmask.core import progress
from unmask.core.errors import UnmaskError
from unmask.core.files import atomic, check_writable, finite, origin
from unmask.experiments.cell import cells_of, check
from unmask.experiments.recipe import Recipe, read_recipe
from unmask.experiments.run import Sweep, sweep
from unmask.experiments.store import Store
from unmask.report import charts
from unmask.report.page import drawn, page, trained
from unmask.report.results import COLUMNS, STORE, Results, read
from unmask.report.verdict import Shown
from unmask.report.view import View, saved

PAGE = "index.html"
NUMBERS = "data"  # the name of the data files
LOOK = 0.5  # seconds between two reads of the store
OVERVIEW = 2  # figures side by side in overview.svg
TO_COME = "The other cells are being measured. Reload this page in a minute."

Settings = TypeVar("Settings", bound=Any)  # a dataclass
Measured = TypeVar("Measured")


@dataclass(frozen=True)
class Context:
    """The input of every page besides its own measurements."""

    origin: Mapping[str, Any]
    shown: Shown  # all results of its store
    out: Path = Path()  # the directory of the page
    about: Mapping[str, Any] = field(default_factory=dict)  # entries of the data file


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
    recipe = recipe if selection.device is None else recipe.with_changes({"device": selection.device})
    return recipe.only("language", selection.languages) if selection.languages else recipe


def publish(page: Page[Settings, Measured], settings: Settings, out: str | Path, **options: Any) -> Published[Measured]:
    """Measure the cells that OUT/sweep does not contain, and write the page.

    options: of `unmask.sweep`; without an engine this process measures.
    """
    out = Path(out)
    check_directory(out, page.file)
    recipe = page.recipe(settings)
    check(cells_of(recipe))
    began = time.perf_counter()
    with _early(page, settings, recipe, out):
        store = sweep(recipe, store=out / STORE, fresh=True, **{"engine": "here"} | options)
    measured = page.measured(store, settings)
    shown = Shown(read([store.directory], {row["key"] for row in store.rows()}), page.view)
    about = {"seconds": store.work, "settings": asdict(settings)}
    given = Context(origin(**asdict(settings)) | {"languages": store.languages}, shown, out, about)
    files = write(out, page.contents(measured, given), page.file)
    return Published(measured, (out / page.file).resolve(), files, time.perf_counter() - began, shown)


@contextmanager
def _early(page: Page[Settings, Any], settings: Settings, recipe: Recipe, out: Path) -> Iterator[None]:
    """Write a first page as soon as the cells of the first parts are measured."""
    if not page.view.early:
        yield
        return
    keys, over = {cell.key for cell in cells_of(replace(recipe, parts=recipe.parts[: page.view.early]))}, Event()

    def watch() -> None:
        while not over.wait(LOOK):
            with suppress(UnmaskError, OSError):  # no store yet; publish reports other errors
                ready = keys <= Store.open(out / STORE).done.keys()
                if ready and not over.is_set():
                    results = read([out / STORE], keys)
                    results.missing = [TO_COME]
                    first = early(Context(origin(**asdict(settings)), Shown(results, page.view), out))
                    write(out, {page.file: first}, page.file)
                    progress.note(f"first figures: {(out / page.file).resolve()}; the page is completed later")
                    return

    watching = Thread(target=watch, daemon=True)
    watching.start()
    try:
        yield
    finally:
        over.set()
        watching.join()


def early(given: Context) -> bytes:
    """The page alone, without files next to it."""
    return page(given.shown, drawn(given.shown), given.origin, out=given.out)


def report(directories: Sequence[str | Path], out: Path, drawings: bool = False) -> tuple[Shown, list[Path]]:
    """Write the page of some stores, with its numbers; drawings: also each figure as SVG and PNG."""
    results = read(directories)
    shown = Shown(results, View() if results.points or not results.trainings else saved("training"))
    return shown, write(out, contents(Context(origin(), shown, out), drawings), PAGE)


def contents(given: Context, drawings: bool = True) -> dict[str, bytes]:
    """All files by name."""
    shown, results = given.shown, given.shown.results
    figures = drawn(shown)
    files = charts.drawings(figures) if drawings else {}
    if drawings and shown.view.figures:
        files |= charts.beside("overview", list(figures.values())[:OVERVIEW], shown.view.title)
    about = {**given.about} | {"sources": results.sources, "missing": results.missing}
    files |= numbers(NUMBERS, records(results), origin=given.origin, **about)
    messages = [] if results.points else trained(results)
    return files | {PAGE: page(shown, figures, given.origin, files, given.out, messages=messages)}


def records(results: Results) -> list[dict[str, Any]]:
    return [finite({name: point[name] for name in COLUMNS}) for point in results.points]


def numbers(name: str, records: Sequence[Mapping[str, Any]], **about: Any) -> dict[str, bytes]:
    """NAME.json, with their origin and one record per line, and NAME.csv."""
    lines = ",\n  ".join(json.dumps(finite(record), allow_nan=False) for record in records)
    head = "".join(f' "{key}": {json.dumps(finite(value), allow_nan=False)},\n' for key, value in about.items())
    data = f'{{\n{head} "records": [\n  {lines}\n ]\n}}\n'
    return {f"{name}.json": data.encode(), f"{name}.csv": pd.DataFrame(list(records)).to_csv(index=False).encode()}


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
