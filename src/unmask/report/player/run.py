"""What is played: a trace with the language that it is held against, and what a page is told of it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from typing import Any, NamedTuple

from unmask.core import arguments
from unmask.core.errors import UnmaskError
from unmask.diagnosis.reveal import Reading, impossible, read
from unmask.generation.trace import Round, Row, Trace
from unmask.languages import Language

SHOWN = 8  # rows of a page, unless told otherwise
MOST_ARCS = 40  # of a round, the strongest
LEAST_ARC = 0.005  # nats; a thinner one is not seen


class Step(NamedTuple):
    """What a round did to a row, as far as it is shown."""

    number: int
    revealed: dict[int, int]  # position: token, of what it wrote and left
    hidden: tuple[int, ...]
    left: int  # positions that are hidden after it


@dataclass(frozen=True)
class Run:
    """Rows of one sampler; of several runs side by side row r is the same row, drawn with the same luck."""

    name: str
    trace: Trace
    language: Language | None = None  # what rows are held against; without, only what the trace says is shown
    numbers: tuple[int, ...] = ()  # what the rows are called; 0.. unless told otherwise

    @cached_property
    def readings(self) -> list[Reading | None]:
        """What each row did against the language."""
        if self.language is None:
            return [None] * len(self.trace.rows)
        return [read(self.language, self.trace, row) for row in range(len(self.trace.rows))]

    @cached_property
    def rounds(self) -> list[list[Step]]:
        """What each round did, of each row."""
        return [[_step(row, one) for one in row.rounds()] for row in self.trace.rows]

    def stands(self, row: int, step: int) -> dict[int, int]:
        """Position: token, of what stands after so many rounds of a row."""
        found = dict(self.trace.rows[row].given)
        for one in self.rounds[row][:step]:
            found = {position: token for position, token in found.items() if position not in one.hidden} | one.revealed
        return found

    def number(self, row: int) -> int:
        return self.numbers[row] if self.numbers else row

    def arcs(self, row: int, step: int) -> list[tuple[int, int, float]]:
        """(i, j, nats) of a round, the strongest first."""
        reading = self.readings[row]
        pairs = () if reading is None else reading.steps[step].pairs
        return sorted((pair for pair in pairs if pair[2] >= LEAST_ARC), key=lambda pair: -pair[2])[:MOST_ARCS]

    def first_error(self, row: int) -> int | None:
        """The step, from 0, after which no sequence of the language was left."""
        reading = self.readings[row]
        return None if reading is None else reading.impossible

    def told(self) -> dict[str, Any]:
        """Plain values for the script of a page: a row's steps are [round, [[position, token, p], ..], meter, arcs]."""
        used = {token for row in self.trace.rows for _, token in row.given}
        used |= {event[2] for row in self.trace.rows for event in row.events if event[2] is not None}
        return {
            "name": self.name,
            "symbols": {str(token): self.trace.symbol(token) for token in sorted(used)},
            "measured": self.language is not None,
            "rows": [self._told(number, row) for number, row in enumerate(self.trace.rows)],
        }

    def _told(self, number: int, row: Row) -> dict[str, Any]:
        reading, steps = self.readings[number], []
        for step, (turn, group) in enumerate(groupby(row.events, lambda event: event[0])):
            events = [(position, token, None if p is None else float(f"{p:.4g}")) for _, position, token, p in group]
            meter = None if reading is None else _finite(reading.steps[step].meter)
            steps.append((turn, events, meter, [(i, j, round(nats, 4)) for i, j, nats in self.arcs(number, step)]))
        found = {"number": self.number(number), "length": row.length, "given": row.given, "steps": steps}
        found["revised"] = any(one.hidden for one in self.rounds[number])
        if reading is not None:
            found |= {"impossible": reading.impossible, "guilty": reading.guilty, "because": reading.because}
            found |= {"why": reading.why}
        return found


def _step(row: Row, one: Round) -> Step:
    kept = {position: one.after[position][0] for position in one.revealed if position in one.after}
    return Step(one.number, kept, one.hidden, row.length - len(one.after))


def _finite(value: float) -> float | None:
    return round(value, 4) if math.isfinite(value) else None


def check(runs: Sequence[Run]) -> None:
    """An error unless these can be played side by side."""
    if not 1 <= len(runs) <= 2:
        raise UnmaskError(f"there are {len(runs)} runs; a player shows one, or two side by side")
    rows = {len(run.trace.rows) for run in runs}
    if len(rows) > 1:
        raise UnmaskError(f"the runs have {' and '.join(map(str, sorted(rows)))} rows; side by side both have the same")


def telling(runs: Sequence[Run]) -> int:
    """The row to begin with: the first that goes wrong in the first run and in no other, else the first that does, else
    the first."""
    return _telling([[run.first_error(row) is not None for row in range(len(run.trace.rows))] for run in runs])


def _telling(wrong: Sequence[Sequence[bool]]) -> int:
    rows = [row for row, one in enumerate(wrong[0]) if one]
    alone = [row for row in rows if not any(other[row] for other in wrong[1:])]
    return next(iter([*alone, *rows, 0]))


class Chosen(NamedTuple):
    """Runs with few enough rows for a page."""

    runs: list[Run]
    row: int  # which of them to begin with
    rows: int  # how many there are in all
    wrong: (
        list[int] | None
    )  # of how many rows of all there were no sequence is the end, in each run; None: nobody can tell


def chosen(
    traces: Mapping[str, Trace], language: Language | None, begin: int | None = None, most: int = SHOWN
) -> Chosen:
    """The first rows of these traces by name, and among them the one to begin with: if none is named one that goes
    wrong, if any does."""
    rows = min(len(trace.rows) for trace in traces.values())
    wrong = None if language is None else [impossible(language, trace) for trace in traces.values()]
    row = arguments.whole("row", begin, 0, rows - 1) if begin is not None else _telling(wrong) if wrong else 0
    kept = sorted({*range(min(rows, most if row < most else most - 1)), row})
    runs = [Run(name, trace.of(kept), language, tuple(kept)) for name, trace in traces.items()]
    check(runs)
    return Chosen(runs, kept.index(row), rows, None if wrong is None else [sum(one) for one in wrong])
