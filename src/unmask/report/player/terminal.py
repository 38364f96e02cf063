"""The player in a terminal: one frame per step; in other outputs the final sequences as text."""

from __future__ import annotations

import math
import os
import select
import sys
import termios
import time
import tty
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from rich.console import Console, Group
from rich.live import Live
from rich.panel import Panel
from rich.text import Text

from unmask.core.errors import plain
from unmask.report.player.run import Run

LONGEST = 24  # characters of a token
HIDDEN = "_"
SECONDS, LEAST, MOST = 8.0, 0.07, 1.1  # of a complete play, approximately; of a step
LOOK = 3.0  # seconds at the first error
KEYS = {
    " ": "pause",
    "\x1b[C": "next",
    "\x1b[D": "back",
    "\x1b[H": "home",
    "\x1b[F": "end",
    "q": "quit",
    "\x03": "quit",
}


def show(runs: Sequence[Run], row: int) -> None:
    """Play a row in an interactive terminal; elsewhere print its end."""
    console = Console()
    if console.is_terminal and sys.stdin.isatty():
        _play(runs, row, console)
    else:
        for run in runs:
            console.print(Text(plain(run.name)), _state(run, row, len(run.steps[row])), sep="\n", soft_wrap=True)


def length(runs: Sequence[Run], row: int) -> int:
    """Steps of the longest run."""
    return max(len(run.steps[row]) for run in runs)


def frame(runs: Sequence[Run], row: int, step: int) -> Group:
    """The picture at a step; at step 0 all is hidden."""
    states = ((run, _state(run, row, min(step, len(run.steps[row])))) for run in runs)
    return Group(*(Panel(state, title=Text(plain(run.name)), title_align="left") for run, state in states))


def _state(run: Run, row: int, step: int) -> Text:
    """The sequence after this number of steps, and its loss."""
    recorded, reading = run.trace.rows[row], run.readings[row]
    past, given, tokens = run.steps[row], dict(recorded.given), run.shown(row, step)
    new = set(past[step - 1].revealed) if step else set()
    meter = reading.steps[step - 1].meter if reading and step else 0.0
    guilty = set(reading.guilty) if reading and meter == math.inf else set()
    symbols = {place: _symbol(run.trace.symbol(token)) for place, token in tokens.items()}
    joint = "" if any(len(symbol) > 2 for symbol in map(run.trace.symbol, set(tokens.values()))) else " "
    drawn = Text()
    for place in range(recorded.length):
        look = "dim"
        if place in tokens:
            look = "underline" if place in given else "bold reverse" if place in new else ""
        drawn.append(symbols.get(place, HIDDEN), style="bold white on red" if place in guilty else look)
        drawn.append(joint if place < recorded.length - 1 else "")
    number = past[step - 1].number if step else 0
    drawn.append(f"\nstep {number} of {past[-1].number if past else 0}", style="dim")
    if reading:
        lost = (
            "impossible: no valid completion exists" if meter == math.inf else f"{round(meter, 2) + 0.0:.2f} nats lost"
        )
        drawn.append(f", {lost}", style="bold red" if meter == math.inf else "dim")
        if meter == math.inf:
            drawn.append(f"\n{reading.why}", style="red")
    return drawn


def _symbol(symbol: str) -> str:
    return plain(symbol if len(symbol) <= LONGEST else f"{symbol[:LONGEST]}..")


def _play(runs: Sequence[Run], row: int, console: Console) -> None:
    end = length(runs, row)
    pace = min(max(SECONDS / max(end, 1), LEAST), MOST)
    errors = {error + 1 for run in runs if (error := run.first_error(row)) is not None}
    step, paused = 0, False
    with Live(console=console, auto_refresh=False) as live, _keys() as pressed:
        while True:
            live.update(Group(frame(runs, row, step), Text("space: pause, arrows: step, q: quit", "dim")), refresh=True)
            key = pressed(None if paused else LOOK if step in errors else pace)
            if key == "quit" or (step == end and key is None):
                return
            paused = not paused if key == "pause" else paused or key in ("back", "next", "home", "end")
            move = {"back": step - 1, "next": step + 1, "home": 0, "end": end, "pause": step, None: step + 1}
            step = min(max(move[key], 0), end)


@contextmanager
def _keys() -> Iterator[Callable[[float | None], str | None]]:
    """Yield `_pressed`, with the terminal in a mode that reports each key at once."""
    before = termios.tcgetattr(sys.stdin)
    try:
        tty.setcbreak(sys.stdin)
        yield _pressed
    finally:
        termios.tcsetattr(sys.stdin, termios.TCSADRAIN, before)


def _pressed(seconds: float | None) -> str | None:
    """The action of the key that is pressed within these seconds; None without one."""
    until = None if seconds is None else time.monotonic() + seconds
    while until is None or time.monotonic() < until:
        if select.select([sys.stdin], [], [], None if until is None else until - time.monotonic())[0]:
            read = os.read(sys.stdin.fileno(), 8).decode(errors="replace")
            if not read:
                return "quit"
            if read in KEYS:
                return KEYS[read]
    return None
