"""A progress bar for what takes long, on stderr, and only where somebody can see it.

The bar appears after two seconds, so that quick work stays silent, and leaves no trace when the work is done. rich is
imported when a bar is drawn: a library call inside somebody's program pays nothing for it.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.progress import Progress

DELAY = 2.0  # seconds of silence


class _Bar:
    """One piece of work; its drawing exists once it has lasted longer than the delay."""

    def __init__(self, label: str, total: int) -> None:
        self.label = label
        self.total = total
        self.done = 0
        self.began = time.monotonic()
        self.drawing: Progress | None = None

    def advance(self, steps: int) -> None:
        self.done += steps
        if self.drawing is not None:
            self.drawing.update(self.drawing.task_ids[0], completed=self.done)
        elif self.done < self.total and time.monotonic() - self.began >= DELAY:
            self._draw()

    def _draw(self) -> None:
        from rich.console import Console
        from rich.progress import (
            BarColumn,
            Progress,
            TaskProgressColumn,
            TextColumn,
            TimeElapsedColumn,
            TimeRemainingColumn,
        )

        self.drawing = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            TaskProgressColumn(),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(),
            console=Console(stderr=True),
            get_time=time.monotonic,
            refresh_per_second=4,
            transient=True,
            redirect_stdout=False,  # what a program prints is data, and stays on stdout
        )
        task = self.drawing.add_task(self.label, total=self.total, completed=self.done)
        self.drawing.tasks[task].start_time = self.began
        self.drawing.start()

    def close(self) -> None:
        if self.drawing is not None:
            self.drawing.stop()


_outermost: _Bar | None = None
_listener: Callable[[float], None] | None = None


@contextmanager
def track(label: str, total: int) -> Iterator[Callable[[int], None]]:
    """`with track("rows", 2000) as advance: advance(250)`. Inside another track there is no second bar."""
    global _outermost
    if _listener is not None:
        with _heard(_listener, total) as advance:
            yield advance
        return
    if _outermost is not None or not _watched():
        yield _advance_inner
        return
    bar = _outermost = _Bar(label, total)
    try:
        yield bar.advance
    finally:
        _outermost = None
        bar.close()


@contextmanager
def told_to(listener: Callable[[float], None]) -> Iterator[None]:
    """Within, the outermost track tells the share that it has done, and draws nothing: it is part of larger work.

    A bar that it has renamed has its old name afterwards.
    """
    global _listener
    before, _listener = _listener, listener
    label = None if _outermost is None else _outermost.label
    try:
        yield
    finally:
        _listener = before
        if label is not None:
            rename(label)


@contextmanager
def _heard(listener: Callable[[float], None], total: int) -> Iterator[Callable[[int], None]]:
    global _listener
    done = 0

    def advance(steps: int) -> None:
        nonlocal done
        done += steps
        listener(min(done / max(total, 1), 1.0))

    _listener = None  # what lies within is part of this
    try:
        yield advance
    finally:
        _listener = listener


def rename(label: str) -> None:
    """What the bar says, if there is one."""
    if _outermost is not None:
        _outermost.label = label
        if _outermost.drawing is not None:
            _outermost.drawing.update(_outermost.drawing.task_ids[0], description=label)


def note(text: str) -> None:
    """Print a line to stderr, above the bar where there is one."""
    if _outermost is not None and _outermost.drawing is not None:
        _outermost.drawing.console.print(text, markup=False, highlight=False, soft_wrap=True)
    else:
        print(text, file=sys.stderr, flush=True)


def _advance_inner(steps: int) -> None:
    """Part of a larger step: it moves no bar, but lets the outer one appear in time."""
    if _outermost is not None:
        _outermost.advance(0)


def _watched() -> bool:
    """Is stderr a terminal, or are we in a notebook that can draw?"""
    return sys.stderr.isatty() or ("ipykernel" in sys.modules and find_spec("ipywidgets") is not None)
