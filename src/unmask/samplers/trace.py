"""A trace: the tokens written in each step and their probabilities, for each row. A file format.

    {"format": "unmask-trace", "version": 1, "vocabulary": 8, "rows": [
       {"length": 4, "given": [[0, 3]], "events": [[1, 2, 5, 0.25], [2, 1, 0, 0.5], [2, 3, 7, 1.0]]}]}

An event is [step, position, token, probability]: steps count from 1 and never decrease, positions and tokens count from
0, and the probability is that of the draw, above 0; null if it is unknown. [step, position, null, null] hides a
position again. Replacing a token takes both in one step: first hide, then reveal. So only hidden positions are
revealed, and only revealed ones are hidden.

`symbols` has the text of tokens: a list of V texts, or {"token": text} for some. `sampler` and `source` name the
origin; other keys are dropped.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Annotated, Any, Final, Literal, NamedTuple

import msgspec

from unmask.core import arguments
from unmask.core.errors import UnmaskError, cut, shown
from unmask.core.files import atomic
from unmask.core.reading import fit, from_json, read_text

FORMAT: Final = "unmask-trace"
VERSION = 1
MOST = 2**24  # bytes of a file
MOST_ROWS, LONGEST = 2**12, 2**16  # rows, and positions of one
MOST_PLACES, MOST_LOOKS = 2**22, 2**23  # positions of all rows, and steps times positions of one
MOST_SYMBOLS = 256  # up to this number a file lists all symbols
LETTERS = "abcdefghijklmnopqrstuvwxyz"  # texts of tokens without names, for at most 26 symbols
DIGITS = 9  # of a probability, in a file

Whole = Annotated[int, msgspec.Meta(ge=0)]
Counted = Annotated[int, msgspec.Meta(ge=1)]
Event = tuple[Counted, Whole, Whole | None, float | None]  # step, position, token, its probability
Symbols = Sequence[str] | Callable[[int], str]


class Step(NamedTuple):
    """The changes of one step to a row."""

    number: int
    revealed: tuple[int, ...]  # positions, in the order of their events
    hidden: tuple[int, ...]  # positions that are hidden or replaced
    context: dict[int, int]  # position: token, given which its tokens were drawn: without replaced ones
    after: dict[int, tuple[int, float]]  # position: token and probability (1 if given or unknown) after the step


class Row(msgspec.Struct, frozen=True):
    """One row: its given tokens, and its events."""

    length: Annotated[int, msgspec.Meta(ge=1, le=LONGEST)]
    events: list[Event]
    given: list[tuple[Whole, Whole]] = []

    def steps(self) -> Iterator[Step]:
        """The steps that changed the row."""
        tokens = {position: (token, 1.0) for position, token in self.given}
        for number, group in groupby(self.events, lambda event: event[0]):
            events = list(group)
            before = dict(tokens)
            for _, position, token, probability in events:
                if token is None:
                    del tokens[position]
                else:
                    tokens[position] = token, 1.0 if probability is None else probability

            revealed = tuple(position for _, position, token, _ in events if token is not None)
            hidden = tuple(position for _, position, token, _ in events if token is None)
            context = {position: token for position, (token, _) in before.items() if position not in revealed}
            yield Step(number, revealed, hidden, context, dict(tokens))

    @property
    def final(self) -> dict[int, int]:
        """Position: token, after the last step."""
        tokens: dict[int, int | None] = dict(self.given)
        tokens |= {position: token for _, position, token, _ in self.events}
        return {position: token for position, token in tokens.items() if token is not None}


class Trace(msgspec.Struct, frozen=True, kw_only=True):
    """The traces of some rows."""

    format: Literal["unmask-trace"] = FORMAT
    version: Counted = VERSION
    vocabulary: Counted
    rows: Annotated[list[Row], msgspec.Meta(min_length=1, max_length=MOST_ROWS)]
    symbols: list[str] | dict[str, str] | None = None
    sampler: str | None = None
    source: dict[str, Any] | None = None

    def __repr__(self) -> str:
        sampler = self.sampler or "an unknown sampler"
        return f"<Trace of {len(self.rows)} rows over {self.vocabulary} symbols, by {sampler}>"

    def of(self, rows: Sequence[int]) -> Trace:
        """The trace of only these rows."""
        return msgspec.structs.replace(self, rows=list(map(self.rows.__getitem__, rows)))

    @property
    def likely(self) -> bool:
        """Whether the probability of each token is known."""
        return all(p is not None for row in self.rows for _, _, token, p in row.events if token is not None)

    def check_likely(self) -> None:
        """Raise an error unless the probability of each token is known."""
        if not self.likely:
            raise UnmaskError(
                "the trace has no probabilities, as a stream of texts or tokens",
                "expected one for each token",
                "Leave out the language or model",
            )

    def bare(self) -> Trace:
        """The same trace without probabilities."""
        rows = [msgspec.structs.replace(row, events=[(*event[:3], None) for event in row.events]) for row in self.rows]
        return msgspec.structs.replace(self, rows=rows)

    def symbol(self, token: int) -> str:
        """The text of a token; if it has no name, a letter for up to 26 symbols, otherwise its number."""
        if isinstance(self.symbols, Mapping):
            return self.symbols.get(str(token), str(token))
        if self.symbols is not None:
            return self.symbols[token]
        return LETTERS[token] if self.vocabulary <= len(LETTERS) else str(token)

    def write(self, path: str | Path) -> None:
        """Write JSON, for `read`."""
        content = {name: value for name, value in msgspec.to_builtins(self).items() if value is not None}
        rows = content.pop("rows")
        for row in rows:
            row["events"] = [(*event, p if p is None else float(f"{p:.{DIGITS}g}")) for *event, p in row["events"]]
        head = json.dumps(content, allow_nan=False)
        lines = ",\n".join(json.dumps(row, separators=(",", ":"), allow_nan=False) for row in rows)
        with atomic(arguments.path("path", path)) as file:
            file.write(f'{head[:-1]}, "rows": [\n{lines}\n]}}\n'.encode())


def read(path: str | Path) -> Trace:
    """Read a trace from a file; errors name the faulty entry."""
    where = str(path)
    content = from_json(read_text(path, MOST), where=where)
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise UnmaskError(f'{cut(where)} is not a trace; expected "format": "{FORMAT}" (docs/player.md)')

    version = content.get("version")
    if isinstance(version, int) and version > VERSION:
        raise UnmaskError(f"{cut(where)} is a trace of version {version}; expected at most {VERSION}. Update unmask.")

    trace = fit(content, Trace, where)
    check(trace, where)
    return trace


def check(trace: Trace, where: str = "the trace") -> None:
    """Raise an error unless these events can happen in this order; `where` names the trace in messages."""
    if isinstance(trace.symbols, list) and len(trace.symbols) != trace.vocabulary:
        _refuse(where, "symbols", f"there are {len(trace.symbols)}; expected {trace.vocabulary}, one per token")
    if (places := sum(row.length for row in trace.rows)) > MOST_PLACES:
        _refuse(where, "rows", f"{places:,} positions in all; expected at most {MOST_PLACES:,}. Use fewer rows.")

    for number, row in enumerate(trace.rows):
        _check_row(trace, row, where, f"row {number}")


def _check_row(trace: Trace, row: Row, where: str, name: str) -> None:
    """Play the events of a row, and raise an error at the first that cannot happen."""
    if (looks := row.length * len({event[0] for event in row.events})) > MOST_LOOKS:
        problem = f"{looks:,} steps times positions; expected at most {MOST_LOOKS:,}. Shorten the row."
        _refuse(where, name, problem)

    shown_now: set[int] = set()
    for at, (position, token) in enumerate(row.given):
        entry = f"{name}, given {at}"
        _check_entry(trace, row, where, entry, position, token)
        if position in shown_now:
            _refuse(where, entry, f"position {position} is given twice")
        shown_now.add(position)

    given = frozenset(shown_now)
    last = 1
    for at, (turn, position, new, probability) in enumerate(row.events):
        entry = f"{name}, event {at}"
        if turn < last:
            _refuse(where, entry, f"step {turn} comes after step {last}; expected events in the order of steps")
        _check_entry(trace, row, where, entry, position, new)
        last = turn

        if new is None:
            if position in given or position not in shown_now:
                problem = "was given" if position in given else "is hidden already"
                _refuse(where, entry, f"step {turn} hides position {position}, which {problem}")
            shown_now.discard(position)
            continue

        if position in shown_now:
            problem = f"step {turn} reveals position {position}, which is not hidden"
            _refuse(where, entry, f"{problem}. To replace a token, hide it first: [{turn}, {position}, null, null]")
        if probability is not None and not 0 < probability <= 1:
            _refuse(where, entry, f"the probability is {shown(probability)}; expected a number above 0, at most 1")
        shown_now.add(position)


def _check_entry(trace: Trace, row: Row, where: str, entry: str, position: int, token: int | None) -> None:
    if position >= row.length:
        _refuse(where, entry, f"position is {position}; expected 0 to {row.length - 1}, a position of this row")
    if token is not None and token >= trace.vocabulary:
        _refuse(where, entry, f"token is {token}; expected 0 to {trace.vocabulary - 1}, or null to hide it again")


def _refuse(where: str, entry: str, problem: str) -> None:
    raise UnmaskError(f"{cut(where)}, {entry}: {problem}")
