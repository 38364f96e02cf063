"""The player in a terminal: the sequence after each step; in other outputs the final one."""

from __future__ import annotations

import math
from collections.abc import Sequence

from rich.console import Console
from rich.text import Text

from unmask.core.errors import plain
from unmask.report.player.run import Run

LONGEST = 24  # characters of a token
HIDDEN = "_"


def show(runs: Sequence[Run], row: int, console: Console | None = None) -> None:
    """Print a row after each step in a terminal; elsewhere its end."""
    console = console or Console()
    for run in runs:
        end = len(run.steps[row])
        states = (_state(run, row, step) for step in range(0 if console.is_terminal else end, end + 1))
        console.print(Text(plain(run.name)), *states, sep="\n", soft_wrap=True)


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
