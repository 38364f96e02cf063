"""From settings to files: one path for all that is measured by a sweep and shown as a page, or as a board.

    settings -> recipe -> sweep in OUT/sweep -> what it comes to -> files in OUT

A `Page` says what stands at each arrow; `publish` walks it.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

from unmask.core.errors import UnmaskError
from unmask.core.files import atomic, check_writable, origin
from unmask.experiments.jobs.cells import cells_of, check
from unmask.experiments.jobs.recipe import Recipe
from unmask.experiments.jobs.run import EngineName, Sweep, sweep

STORE = "sweep"  # beside the files: what was measured, from which an interrupted command goes on

Settings = TypeVar("Settings", bound=Any)  # a dataclass
Measured = TypeVar("Measured")


@dataclass(frozen=True)
class Page(Generic[Settings, Measured]):
    """What is measured and how it is shown, for any settings."""

    file: str  # the one to open, written last: where it stands, all do
    recipe: Callable[[Settings], Recipe]
    measured: Callable[[Sweep, Settings], Measured]  # what the cells come to; fails if it cannot do without some
    contents: Callable[[Measured, Settings, Mapping[str, Any], float], dict[str, bytes]]  # origin; seconds of work


@dataclass(frozen=True)
class Published(Generic[Measured]):
    """What was measured, and where it lies."""

    measured: Measured
    page: Path
    files: list[Path]
    seconds: float  # of this run


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
    made = sweep(recipe, store=out / STORE, engine=engine, workers=workers, fresh=True)
    measured = page.measured(made, settings)
    files = write(
        out,
        page.contents(measured, settings, origin(**asdict(settings)) | {"languages": made.languages}, made.work),
        page.file,
    )
    return Published(measured, (out / page.file).resolve(), files, time.perf_counter() - began)


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
