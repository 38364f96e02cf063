"""A claim of the paper, and what measured records say of it: agrees, differs, or what it would take to say.

A claim holds what the paper says, in short and in our words, with its figure where it gives one. What we say stands
nowhere: `judge` makes it of records, each time that it is asked. An interval that holds both answers is no answer:
then more rows are needed, as weights or a GPU are elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from unmask.core.errors import UnmaskError, cut
from unmask.core.estimates import Estimate
from unmask.experiments.measures.catalogue import Record, find

Verdict = Literal["agrees", "differs", "needs"]
VERDICTS: tuple[Verdict, ...] = ("agrees", "differs", "needs")
FIELDS = tuple(Estimate.__dataclass_fields__)
DROPPED = ("key", "seconds", "code_digest", "digest", "language_digest", "text_digest")


LOOSE = ("measure", "evaluations", "rows", "device")  # in which records of one thing may differ


class Absent(Exception):
    """Records that a claim is about, and that have not been measured."""


@dataclass(frozen=True)
class Finding:
    """ours: what was measured, each number under a name; why: what the verdict comes from, in a sentence or two."""

    verdict: Verdict
    why: str
    ours: tuple[tuple[str, Estimate], ...] = ()

    def to_dict(self) -> dict[str, Any]:
        return {"verdict": self.verdict, "why": self.why, "ours": [{"name": n} | asdict(e) for n, e in self.ours]}


class Seen:
    """Records by what was asked: `one("ser", language="interval-5", steps=64)`."""

    def __init__(self, records: Sequence[Record]) -> None:
        self.records = [_whole(record) for record in records]

    def all(self, measure: str, **fields: Any) -> Iterator[Record]:
        wanted = fields | {"measure": measure}
        for record in self.records:
            if all(record.get(name) == value for name, value in wanted.items()):
                yield record

    def one(self, measure: str, **fields: Any) -> Estimate:
        """The estimate of the first record that is asked for; Absent where there is none."""
        return Estimate.of_record(self.record(measure, **fields))

    def record(self, measure: str, **fields: Any) -> Record:
        """The record that is asked for, of the most rows where several differ in that; Absent where there is none."""
        found = [record for record in self.all(measure, **fields) if record["value"] is not None]
        if not found:
            raise Absent(f"{measure} of " + ", ".join(f"{name} {value}" for name, value in fields.items()))
        for name in {name for record in found for name in record} - {*FIELDS, *LOOSE}:
            if len(values := {record.get(name) for record in found}) > 1:
                raise ValueError(f"{measure} of {fields} is there for several values of {name}: {values}")
        return max(found, key=lambda record: record.get("rows") or 0)

    def by(self, name: str, measure: str, **fields: Any) -> dict[Any, Estimate]:
        """Estimates by the value of another field, in its order; Absent where there is none."""
        values = {record[name] for record in self.all(measure, **fields)}
        if not values:
            raise Absent(f"{measure} by {name} of " + ", ".join(f"{n} {value}" for n, value in fields.items()))
        return {value: self.one(measure, **fields, **{name: value}) for value in sorted(values)}


def kept(row: Mapping[str, Any]) -> Record:
    """A row of a store without what stands there by default, and without its key: what a file keeps of it."""
    defaults = find(row["metric"]).parameters
    return {
        name: value
        for name, value in row.items()
        if name in FIELDS or (value is not None and name not in DROPPED and defaults.get(name, _NONE) != value)
    }


_NONE = object()


def _whole(record: Record) -> Record:
    metric = record.get("metric")
    defaults = find(metric).parameters if metric else {}
    plain = {name: value for name, value in defaults.items() if isinstance(value, str | int | float | bool | None)}
    return plain | record


Judge = Callable[[Seen], Finding]


@dataclass(frozen=True)
class Claim:
    """words: the paper's, in short; figure: its number, empty where it gives none; command: that makes ours."""

    name: str
    where: str
    words: str
    command: str
    judge: Judge
    figure: str = ""

    def finding(self, seen: Seen) -> Finding:
        try:
            return self.judge(seen)
        except Absent as missing:
            return Finding("needs", f"Not measured yet: {missing}.")
        except (ArithmeticError, ValueError, TypeError, LookupError) as error:  # a file of records may be anybody's
            what = cut(f"{type(error).__name__}: {error}")
            raise UnmaskError(f"{self.name} cannot be judged by these records: {what}; measure them again") from error


@dataclass(frozen=True)
class Size:
    """How much is measured: quick needs no weights and a quarter of an hour of two cores, full is the paper's."""

    full: bool = False
    device: str = "auto"

    @property
    def name(self) -> str:
        return "full" if self.full else "quick"


def part(*metrics: str, **axes: Any) -> dict[str, Any]:
    """A part of a recipe: every combination of the values in lists, the others fixed; rows are those of a cell."""
    rows = {"rows": axes.pop("rows")} if "rows" in axes else {}
    grid = {name: list(value) for name, value in axes.items() if isinstance(value, list | tuple)}
    fixed = {name: value for name, value in axes.items() if name not in grid}
    return {"metrics": list(metrics), "grid": grid, "fixed": fixed} | rows


@dataclass(frozen=True)
class Item:
    """A figure, a table or a theorem: the cells that it needs (parts of a recipe), and what is claimed there."""

    name: str
    about: str
    cells: Callable[[Size], list[dict[str, Any]]]
    claims: dict[str, Claim] = field(default_factory=dict)

    def claim(self, name: str, where: str, words: str, command: str, figure: str = "") -> Callable[[Judge], Judge]:
        """Registers a function of what was seen."""

        def add(judge: Judge) -> Judge:
            full = f"{self.name}.{name}"
            assert full not in self.claims
            self.claims[full] = Claim(full, where, words, command, judge, figure)
            return judge

        return add


def judged(test: bool | None, ours: Sequence[tuple[str, Estimate]], why: str, otherwise: str) -> Finding:
    """Agrees for one reason, differs for another; None: an interval holds both."""
    if test is None:
        return Finding("needs", "More rows: an interval holds both answers.", tuple(ours))
    return Finding("agrees", why, tuple(ours)) if test else Finding("differs", otherwise, tuple(ours))


def at_most(estimate: Estimate, limit: float) -> bool | None:
    """Whether all of the interval is, or none of it; None where it holds both."""
    return True if estimate.high <= limit else False if estimate.low > limit else None


def at_least(estimate: Estimate, limit: float) -> bool | None:
    return True if estimate.low >= limit else False if estimate.high < limit else None


def all_of(*tests: bool | None) -> bool | None:
    return False if False in tests else None if None in tests else True


def negated(test: bool | None) -> bool | None:
    return None if test is None else not test


def number(value: float, of: Estimate | None = None) -> Estimate:
    """What follows from others by arithmetic, with no interval of its own unless one is given."""
    low, high, n = (value, value, 0) if of is None else (of.low, of.high, of.n)
    return Estimate(float(value), float(low), float(high), n, 1.0 if of is None else of.level, "computed")
