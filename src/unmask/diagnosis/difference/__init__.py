"""The difference of two traces: where it begins, the steps that are equal before, its cause, and its cost.

    found = unmask.difference(trace_a, trace_b)
    print(found.verdict)

Row r of both traces must begin with the same given tokens. Causes need evidence in the traces (causes.py); with the
model at hand, `cost` is the loss of its log-probability, and temperatures are fitted (replay.py).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from dataclasses import asdict, dataclass
from typing import Any

from unmask.denoisers import Denoiser
from unmask.diagnosis.difference.causes import EPSILON, Cause, Evidence, named, ulps
from unmask.diagnosis.difference.replay import Cost, cost_of, refitted
from unmask.diagnosis.difference.rows import Compared, compared
from unmask.generation.trace import Trace

MOST = 1000  # ulp; larger differences are shown in another dtype only

__all__ = ["Cause", "Cost", "Difference", "difference"]


@dataclass(frozen=True)
class Difference:
    """The comparison of traces A and B."""

    rows: int
    steps: int  # of the longest row
    tokens: int  # pairs of equal tokens, drawn from equal contexts
    differing: int  # rows that differ
    split: int  # rows that differ in positions or tokens
    kinds: dict[str, int]  # rows whose first difference is in positions, tokens or probabilities
    first: dict[str, Any] | None  # the row, the step, the kind, and the entries of A and B
    before: dict[str, int]  # steps and tokens of that row that are equal before
    probabilities: dict[str, Any]  # the number of pairs that differ, and by how much
    cause: Cause | None
    cost: Cost | None

    @property
    def equal(self) -> bool:
        return self.differing == 0

    @property
    def verdict(self) -> str:
        if self.equal:
            return f"equal: {self.rows} rows, {self.tokens} tokens, all with the same step, token and probability"
        name = "unexplained" if self.cause is None else self.cause.name
        alike = "" if self.split else "; all positions and tokens are equal"
        return f"different: {name}{alike}"

    def lines(self) -> list[tuple[str, str]]:
        """The evidence for a reader."""
        lines = [("verdict", self.verdict)]
        if self.first is None:
            return lines
        if self.cause is not None:
            lines.append(("because", self.cause.text))
        where = f"row {self.first['row']}, step {self.first['step']}, in {self.first['kind']}"
        lines.append(("first difference", f"{where}: A {self.first['a']}; B {self.first['b']}"))
        lines.append(("equal before", f"{self.before['steps']} steps and {self.before['tokens']} tokens of that row"))
        kinds = ", ".join(f"{number} in {kind}" for kind, number in self.kinds.items())
        text = f"{self.differing} of {self.rows} differ, first {kinds}"
        lines.append(("rows", f"{text}; {self.split} differ in positions or tokens"))
        if (about := self.probabilities)["differing"]:
            sizes = [f"{about[dtype]:.3g} ulp of {dtype}" for dtype in EPSILON if 0.1 <= about[dtype] < MOST]
            text = f"{about['differing']} of {self.tokens} differ{', by at most ' if sizes else ''}{' or '.join(sizes)}"
            lines.append(("probabilities", f"{text}; q / p is {about['least']:.6g} to {about['most']:.6g}"))
        if self.cost is not None:
            lines.append(("cost", self.cost.text))
        return lines

    def to_dict(self) -> dict[str, Any]:
        return {"equal": self.equal, "verdict": self.verdict} | asdict(self)


def difference(a: Trace, b: Trace, denoiser: Denoiser | None = None, ends: Collection[int] = ()) -> Difference:
    """Compare two traces of the same rows.

    denoiser: the model of both; it gives the cost of the difference, and the temperature of each trace.
    ends: end-of-text tokens. (default: found by their effect)
    """
    if not (a.likely and b.likely):
        a, b = a.bare(), b.bare()
    seen = Evidence(a, b, compared(a, b), ends)
    cause = named(seen)
    if denoiser is not None and seen.differing and (cause is None or cause.name == "temperature"):
        cause = refitted(seen, denoiser) or cause
    first = min(seen.differing, key=lambda row: row.first, default=None)
    ratios = [pair.q / pair.p for pair in seen.doubts]
    sizes = {dtype: max((ulps(pair, dtype) for pair in seen.doubts), default=0.0) for dtype in EPSILON}
    return Difference(
        rows=len(seen.rows),
        steps=max((event[0] for row in a.rows for event in row.events), default=0),
        tokens=len(seen.pairs),
        differing=len(seen.differing),
        split=len(seen.splits),
        kinds=dict(Counter(row.first[1] for row in seen.differing)),
        first=None if first is None else _first(first, a, b),
        before={} if first is None else _before(first),
        probabilities={"differing": len(ratios), "least": min(ratios, default=1.0), "most": max(ratios, default=1.0)}
        | sizes,
        cause=cause,
        cost=None if denoiser is None or not seen.splits else cost_of(seen, denoiser),
    )


def _first(row: Compared, a: Trace, b: Trace) -> dict[str, Any]:
    """The first difference of a row, in words; positions count from 1, rows from 0."""
    step, kind = row.first
    if kind == "probabilities":
        assert row.doubtful is not None
        pair = row.doubtful
        texts = [f"draws {trace.symbol(pair.token)!r} at position {pair.position + 1}" for trace in (a, b)]
        texts = [f"{text} with p = {p:.9g}" for text, p in zip(texts, (pair.p, pair.q), strict=True)]
    else:
        assert row.split is not None
        texts = []
        for trace, entries in zip((a, b), row.split.only, strict=True):
            parts = [
                f"{trace.symbol(token)!r} at {at + 1} (p = {p:.6g})" for at, (token, p) in sorted(entries.items())[:3]
            ]
            more = f" and {len(entries) - 3} more" if len(entries) > 3 else ""
            texts.append(f"reveals {', '.join(parts)}{more}" if parts else "reveals nothing else")
    return {"row": row.number, "step": step, "kind": kind, "a": texts[0], "b": texts[1]}


def _before(row: Compared) -> dict[str, int]:
    step = row.first[0]
    steps = {event[0] for event in row.a.events if event[0] < step}
    return {"steps": len(steps), "tokens": sum(pair.step < step for pair in row.pairs)}
