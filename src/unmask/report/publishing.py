"""From settings to files, for every page that a sweep measures.

    settings -> recipe -> sweep in OUT/sweep -> results -> files in OUT

A `Page` has a function for each arrow; `publish` calls them.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from threading import Event, Thread
from typing import Any, Generic, TypeVar

from unmask.core import progress
from unmask.core.errors import UnmaskError
from unmask.core.files import atomic, check_writable, origin
from unmask.experiments.cell import cells_of, check
from unmask.experiments.recipe import Recipe
from unmask.experiments.run import Sweep, sweep
from unmask.experiments.store import Store
from unmask.report.explorer.fragment import Explorer
from unmask.report.results import STORE, read
from unmask.report.view import View

LOOK = 0.5  # seconds between two reads of the store
TO_COME = "The other cells are being measured. Reload this page in a minute."

Settings = TypeVar("Settings", bound=Any)  # a dataclass
Measured = TypeVar("Measured")


@dataclass(frozen=True)
class Context:
    """The input of every page besides its own measurements."""

    origin: Mapping[str, Any]
    seconds: float  # of compute
    explorer: Explorer  # of all results of its store
    out: Path = Path()  # the directory of the page


@dataclass(frozen=True)
class Page(Generic[Settings, Measured]):
    """How to measure and show a page, for any settings."""

    file: str  # the file to open, which is written last
    recipe: Callable[[Settings], Recipe]
    measured: Callable[[Sweep, Settings], Measured]  # the result of the cells; fails if necessary cells are missing
    contents: Callable[[Measured, Settings, Context], dict[str, bytes]]
    view: View = field(default_factory=View)


@dataclass(frozen=True)
class Published(Generic[Measured]):
    """The measurement, and its files."""

    measured: Measured
    page: Path
    files: list[Path]
    seconds: float  # of this run
    explorer: Explorer


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
    about = Context(
        origin(**asdict(settings)) | {"languages": store.languages},
        store.work,
        Explorer(read([store.directory], {row["key"] for row in store.rows()}), page.view),
        out,
    )
    files = write(out, page.contents(measured, settings, about), page.file)
    return Published(measured, (out / page.file).resolve(), files, time.perf_counter() - began, about.explorer)


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
                    explorer = Explorer(read([out / STORE], keys), page.view)
                    explorer.results.missing[:] = [TO_COME]
                    about = Context(origin(**asdict(settings)), explorer.results.work, explorer, out)
                    contents = page.contents(None, settings, about)
                    write(out, {page.file: contents[page.file]}, page.file)
                    progress.note(f"first figures: {(out / page.file).resolve()}; the page is completed later")
                    return

    watching = Thread(target=watch, daemon=True)
    watching.start()
    try:
        yield
    finally:
        over.set()
        watching.join()


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
