"""What takes long says so, on stderr: a bar where somebody watches, and in a command elsewhere a line now and then.

The bar appears after two seconds, so that quick work stays silent, and leaves no trace when the work is done; lines
come after five seconds, and then every thirty. A thread of its own sees to both, whatever the work is busy with. rich
is imported when a bar is drawn: a library call inside somebody's program pays nothing for it, and writes no lines.
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
FIRST, LATER = 5.0, 30.0  # before a line, and between lines
COMPILING = "compiling the exact kernels (first start, or a new version); they are kept for the next time"
PATIENT = 1.0  # seconds of compilation that nobody needs to hear of


class _Bar:
    """One piece of work; its drawing exists once it has lasted longer than the delay, where somebody watches."""

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

    def tell(self) -> None:
        """Say in a line how far it is."""
        passed = time.monotonic() - self.began
        left = f", about {_duration(passed * (self.total / self.done - 1))} left" if 0 < self.done < self.total else ""
        note(f"{self.label}: {self.done / max(self.total, 1):.0%} after {_duration(passed)}{left}")

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
        with self.lock:
            if self.drawing is not None:
                self.drawing.stop()


class _Listener:
    """Whom the outermost track of a part of larger work tells, one at a time."""

    def __init__(self, tell: Callable[[float], None]) -> None:
        self.tell, self.busy = tell, False


_lines = False  # whether a command runs, which says in lines what it does
_silent = 0  # how many see by other means how far it is; of several threads, which end in any order
_counting = Lock()
_compiled = 0.0  # seconds; negative once it has been said
_outermost: _Bar | None = None
_listeners: list[_Listener] = []


@contextmanager
def track(label: str, total: int) -> Iterator[Callable[[int], None]]:
    """`with track("rows", 2000) as advance: advance(250)`. Inside another track there is no second bar."""
    global _outermost
    listener = _heeding()
    if listener is not None and not _silent:
        with _heard(listener, total) as advance:
            yield advance
        return
    if _silent or _outermost is not None or not (_watched() or _lines):
        yield _advance_inner
        return
    bar = _outermost = _Bar(label, total)
    ticking = _ticking(bar.appear, DELAY, LATER) if bar.watched else _ticking(bar.tell, FIRST, LATER)
    try:
        with ticking:
            yield bar.advance
    finally:
        _outermost = None
        bar.close()


@contextmanager
def command(label: str) -> Iterator[None]:
    """While a command runs: what takes long says so in lines too, and so does the command where nothing in it does."""
    global _lines
    began = time.monotonic()

    def tell() -> None:
        if _outermost is None and not _silent:
            note(f"{label}: at work for {_duration(time.monotonic() - began)}")

    before, _lines = _lines, True
    try:
        with _ticking(tell, FIRST, LATER):
            yield
    finally:
        _lines = before


@contextmanager
def silent() -> Iterator[None]:
    """Within, nothing says how far it is: somebody sees what is made, or is asked for more of it."""
    global _silent
    with _counting:
        _silent += 1
    try:
        yield
    finally:
        with _counting:
            _silent -= 1


def compiling(seconds: float) -> None:
    """So many seconds more have gone into compiling kernels, and there is more to compile: said once, if it is long."""
    global _compiled
    if _compiled < 0 or _heeding() is not None or not (_lines or _watched()):
        return
    _compiled += seconds
    if _compiled >= PATIENT:
        _compiled = -1.0
        note(COMPILING)


@contextmanager
def _ticking(tick: Callable[[], None], first: float, later: float) -> Iterator[None]:
    """Call tick after so many seconds, and then again and again."""
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


@contextmanager
def told_to(listener: Callable[[float], None]) -> Iterator[None]:
    """Within, the outermost track tells the share that it has done, and draws nothing: it is part of larger work.

    A bar that it has renamed has its old name afterwards.
    """
    heeding, label = _Listener(listener), None if _outermost is None else _outermost.label
    _listeners.append(heeding)
    try:
        yield
    finally:
        _listeners.remove(heeding)
        if label is not None:
            rename(label)


def _heeding() -> _Listener | None:
    """Who is told next: nobody within a track that tells already."""
    return _listeners[-1] if _listeners and not _listeners[-1].busy else None


@contextmanager
def _heard(listener: _Listener, total: int) -> Iterator[Callable[[int], None]]:
    done = 0

    def advance(steps: int) -> None:
        nonlocal done
        done += steps
        listener.tell(min(done / max(total, 1), 1.0))

    listener.busy = True  # what lies within is part of this
    try:
        yield advance
    finally:
        listener.busy = False


def rename(label: str) -> None:
    """What the bar says, if there is one."""
    if _outermost is not None:
        _outermost.label = label
        if _outermost.drawing is not None:
            _outermost.drawing.update(_outermost.drawing.task_ids[0], description=label)


def note(text: str) -> None:
    """Print a line to stderr, above the bar where there is one, and nowhere where stderr takes nothing."""
    with suppress(OSError):
        if _outermost is not None and _outermost.drawing is not None:
            _outermost.drawing.console.print(plain(text), markup=False, highlight=False, soft_wrap=True)
        else:
            print(plain(text), file=sys.stderr, flush=True)


def _advance_inner(steps: int) -> None:
    """Part of a larger step: it moves no bar, but lets the outer one appear in time."""
    if _outermost is not None:
        _outermost.advance(0)


def _watched() -> bool:
    """Is stderr a terminal, or are we in a notebook that can draw?"""
    return sys.stderr.isatty() or ("ipykernel" in sys.modules and find_spec("ipywidgets") is not None)
