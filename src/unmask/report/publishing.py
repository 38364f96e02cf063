"""From settings to files: one path for every page that a sweep measures.

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

from unmask.core import arguments, progress
from unmask.core.errors import UnmaskError
from unmask.core.files import atomic, check_writable, origin
from unmask.experiments.jobs.cells import cells_of, check
from unmask.experiments.jobs.recipe import Recipe
from unmask.experiments.jobs.run import EngineName, Sweep, sweep
from unmask.experiments.jobs.store import Store
from unmask.report.explorer.fragment import Explorer
from unmask.report.results import STORE, read
from unmask.report.view import View

LOOK = 0.5  # seconds between two looks at the store
TO_COME = "The other cells are being measured. This page is completed in place: reload it in a minute."

Settings = TypeVar("Settings", bound=Any)  # a dataclass
Measured = TypeVar("Measured")


@dataclass(frozen=True)
class Made:
    """The input of every page besides its own measurements."""

    origin: Mapping[str, Any]
    seconds: float  # of work
    explorer: Explorer  # of all results of its store
    out: Path = Path()  # the directory of the page


@dataclass(frozen=True)
class Page(Generic[Settings, Measured]):
    """What is measured and how it is shown, for any settings."""

    file: str  # the one to open, written last: where it stands, all do
    recipe: Callable[[Settings], Recipe]
    measured: Callable[[Sweep, Settings], Measured]  # what the cells come to; fails if it cannot do without some
    contents: Callable[[Measured, Settings, Made], dict[str, bytes]]
    view: View = field(default_factory=View)
    early: int = 0  # parts of the recipe after which a first page is written, while the others are measured


@dataclass(frozen=True)
class Published(Generic[Measured]):
    """What was measured, and where it lies."""

    measured: Measured
    page: Path
    files: list[Path]
    seconds: float  # of this run
    explorer: Explorer


def publish(
    page: Page[Settings, Measured],
    settings: Settings,
    out: str | Path,
    *,
    engine: EngineName = "here",
    workers: int | None = None,
) -> Published[Measured]:
    """Measure what OUT/sweep does not have yet and write the page; what was measured before a stop is kept there."""
    out = Path(out)
    check_directory(out, page.file)
    recipe = page.recipe(settings)
    check(cells_of(recipe))  # before there is anything to clear away
    began = time.perf_counter()
    with _early(page, settings, recipe, out):
        made = sweep(recipe, store=out / STORE, engine=engine, workers=workers, fresh=True)
    measured = page.measured(made, settings)
    about = Made(
        origin(**asdict(settings)) | {"languages": made.languages},
        made.work,
        Explorer(read([made.directory], {row["key"] for row in made.rows()}), page.view),
        out,
    )
    files = write(out, page.contents(measured, settings, about), page.file)
    return Published(measured, (out / page.file).resolve(), files, time.perf_counter() - began, about.explorer)


@contextmanager
def _early(page: Page[Settings, Any], settings: Settings, recipe: Recipe, out: Path) -> Iterator[None]:
    """While cells are measured: as soon as those of the first parts are done, write a page that is completed later."""
    if not page.early:
        yield
        return
    keys, over = {cell.key for cell in cells_of(replace(recipe, parts=recipe.parts[: page.early]))}, Event()

    def watch() -> None:
        while not over.wait(LOOK):
            with suppress(UnmaskError, OSError):  # no store yet; an error of the place is reported at the end
                with Store.open(out / STORE) as store:
                    ready = keys <= store.done()
                if ready and not over.is_set():
                    explorer = Explorer(read([out / STORE], keys), page.view)
                    explorer.results.missing[:] = [TO_COME]
                    about = Made(origin(**asdict(settings)), explorer.results.work, explorer, out)
                    contents = page.contents(None, settings, about)
                    write(out, {page.file: contents[page.file]}, page.file)
                    progress.note(f"first figures: {(out / page.file).resolve()}; the page is completed in place")
                    return

    watching = Thread(target=watch, daemon=True)
    watching.start()
    try:
        yield
    finally:
        over.set()
        watching.join()


def check_settings(settings: Any) -> None:
    """Lists with entries, and steps, rows and batches in their ranges; of any page that has them."""
    for name in ("languages", "tasks", "steps"):
        if not getattr(settings, name, True):
            raise UnmaskError(f"there are no {name}; give at least one")
    for count in settings.steps:
        arguments.steps(count)
    for name, most in (("rows", arguments.MOST_ROWS), ("batch", 2**16)):
        arguments.whole(name, getattr(settings, name, 1), 1, most)


def check_directory(out: Path, last: str) -> None:
    """Fail before the work is done: `out` is a directory that can be written to, or made."""
    if os.path.exists(out) and not os.path.isdir(out):
        raise UnmaskError(f"cannot write to {out}: it is a file; name a directory with --out")
    check_writable(out / last if os.path.isdir(out) else out)


def write(out: Path, contents: Mapping[str, bytes], last: str) -> list[Path]:
    """Each file whole or not at all, `last` the last; a directory that was made for them goes if they fail."""
    made = not os.path.exists(out)
    if made:
        out.mkdir()
    written = []
    try:
        for name in sorted(contents, key=lambda name: name == last):
            with atomic(out / name) as file:
                file.write(contents[name])
            written.append(out / name)
    except BaseException:
        if made:
            for name in contents:
                (out / name).unlink(missing_ok=True)
            with suppress(OSError):  # if somebody else has put something there, it stays
                out.rmdir()
        raise
    return written
