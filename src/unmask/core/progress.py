"""Progress of long work on stderr: a bar on a terminal; elsewhere, commands print a line now and then.

The bar appears after two seconds and disappears when the work is done. Lines come after 5 seconds and then every 30. A
thread draws both. rich is imported with the first bar, so library calls do not pay for it; they print no lines.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from threading import Event, Lock, RLock, Thread
from typing import TYPE_CHECKING

from unmask.core.errors import plain

if TYPE_CHECKING:
    from rich.progress import Progress

DELAY = 2.0  # seconds of silence before a bar
FIRST, LATER, KNOWN = 5.0, 30.0, 0.1  # before a line, between lines; part that is done before a line has the rest


class _Bar:
    """One piece of work; on a terminal it has a drawing once it has lasted longer than the delay."""

    def __init__(self, label: str, total: int) -> None:
        self.label = label
        self.total = total
        self.done = 0
        self.began = time.monotonic()
        self.watched = _watched()
        self.drawing: Progress | None = None
        self.lock = RLock()

    def advance(self, steps: int) -> None:
        self.done += steps
        if self.drawing is not None:
            self.drawing.update(self.drawing.task_ids[0], completed=self.done)
        elif self.watched:
            self.appear()

    def appear(self) -> None:
        """Draw the bar, if it is time."""
        with self.lock:
            late = time.monotonic() - self.began >= DELAY
            if self.drawing is None and late and (self.done < self.total or not self.done):
                self._draw()

    def print_line(self) -> None:
        part, passed = self.done / max(self.total, 1), time.monotonic() - self.began
        left = f", about {_duration(passed * (1 / part - 1))} left" if KNOWN <= part < 1 else ""
        note(f"{self.label}: {part:.0%} after {_duration(passed)}{left}")

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
            redirect_stdout=False,  # the output of a program is data, and stays on stdout
        )
        task = self.drawing.add_task(self.label, total=self.total, completed=self.done)
        self.drawing.tasks[task].start_time = self.began
        self.drawing.start()

    def close(self) -> None:
        with self.lock:
            if self.drawing is not None:
                self.drawing.stop()


_lines = False  # whether a command runs, so that lines are printed
_silent = 0  # number of open `silent` blocks, in all threads
_counting = Lock()
_outermost: _Bar | None = None


@contextmanager
def track(label: str, total: int) -> Iterator[Callable[[int], None]]:
    """`with track("rows", 2000) as advance: advance(250)`. Inside another track there is no second bar."""
    global _outermost
    if _silent or _outermost is not None or not (_watched() or _lines):
        yield _advance_inner
        return
    bar = _outermost = _Bar(label, total)
    ticking = _ticking(bar.appear, DELAY, LATER) if bar.watched else _ticking(bar.print_line, FIRST, LATER)
    try:
        with ticking:
            yield bar.advance
    finally:
        _outermost = None
        bar.close()


@contextmanager
def command(label: str) -> Iterator[None]:
    """Print lines while a command runs: those of its tracks, or else the time that it has taken."""
    global _lines
    began = time.monotonic()

    def print_line() -> None:
        if _outermost is None and not _silent:
            note(f"{label}: at work for {_duration(time.monotonic() - began)}")

    before, _lines = _lines, True
    try:
        with _ticking(print_line, FIRST, LATER):
            yield
    finally:
        _lines = before


@contextmanager
def silent() -> Iterator[None]:
    """Show no progress inside the block: the user sees the output itself, or is at a prompt."""
    global _silent
    with _counting:
        _silent += 1
    try:
        yield
    finally:
        with _counting:
            _silent -= 1


@contextmanager
def _ticking(tick: Callable[[], None], first: float, later: float) -> Iterator[None]:
    """Call tick after `first` seconds, and then every `later` seconds."""
    ended = Event()

    def run() -> None:
        pause = first
        while not ended.wait(pause):
            tick()
            pause = later

    thread = Thread(target=run, name="progress", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def _duration(seconds: float) -> str:
    whole = round(seconds)
    if whole < 120:
        return f"{whole} s"
    return f"{whole // 60} min" if whole < 7200 else f"{whole / 3600:.1f} h"


def rename(label: str) -> None:
    """Change the label of the bar, if there is one."""
    if _outermost is not None:
        _outermost.label = label
        if _outermost.drawing is not None:
            _outermost.drawing.update(_outermost.drawing.task_ids[0], description=label)


def note(text: str) -> None:
    """Print a line to stderr, above the bar if there is one; do nothing if stderr is closed."""
    with suppress(OSError):
        if _outermost is not None and _outermost.drawing is not None:
            _outermost.drawing.console.print(plain(text), markup=False, highlight=False, soft_wrap=True)
        else:
            print(plain(text), file=sys.stderr, flush=True)


def _advance_inner(steps: int) -> None:
    """Progress of a nested track: it does not move the outer bar, but lets it appear in time."""
    if _outermost is not None:
        _outermost.advance(0)


def _watched() -> bool:
    """Whether stderr is a terminal, or this is a notebook that can draw."""
    return sys.stderr.isatty() or ("ipykernel" in sys.modules and find_spec("ipywidgets") is not None)
