"""Progress of long work on stderr: a bar on a terminal; elsewhere, commands print a line now and then.

The bar appears after two seconds and disappears when the work is done. Lines come after 5 seconds, or 10 where nothing
counts the work, and then every 30. A thread draws both. rich is imported with the first bar, so library calls do not
pay for it; they print no lines.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from threading import Event, Thread
from typing import TYPE_CHECKING, Any

from unmask.core.errors import plain

if TYPE_CHECKING:
    from rich.progress import Progress

DELAY = 2.0  # seconds of silence before a bar
FIRST, LATER = 5.0, 30.0  # before a line, and between lines
START = 10.0  # before the line of a command without a track: an error in its arguments comes earlier
KNOWN = 0.1  # part that is done before a line has the rest


class _Bar:
    """One piece of work, and its drawing on a terminal once it has lasted longer than the delay."""

    def __init__(self, label: str, total: int) -> None:
        self.label = label
        self.total = total
        self.done = 0
        self.began = time.monotonic()
        self.drawing: Progress | None = None

    def advance(self, steps: int) -> None:
        self.done += steps
        if self.drawing is not None:
            self.drawing.update(self.drawing.task_ids[0], completed=self.done, description=self.label)

    def draw(self) -> None:
        if self.drawing is not None:
            return
        from rich import progress as rich
        from rich.console import Console

        columns = rich.TextColumn("{task.description}", markup=False), rich.BarColumn(), rich.TaskProgressColumn()
        times = rich.TimeElapsedColumn(), rich.TextColumn("left"), rich.TimeRemainingColumn()
        how: dict[str, Any] = {"get_time": time.monotonic, "refresh_per_second": 4, "transient": True}
        how["redirect_stdout"] = False  # the output of a program is data, and stays on stdout
        drawing = rich.Progress(*columns, *times, console=Console(stderr=True), **how)
        task = drawing.add_task(self.label, total=self.total, completed=self.done)
        drawing.tasks[task].start_time = self.began
        drawing.start()
        self.drawing = drawing  # at last: `advance`, in the thread of the work, updates it

    def print_line(self) -> None:
        part = self.done / max(self.total, 1)
        passed = time.monotonic() - self.began
        line = f"{self.label}: {part:.0%} after {_duration(passed)}"
        if KNOWN <= part < 1:
            line += f", about {_duration(passed * (1 / part - 1))} left"
        note(line)


_lines = False  # whether a command runs, so that lines are printed
_silent = 0  # number of open `silent` blocks
_outermost: _Bar | None = None


@contextmanager
def track(label: str, total: int) -> Iterator[Callable[[int], None]]:
    """`with track("rows", 2000) as advance: advance(250)`. Inside another track there is no second bar."""
    global _outermost
    notebook = "ipykernel" in sys.modules and find_spec("ipywidgets") is not None  # which can draw
    watched = sys.stderr.isatty() or notebook

    if (outer := _outermost) is not None:
        own = outer.label
        try:
            yield lambda steps: None
        finally:
            outer.label = own  # which `rename` may have changed
        return

    if _silent or not (watched or _lines):
        yield lambda steps: None
        return

    bar = _outermost = _Bar(label, total)
    try:
        drawn = _ticking(bar.draw, DELAY, LATER) if watched else _ticking(bar.print_line, FIRST, LATER)
        with drawn:
            yield bar.advance
    finally:
        _outermost = None
        if bar.drawing is not None:
            bar.drawing.stop()


@contextmanager
def command(label: str) -> Iterator[None]:
    """Print lines while a command runs: those of its tracks, or else the time that it has taken."""
    global _lines
    began = time.monotonic()

    def print_line() -> None:
        if _outermost is None and not _silent:
            note(f"{label}: at work for {_duration(time.monotonic() - began)}")

    before = _lines
    _lines = True
    try:
        with _ticking(print_line, START, LATER):
            yield
    finally:
        _lines = before


@contextmanager
def silent() -> Iterator[None]:
    """Show no progress inside the block: the user sees the output itself, or is at a prompt."""
    global _silent
    _silent += 1
    try:
        yield
    finally:
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
        _outermost.advance(0)


def note(text: str) -> None:
    """Print a line to stderr, above the bar if there is one; do nothing if stderr is closed."""
    with suppress(OSError):
        if _outermost is not None and _outermost.drawing is not None:
            _outermost.drawing.console.print(plain(text), markup=False, highlight=False, soft_wrap=True)
        else:
            print(plain(text), file=sys.stderr, flush=True)


def tell(text: str) -> None:
    """Print a line to stderr if a command runs; library calls print none."""
    if _lines and not _silent:
        note(text)
