"""From settings to files: one path for every page that a sweep measures.

    settings -> recipe -> sweep in OUT/sweep -> results -> files in OUT

A `Page` has a function for each arrow; `publish` calls them.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from threading import Event, Thread
from typing import Any, Generic, TypeVar

from unmask.core import progress
from unmask.core.errors import UnmaskError
from unmask.core.files import atomic, check_writable, origin
from unmask.experiments.jobs.cells import cells_of, check
from unmask.experiments.jobs.recipe import Recipe
from unmask.experiments.jobs.run import EngineName, Sweep, sweep
from unmask.experiments.jobs.store import Store
from unmask.report.explorer.fragment import Explorer
from unmask.report.results import STORE, read
from unmask.report.view import View

LOOK = 0.5  # seconds from one look to the next

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
    first: Callable[[Settings], Recipe] | None = None  # cells of which a page is made while the others are measured
    early: Callable[[Settings, Made], dict[str, bytes]] | None = None  # that page
    view: View = field(default_factory=View)


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
    with _early(page, settings, out):
        made = sweep(recipe, store=out / STORE, engine=engine, workers=workers, fresh=True)
    measured = page.measured(made, settings)
    about = Made(
        origin(**asdict(settings)) | {"languages": made.languages},
        made.work,
        Explorer(read([made.directory]), page.view),
        out,
    )
    files = write(out, page.contents(measured, settings, about), page.file)
    return Published(measured, (out / page.file).resolve(), files, time.perf_counter() - began, about.explorer)


@contextmanager
def _early(page: Page[Settings, Any], settings: Settings, out: Path) -> Iterator[None]:
    """While its cells are measured: as soon as the first are done the page stands, and is completed in place."""
    if page.first is None or page.early is None:
        yield
        return
    keys = {cell.key for cell in cells_of(page.first(settings))}
    over = Event()

    def watch() -> None:
        while not over.wait(LOOK):
            with suppress(UnmaskError, OSError):  # not made yet; and what is wrong with the place is said at the end
                with Store.open(out / STORE) as store:
                    soon = keys <= store.done()
                if soon and not over.is_set():
                    assert page.early is not None
                    results = read([out / STORE])
                    about = Made(origin(**asdict(settings)), results.work, Explorer(results, page.view), out)
                    write(out, page.early(settings, about), page.file)
                    progress.note(f"{(out / page.file).resolve()} has the first results; it is completed in place")
                    return

    watching = Thread(target=watch, daemon=True)
    watching.start()
    try:
        yield
    finally:
        over.set()
        watching.join()


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
