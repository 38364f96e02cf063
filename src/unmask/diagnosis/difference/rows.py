"""Two traces of the same rows, row by row: the tokens that both drew from one context, and the first step that differs.

Both contexts are equal until positions or tokens differ, so only tokens up to that step can be compared:

    pair     a token that both revealed at one position in one step, with its probability p in A and q in B
    split    the first step of a row in which positions or tokens differ
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from unmask.core.errors import UnmaskError
from unmask.generation.trace import Row, Step, Trace

SAME = 1e-8  # relative; a file keeps nine digits of a probability


class Pair(NamedTuple):
    """One token of both traces, drawn from the same context."""

    row: int
    step: int
    position: int
    token: int
    p: float  # in A
    q: float  # in B

    @property
    def differs(self) -> bool:
        return abs(self.p - self.q) > SAME * max(self.p, self.q)


class Split(NamedTuple):
    """The first step of a row in which positions or tokens differ; a side is empty if it changed nothing then."""

    row: int
    step: int
    a: dict[int, tuple[int, float]]  # position: token and its probability, as revealed in this step
    b: dict[int, tuple[int, float]]

    @property
    def kind(self) -> str:
        return "tokens" if self.a.keys() == self.b.keys() else "positions"

    @property
    def only(self) -> tuple[dict[int, tuple[int, float]], dict[int, tuple[int, float]]]:
        """The entries of A and of B that the other one does not have."""
        a = {at: entry for at, entry in self.a.items() if self.b.get(at, (-1, 0))[0] != entry[0]}
        b = {at: entry for at, entry in self.b.items() if self.a.get(at, (-1, 0))[0] != entry[0]}
        return a, b


@dataclass(frozen=True)
class Compared:
    """One row of both traces."""

    number: int
    a: Row
    b: Row
    pairs: tuple[Pair, ...]
    split: Split | None
    equal_steps: int  # number of steps before the split in which the row changed

    @cached_property
    def doubtful(self) -> Pair | None:
        """The first pair whose probabilities differ."""
        return next((pair for pair in self.pairs if pair.differs), None)

    @property
    def differs(self) -> bool:
        return self.split is not None or self.doubtful is not None

    @property
    def first(self) -> tuple[int, str]:
        """The first step that differs, and whether in positions, tokens or probabilities."""
        doubt, split = self.doubtful, self.split
        if split is not None and (doubt is None or split.step <= doubt.step):
            return split.step, split.kind
        assert doubt is not None
        return doubt.step, "probabilities"


def compared(a: Trace, b: Trace) -> list[Compared]:
    """Each row of both traces, after a check that they can be compared."""
    if a.vocabulary != b.vocabulary:
        _refuse(f"A has {a.vocabulary} symbols, B has {b.vocabulary}", "traces of one vocabulary")
    if len(a.rows) != len(b.rows):
        remedy = "the same rows. Choose one row of each with --row"
        _refuse(f"A has {len(a.rows)} rows, B has {len(b.rows)}", remedy)
    return [_compared(number, *rows) for number, rows in enumerate(zip(a.rows, b.rows, strict=True))]


def _compared(number: int, a: Row, b: Row) -> Compared:
    shorter = min(a.length, b.length)
    if a.length != b.length and not _cut(a, b):
        _refuse(f"row {number} has {a.length} positions in A, {b.length} in B", "rows of the same length")
    given = [{at: token for at, token in row.given if at < shorter} for row in (a, b)]
    if given[0] != given[1]:
        at = min(at for at in given[0].keys() | given[1].keys() if given[0].get(at) != given[1].get(at))
        texts = [f"token {one[at]}" if at in one else "no token" for one in given]
        _refuse(
            f"row {number} has given {texts[0]} at position {at + 1} in A, {texts[1]} in B", "the same given tokens"
        )
    steps = [{step.number: step for step in row.steps()} for row in (a, b)]
    pairs: list[Pair] = []
    numbers = sorted(steps[0].keys() | steps[1].keys())
    for before, turn in enumerate(numbers):
        ours, theirs = (_entries(one.get(turn)) for one in steps)
        for at in sorted(ours.keys() & theirs.keys()):
            (token, p), (other, q) = ours[at], theirs[at]
            if token == other:
                pairs.append(Pair(number, turn, at, token, p, q))
        hidden = [set(one[turn].hidden) if turn in one else set() for one in steps]
        if _tokens(ours) != _tokens(theirs) or hidden[0] != hidden[1]:
            return Compared(number, a, b, tuple(pairs), Split(number, turn, ours, theirs), before)
    return Compared(number, a, b, tuple(pairs), None, len(numbers))


def _entries(step: Step | None) -> dict[int, tuple[int, float]]:
    """Position: token and probability, of the tokens that a step revealed and kept."""
    return {} if step is None else {at: step.after[at] for at in step.revealed if at in step.after}


def _tokens(entries: dict[int, tuple[int, float]]) -> dict[int, int]:
    return {at: token for at, (token, _) in entries.items()}


def _cut(a: Row, b: Row) -> bool:
    """Whether the shorter row is complete and has the tokens of the longer one, as a row that ended earlier."""
    short, long = (a, b) if a.length < b.length else (b, a)
    ours, theirs = short.final, long.final
    return len(ours) == short.length and all(theirs.get(at) == token for at, token in ours.items())


def _refuse(problem: str, expected: str) -> None:
    raise UnmaskError(f"{problem}; expected {expected}")
