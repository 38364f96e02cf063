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
from operator import attrgetter, itemgetter
from typing import Any, NamedTuple

from unmask.core.entries import column, present
from unmask.core.errors import UnmaskError
from unmask.samplers.trace import Row, Step, Trace

Entries = dict[int, tuple[int, float]]  # position: token and its probability, as a step revealed them
Split = tuple[int, Entries, Entries]  # the first step that differs in positions or tokens, and who has what
IDLE = Step(0, (), (), {}, {})  # in place of a step in which a row does not change

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
    split: Split | None
    steps: list[int]  # in which the row changed

    @property
    def first(self) -> tuple[int, str] | None:
        """The first step that differs, and whether in positions, tokens or probabilities."""
        doubt = next((pair.step for pair in self.pairs if pair.differs), math.inf)
        if self.split is not None and self.split[0] <= doubt:
            return self.split[0], "tokens" if self.split[1].keys() == self.split[2].keys() else "positions"
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
        raise UnmaskError(f"A has {a.vocabulary} symbols, B has {b.vocabulary}", "expected traces of one vocabulary")
    if len(a.rows) != len(b.rows):
        raise UnmaskError(
            f"A has {len(a.rows)} rows, B has {len(b.rows)}",
            "expected the same rows. Choose one row of each with --row",
        )

    rows = [_compared(number, *pair) for number, pair in enumerate(zip(a.rows, b.rows, strict=True))]
    differing = [(row.first, row) for row in rows if row.first is not None]
    splits: list[Split] = present(column(rows, "split"))
    pairs = [pair for row in rows for pair in row.pairs]
    doubts = list(filter(attrgetter("differs"), pairs))

    rounding = ulps = None
    if doubts and _by_rounding(splits, doubts, len(pairs), _greedy(a, b)):
        rounding, ulps = "float32", max(map(attrgetter("ulps"), doubts))

    first, before = None, {}
    if differing:
        (step, kind), row = min(differing, key=itemgetter(0))
        first = _first(row, step, kind, a, b)
        before = {"steps": sum(one < step for one in row.steps), "tokens": sum(one.step < step for one in row.pairs)}

    return Difference(
        rows=len(rows),
        tokens=len(pairs),
        differing=len(differing),
        split=len(splits),
        kinds=dict(Counter(kind for (_, kind), _ in differing)),
        first=first,
        before=before,
        probabilities=len(doubts),
        log_ratio=max(map(_log_ratio, doubts), default=0.0) if likely else None,
        rounding=rounding,
        ulps=ulps,
    )


def _by_rounding(splits: Sequence[Split], doubts: Sequence[Pair], pairs: int, greedy: bool) -> bool:
    """Whether the rounding of float32 explains all differences, among this number of pairs."""
    if max(map(attrgetter("ulps"), doubts)) > ULPS:
        return False
    scale = max(max(map(_log_ratio, doubts)), 4 * EPSILON)
    flips = sum(not _near(split, 2 * scale) for split in splits)
    return not flips or not (greedy or flips > 3 + 3 * scale * pairs)


def _log_ratio(pair: Pair) -> float:
    return abs(math.log(pair.q) - math.log(pair.p))


def _near(split: Split, most: float) -> bool:
    """Whether the different choices of the step have probabilities this close, in nats."""
    ours, theirs = map(_logs, split[1:])
    if not ours or len(ours) != len(theirs):
        return False
    return max(ours[-1] - theirs[0], theirs[-1] - ours[0]) <= most


def _logs(entries: Entries) -> list[float]:
    return sorted(math.log(p) for _, p in entries.values())


def _greedy(a: Trace, b: Trace) -> bool:
    """Whether no token is less likely than 1 / V, as where each is the most likely one of its position."""
    drawn = [p for trace in (a, b) for row in trace.rows for *_, p in row.events if p is not None]
    return len(drawn) >= GREEDY and min(drawn) >= (1 - 1e-6) / a.vocabulary


def _compared(number: int, a: Row, b: Row) -> Compared:
    shorter = min(a.length, b.length)
    if a.length != b.length and not _cut(a, b):
        raise UnmaskError(
            f"row {number} has {a.length} positions in A, {b.length} in B", "expected rows of the same length"
        )

    given = dict(a.given), dict(b.given)
    wrong = [at for at in range(shorter) if given[0].get(at) != given[1].get(at)]
    if wrong:
        texts = [f"token {one[wrong[0]]}" if wrong[0] in one else "no token" for one in given]
        raise UnmaskError(
            f"row {number} has given {texts[0]} at position {wrong[0] + 1} in A, {texts[1]} in B",
            "expected the same given tokens",
        )

    # up to the first split both contexts are equal, so tokens can be compared
    steps = _by_number(a), _by_number(b)
    numbers = sorted(steps[0].keys() | steps[1].keys())
    pairs: list[Pair] = []
    for turn in numbers:
        one, other = steps[0].get(turn, IDLE), steps[1].get(turn, IDLE)
        ours, theirs = _entries(one), _entries(other)
        for at in sorted(ours.keys() & theirs.keys()):
            if ours[at][0] == theirs[at][0]:
                pairs.append(Pair(turn, at, *ours.pop(at), theirs.pop(at)[1]))

        if ours or theirs or set(one.hidden) != set(other.hidden):
            return Compared(number, pairs, (turn, ours, theirs), numbers)
    return Compared(number, pairs, None, numbers)


def _by_number(row: Row) -> dict[int, Step]:
    return {step.number: step for step in row.steps()}


def _entries(step: Step) -> Entries:
    """Position: token and probability, of the tokens that a step revealed and kept."""
    return {at: step.after[at] for at in step.revealed if at in step.after}


def _cut(a: Row, b: Row) -> bool:
    """Whether the shorter row is complete and has the tokens of the longer one, as a row that ended earlier."""
    short, long = sorted((a, b), key=attrgetter("length"))
    ours, theirs = short.final, long.final
    return len(ours) == short.length and all(theirs.get(at) == token for at, token in ours.items())


def _first(row: Compared, step: int, kind: str, a: Trace, b: Trace) -> dict[str, Any]:
    """The first difference of a row, in words; positions count from 1, rows from 0."""
    if kind == "probabilities":
        pair = next(filter(attrgetter("differs"), row.pairs))
        draws = f"at position {pair.position + 1} with p ="
        texts = [f"draws {trace.symbol(pair.token)!r} {draws} {p:.9g}" for trace, p in ((a, pair.p), (b, pair.q))]
    else:
        assert row.split is not None
        texts = [_revealed(a, row.split[1]), _revealed(b, row.split[2])]
    return {"row": row.number, "step": step, "kind": kind, "a": texts[0], "b": texts[1]}


def _revealed(trace: Trace, entries: Entries) -> str:
    """The first tokens that a step reveals, in words."""
    if not entries:
        return "reveals nothing else"
    parts = [f"{trace.symbol(token)!r} at {at + 1} (p = {p:.6g})" for at, (token, p) in sorted(entries.items())]
    more = f" and {len(parts) - 3} more" if len(parts) > 3 else ""
    return f"reveals {', '.join(parts[:3])}{more}"
