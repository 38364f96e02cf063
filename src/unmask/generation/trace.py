"""A trace: what was written when, and how likely it was, of rows on their way from masks to tokens. A format of files.

    {"format": "unmask-trace", "version": 1, "vocabulary": 8, "rows": [
       {"length": 4, "given": [[0, 3]], "events": [[1, 2, 5, 0.25], [2, 1, 0, 0.5], [2, 3, 7, 1.0]]}]}

An event is [round, position, token, probability]: rounds count from 1 and never go back, positions and tokens from 0,
and the probability is the one that the token was drawn with, above 0. [round, position, null, null] hides a position
again, and a token is written over by both, first hidden, then revealed, in one round. So a position is revealed while
it is hidden, and hidden while it is shown; what was given is neither. All tokens of a round are taken to be drawn from
what stood before it, without those that it writes over.

`symbols` says what tokens look like: a list of V texts, or {"token": text} of those that there are. `sampler` and
`source` name what made it; whatever else stands there is kept by nobody.
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
from unmask.core.reading import fit, read_json

FORMAT: Final = "unmask-trace"
VERSION = 1
MOST = 2**24  # bytes of a file
MOST_ROWS, LONGEST = 2**12, 2**16  # rows, and positions of one
MOST_PLACES, MOST_LOOKS = 2**22, 2**23  # positions of all rows, and rounds times positions of one
MOST_SYMBOLS = 256  # symbols up to which a file lists all of them
LETTERS = "abcdefghijklmnopqrstuvwxyz"  # what tokens without names look like, where there are no more of them
DIGITS = 9  # of a probability, in a file

Whole = Annotated[int, msgspec.Meta(ge=0)]
Counted = Annotated[int, msgspec.Meta(ge=1)]
Event = tuple[Counted, Whole, Whole | None, float | None]  # round, position, token, its probability
Symbols = Sequence[str] | Callable[[int], str]


class Round(NamedTuple):
    """What one round did to a row."""

    number: int
    revealed: tuple[int, ...]  # positions, in the order of their events
    hidden: tuple[int, ...]  # positions that it hid or wrote over
    stood: dict[int, int]  # position: token, of what its tokens were drawn from: without what it writes over
    after: dict[int, tuple[int, float]]  # position: token and probability, 1 if given, of what stands after it


class Row(msgspec.Struct, frozen=True):
    """One row: what it was given, and what was done to it."""

    length: Annotated[int, msgspec.Meta(ge=1, le=LONGEST)]
    events: list[Event]
    given: list[tuple[Whole, Whole]] = []

    def rounds(self) -> Iterator[Round]:
        """What each round did, of those that did anything."""
        stands = {position: (token, 1.0) for position, token in self.given}
        for number, group in groupby(self.events, lambda event: event[0]):
            events, before = list(group), dict(stands)
            for _, position, token, probability in events:
                if token is None or probability is None:
                    del stands[position]
                else:
                    stands[position] = token, probability
            revealed = tuple(position for _, position, token, _ in events if token is not None)
            hidden = tuple(position for _, position, token, _ in events if token is None)
            stood = {position: token for position, (token, _) in before.items() if position not in revealed}
            yield Round(number, revealed, hidden, stood, dict(stands))

    @property
    def final(self) -> dict[int, int]:
        """Position: token, of what stands in the end."""
        stands: dict[int, int | None] = dict(self.given)
        stands |= {position: token for _, position, token, _ in self.events}
        return {position: token for position, token in stands.items() if token is not None}


class Trace(msgspec.Struct, frozen=True, kw_only=True):
    """Rows on their way."""

    format: Literal["unmask-trace"] = FORMAT
    version: Counted = VERSION
    vocabulary: Counted
    rows: Annotated[list[Row], msgspec.Meta(min_length=1, max_length=MOST_ROWS)]
    symbols: list[str] | dict[str, str] | None = None
    sampler: str | None = None
    source: dict[str, Any] | None = None

    def __repr__(self) -> str:
        return (
            f"<Trace of {len(self.rows)} rows over {self.vocabulary} symbols, by {self.sampler or 'nobody says what'}>"
        )

    def of(self, rows: Sequence[int]) -> Trace:
        """The trace of these rows alone."""
        return msgspec.structs.replace(self, rows=[self.rows[row] for row in rows])

    def symbol(self, token: int) -> str:
        """What a token looks like; without a name a letter, where letters suffice, else its number."""
        if isinstance(self.symbols, Mapping):
            return self.symbols.get(str(token), str(token))
        if self.symbols is not None:
            return self.symbols[token]
        return LETTERS[token] if self.vocabulary <= len(LETTERS) else str(token)

    def write(self, path: str | Path) -> None:
        """As JSON; `read` reads it."""
        content = {name: value for name, value in msgspec.to_builtins(self).items() if value is not None}
        rows = content.pop("rows")
        for row in rows:
            row["events"] = [(*event, p if p is None else float(f"{p:.{DIGITS}g}")) for *event, p in row["events"]]
        head = json.dumps(content, allow_nan=False)
        lines = ",\n".join(json.dumps(row, separators=(",", ":"), allow_nan=False) for row in rows)
        with atomic(arguments.path("path", path)) as file:
            file.write(f'{head[:-1]}, "rows": [\n{lines}\n]}}\n'.encode())


def read(path: str | Path) -> Trace:
    """The trace of a file, or an error that says what in it is wrong."""
    content = read_json(path, most=MOST)
    where = str(path)
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise UnmaskError(f'{cut(where)} is no trace: it does not say "format": "{FORMAT}" (docs/player.md)')
    version = content.get("version")
    if isinstance(version, int) and version > VERSION:
        what = f"a trace of version {version}, and this unmask reads up to {VERSION}"
        raise UnmaskError(f"{cut(where)} is {what}; take a newer unmask")
    found: Trace = fit(content, Trace, where)
    check(found, where)
    return found


def check(trace: Trace, where: str = "the trace") -> None:
    """An error unless its events can have happened, in this order; `where` is what it calls the trace."""
    if isinstance(trace.symbols, list) and len(trace.symbols) != trace.vocabulary:
        _refuse(where, "symbols", f"{len(trace.symbols)} of them; expected {trace.vocabulary}, one a token")
    if (places := sum(row.length for row in trace.rows)) > MOST_PLACES:
        _refuse(where, "rows", f"{places:,} positions in all; expected at most {MOST_PLACES:,}: take fewer rows")
    for number, row in enumerate(trace.rows):
        if (looks := row.length * len({event[0] for event in row.events})) > MOST_LOOKS:
            what = f"{looks:,} rounds times positions; expected at most {MOST_LOOKS:,}: take its beginning"
            _refuse(where, f"row {number}", what)
        stands: set[int] = set()
        for at, (position, shows) in enumerate(row.given):
            place = f"row {number}, given {at}"
            _check_place(trace, row, where, place, position, shows)
            if position in stands:
                _refuse(where, place, f"position {position} is given twice")
            stands.add(position)
        given, last = frozenset(stands), 1
        for at, (turn, position, token, probability) in enumerate(row.events):
            place = f"row {number}, event {at}"
            if turn < last:
                _refuse(where, place, f"round {turn} comes after round {last}; write events in the order of rounds")
            _check_place(trace, row, where, place, position, token)
            last = turn
            if token is None:
                if position in given or position not in stands:
                    what = "was given" if position in given else "is hidden already"
                    _refuse(where, place, f"round {turn} hides position {position}, which {what}")
                stands.discard(position)
                continue
            if position in stands:
                what = f"round {turn} reveals position {position}, which is not hidden"
                _refuse(
                    where, place, f"{what}; one that is written over is hidden first: [{turn}, {position}, null, null]"
                )
            if probability is None or not 0 < probability <= 1:
                _refuse(where, place, f"the probability is {shown(probability)}; expected a number above 0, at most 1")
            stands.add(position)


def _check_place(trace: Trace, row: Row, where: str, place: str, position: int, token: int | None) -> None:
    if position >= row.length:
        _refuse(where, place, f"position {position} is not in 0..{row.length - 1}, the places of this row")
    if token is not None and token >= trace.vocabulary:
        _refuse(where, place, f"token {token} is not in 0..{trace.vocabulary - 1}; one that is hidden again is null")


def _refuse(where: str, place: str, what: str) -> None:
    raise UnmaskError(f"{cut(where)}, {place}: {what}")
