"""The difference of two traces: where it begins, how large it is, and whether the rounding of float32 explains it.

    found = unmask.difference(trace_a, trace_b)
    print(found.verdict)

Row r of both traces must begin with the same given tokens. Both contexts are equal until positions or tokens differ, so
only tokens up to that step can be compared:

    pair     a token that both revealed at one position in one step, with its probability p in A and q in B
    split    the first step of a row in which positions or tokens differ

Rounding explains a difference if each pair differs by a few ulp of float32, the spacing of its numbers, and rows split
only where the probabilities are as close as that.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

from unmask.core.errors import UnmaskError
from unmask.samplers.trace import Row, Step, Trace

Entries = dict[int, tuple[int, float]]  # position: token and its probability, as a step revealed them

SAME = 1e-8  # relative; a file keeps nine digits of a probability
EPSILON = 2.0**-23  # ulp of a probability in [1, 2)
SMALLEST = -126  # exponent of the smallest normal float32; below it the spacing is constant
ULPS = 256  # largest difference of two computations that only round
GREEDY = 30  # tokens; with fewer, traces are not known to be greedy


class Pair(NamedTuple):
    """One token of both traces, drawn from the same context."""

    step: int
    position: int
    token: int
    p: float  # in A
    q: float  # in B

    @property
    def differs(self) -> bool:
        return abs(self.p - self.q) > SAME * max(self.p, self.q)

    @property
    def ulps(self) -> float:
        """|p - q| in ulp at the larger probability."""
        exponent = max(math.floor(math.log2(max(self.p, self.q))), SMALLEST)
        return abs(self.p - self.q) / (EPSILON * 2.0**exponent)


class Compared(NamedTuple):
    """One row of both traces."""

    number: int
    pairs: list[Pair]
    split: tuple[int, Entries, Entries] | None  # the first step that differs in positions or tokens, and who has what
    alike: bool  # whether the split has the same positions
    steps: list[int]  # in which the row changed

    @property
    def first(self) -> tuple[int, str] | None:
        """The first step that differs, and whether in positions, tokens or probabilities."""
        doubt = next((pair.step for pair in self.pairs if pair.differs), math.inf)
        if self.split is not None and self.split[0] <= doubt:
            return self.split[0], "tokens" if self.alike else "positions"
        return None if math.isinf(doubt) else (int(doubt), "probabilities")


@dataclass(frozen=True)
class Difference:
    """The comparison of traces A and B."""

    rows: int
    tokens: int  # pairs of equal tokens, drawn from equal contexts
    differing: int  # rows that differ
    split: int  # rows that differ in positions or tokens
    kinds: dict[str, int]  # rows whose first difference is in positions, tokens or probabilities
    first: dict[str, Any] | None  # the row, the step, the kind, and the entries of A and B
    before: dict[str, int]  # steps and tokens of that row that are equal before
    probabilities: int  # pairs whose probabilities differ
    log_ratio: float | None  # the largest |log q - log p| of these pairs, in nats; None without probabilities
    rounding: str | None  # "float32" if its rounding explains the difference
    ulps: float | None  # the largest difference in ulp of it

    @property
    def equal(self) -> bool:
        return self.differing == 0

    @property
    def verdict(self) -> str:
        if self.equal:
            return f"equal: {self.rows} rows, {self.tokens} tokens, all with the same step, token and probability"
        alike = "" if self.split else "; all positions and tokens are equal"
        if self.log_ratio is None:
            return f"different{alike}"
        if self.rounding is None:
            return f"different, by more than float32 rounds{alike}"
        return f"different by rounding: at most {self.ulps:.2g} ulp of float32{alike}"

    def lines(self) -> list[tuple[str, str]]:
        """The evidence for a reader."""
        if self.first is None:
            return [("verdict", self.verdict)]
        where = f"row {self.first['row']}, step {self.first['step']}, in {self.first['kind']}"
        kinds = ", ".join(f"{number} in {kind}" for kind, number in self.kinds.items())
        rows = f"{self.differing} of {self.rows} differ, first {kinds}"

        lines = [
            ("verdict", self.verdict),
            ("first difference", f"{where}: A {self.first['a']}; B {self.first['b']}"),
            ("equal before", f"{self.before['steps']} steps and {self.before['tokens']} tokens of that row"),
            ("rows", f"{rows}; {self.split} differ in positions or tokens"),
        ]

        if self.probabilities:
            text = f"{self.probabilities} of {self.tokens} differ; the largest log ratio is {self.log_ratio:.4g} nats"
            lines.append(("probabilities", text))
        return lines

    def to_dict(self) -> dict[str, Any]:
        return {"equal": self.equal, "verdict": self.verdict} | asdict(self)


def difference(a: Trace, b: Trace) -> Difference:
    """Compare two traces of the same rows."""
    likely = a.likely and b.likely
    if not likely:
        a, b = a.bare(), b.bare()

    if a.vocabulary != b.vocabulary:
        _refuse(f"A has {a.vocabulary} symbols, B has {b.vocabulary}", "traces of one vocabulary")
    if len(a.rows) != len(b.rows):
        _refuse(f"A has {len(a.rows)} rows, B has {len(b.rows)}", "the same rows. Choose one row of each with --row")

    rows = [_compared(number, *pair) for number, pair in enumerate(zip(a.rows, b.rows, strict=True))]
    differing = [(row.first, row) for row in rows if row.first is not None]
    doubts = [pair for row in rows for pair in row.pairs if pair.differs]
    rounded = bool(doubts) and _by_rounding(a, b, rows, doubts)

    first, before = None, {}
    if differing:
        (step, _), row = min(differing, key=lambda one: one[0])
        first = _first(row, a, b)
        before = {"steps": sum(one < step for one in row.steps), "tokens": sum(one.step < step for one in row.pairs)}

    return Difference(
        rows=len(rows),
        tokens=sum(len(row.pairs) for row in rows),
        differing=len(differing),
        split=sum(row.split is not None for row in rows),
        kinds=dict(Counter(kind for (_, kind), _ in differing)),
        first=first,
        before=before,
        probabilities=len(doubts),
        log_ratio=max(map(_log_ratio, doubts), default=0.0) if likely else None,
        rounding="float32" if rounded else None,
        ulps=max(pair.ulps for pair in doubts) if rounded else None,
    )


def _by_rounding(a: Trace, b: Trace, rows: Sequence[Compared], doubts: Sequence[Pair]) -> bool:
    """Whether the rounding of float32 explains all differences."""
    if max(pair.ulps for pair in doubts) > ULPS:
        return False
    scale = max(max(map(_log_ratio, doubts)), 4 * EPSILON)
    flips = sum(not _near(row.split, 2 * scale) for row in rows if row.split is not None)
    pairs = sum(len(row.pairs) for row in rows)
    return not flips or not (_greedy(a, b) or flips > 3 + 3 * scale * pairs)


def _log_ratio(pair: Pair) -> float:
    return abs(math.log(pair.q) - math.log(pair.p))


def _near(split: tuple[int, Entries, Entries], most: float) -> bool:
    """Whether the different choices of the step have probabilities this close, in nats."""
    ours, theirs = ([math.log(p) for _, p in side.values()] for side in split[1:])
    if not ours or len(ours) != len(theirs):
        return False
    return max(abs(p - q) for p in ours for q in theirs) <= most


def _greedy(a: Trace, b: Trace) -> bool:
    """Whether no token is less likely than 1 / V, as where each is the most likely one of its position."""
    drawn = [p for trace in (a, b) for row in trace.rows for *_, p in row.events if p is not None]
    return len(drawn) >= GREEDY and min(drawn) >= (1 - 1e-6) / a.vocabulary


def _compared(number: int, a: Row, b: Row) -> Compared:
    shorter = min(a.length, b.length)
    if a.length != b.length and not _cut(a, b):
        _refuse(f"row {number} has {a.length} positions in A, {b.length} in B", "rows of the same length")

    given = [{at: token for at, token in row.given if at < shorter} for row in (a, b)]
    if given[0] != given[1]:
        at = min(at for at in given[0].keys() | given[1].keys() if given[0].get(at) != given[1].get(at))
        texts = [f"token {one[at]}" if at in one else "no token" for one in given]
        problem = f"row {number} has given {texts[0]} at position {at + 1} in A, {texts[1]} in B"
        _refuse(problem, "the same given tokens")

    # up to the first split both contexts are equal, so tokens can be compared
    steps = [{step.number: step for step in row.steps()} for row in (a, b)]
    numbers = sorted(steps[0].keys() | steps[1].keys())
    pairs: list[Pair] = []
    for turn in numbers:
        ours, theirs = (_entries(one.get(turn)) for one in steps)
        same = [at for at in sorted(ours.keys() & theirs.keys()) if ours[at][0] == theirs[at][0]]
        pairs += [Pair(turn, at, *ours[at], theirs[at][1]) for at in same]
        a_only, b_only = ({at: side[at] for at in side if at not in same} for side in (ours, theirs))
        hidden = [set(one[turn].hidden) if turn in one else set() for one in steps]

        if a_only or b_only or hidden[0] != hidden[1]:
            return Compared(number, pairs, (turn, a_only, b_only), ours.keys() == theirs.keys(), numbers)
    return Compared(number, pairs, None, False, numbers)


def _entries(step: Step | None) -> Entries:
    """Position: token and probability, of the tokens that a step revealed and kept."""
    return {} if step is None else {at: step.after[at] for at in step.revealed if at in step.after}


def _cut(a: Row, b: Row) -> bool:
    """Whether the shorter row is complete and has the tokens of the longer one, as a row that ended earlier."""
    short, long = (a, b) if a.length < b.length else (b, a)
    ours, theirs = short.final, long.final
    return len(ours) == short.length and all(theirs.get(at) == token for at, token in ours.items())


def _first(row: Compared, a: Trace, b: Trace) -> dict[str, Any]:
    """The first difference of a row, in words; positions count from 1, rows from 0."""
    assert row.first is not None
    step, kind = row.first
    if kind == "probabilities":
        pair = next(pair for pair in row.pairs if pair.differs)
        texts = [f"draws {trace.symbol(pair.token)!r} at position {pair.position + 1}" for trace in (a, b)]
        texts = [f"{text} with p = {p:.9g}" for text, p in zip(texts, (pair.p, pair.q), strict=True)]

    else:
        assert row.split is not None
        texts = []
        for trace, entries in zip((a, b), row.split[1:], strict=True):
            some = sorted(entries.items())[:3]
            parts = [f"{trace.symbol(token)!r} at {at + 1} (p = {p:.6g})" for at, (token, p) in some]
            more = f" and {len(entries) - 3} more" if len(entries) > 3 else ""
            texts.append(f"reveals {', '.join(parts)}{more}" if parts else "reveals nothing else")
    return {"row": row.number, "step": step, "kind": kind, "a": texts[0], "b": texts[1]}


def _refuse(problem: str, expected: str) -> None:
    raise UnmaskError(f"{problem}; expected {expected}")
