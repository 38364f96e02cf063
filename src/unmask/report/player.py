"""The player: sequences step by step, with the loss of each step and the tokens that contradict each other.

A `Run` is a trace with the language that the player compares it with. `page` is a self-contained page.
All symbols are inserted as text, never as HTML.
"""

from __future__ import annotations

import html
import json
import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from importlib.resources import files
from itertools import chain, groupby, starmap
from operator import itemgetter
from pathlib import Path
from string import Template
from typing import Any

import numpy as np

from unmask.core import arguments
from unmask.core.entries import column, picked, present
from unmask.core.errors import UnmaskError, cut, plural
from unmask.core.files import atomic
from unmask.core.tables import as_table
from unmask.denoisers import Denoiser, as_denoiser
from unmask.diagnosis.reveal import Reading, impossible, read, read_by_model
from unmask.languages import Language, LanguageLike
from unmask.models.loading import load
from unmask.samplers import generate
from unmask.samplers.generation import reshaped
from unmask.samplers.joint import DRAWS
from unmask.samplers.trace import Row, Step, Symbols, Trace

SHOWN = 8  # default number of sequences of a page
ROWS, STEPS = 50, 8  # of new sequences
MOST_ARCS = 40  # of a step, the strongest ones
LEAST_ARC = 0.005  # nats; weaker ones are not drawn


@dataclass(frozen=True)
class Run:
    """The sequences of one sampler. Row r of runs side by side has the same random numbers."""

    name: str
    trace: Trace
    language: Language | None = None  # without it and a model, a player shows no impossible tokens and no loss
    model: Denoiser | None = None  # whose own conditionals give the loss, instead of a language
    numbers: tuple[int, ...] = ()  # of the rows (default: 0, 1, ..)
    joint: bool = False  # the tokens of a step are drawn together: not the loss of independent draws

    @cached_property
    def readings(self) -> list[Reading | None]:
        """The loss and the first error of each row; None without a language or a model."""
        if self.model is not None:
            return [*read_by_model(self.model, self.trace)]
        if self.language is None:
            return [None] * len(self.trace.rows)
        return [read(self.language, self.trace, row) for row in range(len(self.trace.rows))]

    @cached_property
    def steps(self) -> list[list[Step]]:
        """The steps of each row."""
        return [list(row.steps()) for row in self.trace.rows]

    @property
    def wrong(self) -> list[bool]:
        """Whether each row has an error."""
        return [reading is not None and reading.impossible is not None for reading in self.readings]

    def number(self, row: int) -> int:
        return (self.numbers or range(row + 1))[row]

    def arcs(self, row: int, step: int) -> list[tuple[int, int, float]]:
        """(i, j, nats) of a step, the strongest first."""
        own = self.readings[row]
        if own is None:
            return []
        strongest = sorted(own.steps[step].pairs, key=lambda pair: -pair[2])[:MOST_ARCS]
        return [(i, j, round(nats, 4)) for i, j, nats in strongest if nats >= LEAST_ARC]

    @property
    def measured(self) -> str | None:
        """The source of the loss."""
        if self.model is not None:
            return "model"
        if self.language is not None:
            return "language"
        return None

    def plain(self) -> dict[str, Any]:
        """Values for the script of a page: a row's steps are [number, [[position, token, p], ..], meter, arcs]."""
        given = map(itemgetter(1), chain.from_iterable(column(self.trace.rows, "given")))
        drawn = map(itemgetter(2), chain.from_iterable(column(self.trace.rows, "events")))

        return {
            "name": self.name,
            "symbols": {str(token): self.trace.symbol(token) for token in sorted({*given, *present(drawn)})},
            "joint": self.joint,
            "measured": self.measured,
            "rows": list(starmap(self._plain, enumerate(self.trace.rows))),
        }

    def _plain(self, number: int, row: Row) -> dict[str, Any]:
        reading, steps = self.readings[number], []
        for step, (name, group) in enumerate(groupby(row.events, lambda event: event[0])):
            events = [(position, token, p and float(f"{p:.4g}")) for _, position, token, p in group]
            meter = None
            if reading is not None and math.isfinite(reading.steps[step].meter):
                meter = round(reading.steps[step].meter, 4)
            steps.append((name, events, meter, self.arcs(number, step)))

        values = {
            "number": self.number(number),
            "length": row.length,
            "given": row.given,
            "steps": steps,
            "revised": any(column(self.steps[number], "hidden")),
        }
        if reading is not None:
            values |= picked(vars(reading), ("impossible", "guilty", "because", "why"))
        return values


def check(runs: Sequence[Run]) -> None:
    """Raise an error unless a player can show these runs."""
    if not 1 <= len(runs) <= 2:
        raise UnmaskError(f"there are {len(runs)} runs; a player shows one, or two side by side")
    rows = set(map(len, column(runs, "trace.rows")))
    if len(rows) > 1:
        raise UnmaskError(f"the runs have {' and '.join(map(str, sorted(rows)))} rows; expected the same number")


def telling(wrong: Sequence[Sequence[bool]]) -> int:
    """The first row to show: impossible only in the first run, or impossible in it, or row 0."""
    of_row = np.array(list(zip(*wrong, strict=False)))  # (rows, runs)
    first = of_row[:, 0]
    alone = first & ~of_row[:, 1:].any(1)
    return int(np.argmax(first.astype(int) + alone))  # the first of the largest


@dataclass(frozen=True, repr=False)
class Player:
    """The runs of a page, with few rows."""

    runs: list[Run]
    row: int  # the first one to show
    rows: int  # number of recorded rows
    wrong: list[int] | None  # impossible sequences of each run; None if unknown

    def page(self, made_by: str = "") -> bytes:
        """A self-contained page. made_by: the command that created it."""
        return page(self.runs, " and ".join(column(self.runs, "name")), made_by, self.row)

    def write(self, file: str | Path, made_by: str = "") -> None:
        """Write the page, or as .json the trace of the first run."""
        if Path(file).suffix == ".json":
            self.runs[0].trace.write(Path(file))
            return
        with atomic(Path(file)) as out:
            out.write(self.page(made_by))

    def table(self) -> list[tuple[str, str]]:
        """The first sequence to show and its error."""
        lines = [("row", f"{self.runs[0].number(self.row)} of {self.rows}")]
        lines += [(run.name, _told(run, self.row)) for run in self.runs]
        if self.wrong is not None:
            counts = " and ".join(map(str, self.wrong))
            lines.append(("impossible", f"{counts} of {self.rows} sequences"))
        return lines

    def to_dict(self) -> dict[str, Any]:
        """The same as plain values."""
        about: dict[str, Any] = {"row": self.runs[0].number(self.row)}
        for number, run in enumerate(self.runs):
            reading, steps = run.readings[self.row], run.steps[self.row]
            own: dict[str, Any] = {"steps": len(steps), "rows": self.rows}
            if reading is not None and run.model is not None:
                own |= {"nats_lost": reading.lost, "measured_by": run.model.name}
            elif reading is not None and self.wrong is not None:
                own |= {"wrong_rows": self.wrong[number], "why": reading.why or None, "nats_lost": reading.lost}
                own["impossible_in_step"] = None
                if reading.impossible is not None:
                    own["impossible_in_step"] = steps[reading.impossible].number
            if run.joint:
                own.pop("nats_lost", None)
            about[run.name] = own
        return about

    def __repr__(self) -> str:
        return as_table(self)

    def _repr_html_(self) -> str:
        inside = html.escape(self.page().decode())
        return f'<iframe srcdoc="{inside}" style="width: 100%; height: 36em; border: 0"></iframe>'


def _told(run: Run, row: int) -> str:
    """The loss and the first error of a row in words."""
    reading = run.readings[row]
    if reading is None:
        return "not scored: add --language or --gap"
    if run.joint and reading.impossible is None:
        if run.model is None:
            return "possible"
        return "drawn together: no loss of independent draws"
    lost = f"{round(reading.lost, 2) + 0.0:.2f} nats lost"
    if run.model is not None:
        return f"{lost}, by {run.model.name} itself"
    if reading.impossible is None:
        return f"possible, {lost}"
    repaired = ""
    if reading.lost < math.inf:
        repaired = f" (repaired later, {lost})"
    return f"impossible from step {run.steps[row][reading.impossible].number} on{repaired}: {reading.why}"


def play(
    source: LanguageLike | Denoiser,
    sampler: str = "ancestral",
    against: str | None = None,
    *,
    language: Language | None = None,
    steps: int = STEPS,
    rows: int = ROWS,
    gap: bool = False,
    row: int | None = None,
    most: int = SHOWN,
    symbols: Symbols | None = None,
    **how: Any,
) -> Player:
    """Generate sequences and show one of them step by step, with its first error; beside it a second sampler or draw.

    source: a language, whose ideal denoiser is used, or a denoiser; or the spec, file or directory of either.
    language: checks the sequences. (default: the source's own) gap: arcs and losses by the denoiser's own conditionals.
    row: the first sequence to show. (default: an impossible one) most: sequences of the page. symbols: texts of tokens.
    how: as in `generate`.
    """
    if isinstance(source, str | Path):
        source = load(source)
    denoiser = as_denoiser(source)
    known = language or denoiser.language
    if symbols is None and known is not None:
        symbols = known.names

    sides = [how | {"sampler": sampler}]
    if against is not None:
        sides.append(how | _beside(sampler, against))

    traces, joint = dict[str, Trace](), set[str]()
    for side in sides:
        generation = generate(denoiser, steps=steps, rows=rows, trace=True, **side)
        taken = plural(int(generation.order.max()), "step")
        if side.get("draw", "product") == "product":
            title = f"{side['sampler']}, {taken}"
        else:
            title = f"{side['sampler']} + {side['draw']}, {taken}"
            joint.add(title)
        traces[title] = generation.trace(symbols=symbols)

    if not gap:
        return chosen(traces, known, row, most, joint=joint)
    usual: dict[str, Any] = {"temperature": 1.0, "top_p": 1.0, "top_k": None, "guidance": 0.0}
    judge = reshaped(denoiser, **usual | picked(how, usual))
    return chosen(traces, None, row, most, judge, joint)


def _beside(sampler: str, against: str) -> dict[str, Any]:
    """The options of a second run: another sampler, or a joint draw of the same."""
    if against.partition("(")[0] in DRAWS.names():
        return {"sampler": sampler, "draw": against}
    return {"sampler": against}


def chosen(
    traces: Mapping[str, Trace],
    language: Language | None,
    begin: int | None = None,
    most: int = SHOWN,
    model: Denoiser | None = None,
    joint: Collection[str] = (),
) -> Player:
    """The first rows of these traces by name, with the one to begin with (default: an impossible one).

    model: its own conditionals give arcs and losses, instead of the language. joint: names of joint draws."""
    rows = min(map(len, column(traces.values(), "rows")))
    row, counts = 0, None
    if language is not None:
        wrong = [impossible(language, trace) for trace in traces.values()]
        row, counts = telling(wrong), list(map(sum, wrong))
    if begin is not None:
        row = arguments.whole("row", begin, 0, rows - 1)

    numbers = list(range(min(rows, most)))
    if row not in numbers:
        numbers[-1] = row
    runs = [Run(name, one.of(numbers), language, model, tuple(numbers), name in joint) for name, one in traces.items()]

    check(runs)
    return Player(runs, numbers.index(row), rows, counts)


def page(runs: Sequence[Run], title: str = "unmask play", made_by: str = "", row: int | None = None) -> bytes:
    """A self-contained page with one player.

    made_by: the command that created it. row: the first sequence to show, at its first error (default: the first
    impossible one).
    """
    check(runs)
    if row is None:
        row = telling(column(runs, "wrong"))
    parts = {"player": embedded(runs, row), "assets": assets(), "command": created(made_by)}
    content = Template(_part("alone.html")).substitute(parts, title=html.escape(title))
    return content.encode(errors="backslashreplace")  # an argument of the command may not be text


def created(made_by: str) -> str:
    """The command that created a page, if it is known."""
    if not made_by:
        return ""
    return f"<p class='note'>Created with <code>{html.escape(made_by)}</code></p>"


def embedded(runs: Sequence[Run], opens: int) -> str:
    """The player as a part of a page. opens: the first sequence to show."""
    data = json.dumps({"open": opens, "runs": list(map(Run.plain, runs))}, separators=(",", ":"), allow_nan=False)
    return Template(_part("player.html")).substitute(
        title=html.escape(" and ".join(map(cut, column(runs, "name")))),
        final="\n".join(f"<p>{html.escape(run.name)}: {html.escape(_final(run, opens))}</p>" for run in runs),
        data=data.replace("<", "\\u003c"),  # no token ends or begins a script
    )


def assets() -> str:
    """The style and the script of players, once for a page."""
    return f"<style>\n{_part('player.css')}</style>\n<script>\n{_part('player.js')}</script>"


def _final(run: Run, row: int) -> str:
    recorded = run.trace.rows[row]
    symbols = ["_"] * recorded.length
    for position, token in recorded.final.items():
        symbols[position] = run.trace.symbol(token)

    if max(map(len, symbols)) > 2:  # pieces of text
        return "".join(symbols)
    return " ".join(symbols)


@cache
def _part(name: str) -> str:
    return files("unmask.report").joinpath(name).read_text("utf-8")
