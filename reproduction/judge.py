"""A claim of the paper as data, and the judge that compares it with recorded measurements.

A claim lists the measured values that decide it and a test of them. `Values` compare by their whole intervals: `a <= b`
is True or False if every interval agrees, and None if an interval contains both answers. None is *not tested*.
Arithmetic on figures that the paper prints is *consistent*, not *agrees*: nothing was measured.

    claim("Figure 1", "SER is high at N = 64.",
          shown("SER of {language}, N = 64", "ser", language=["paper-2gram", "sparse-hmm"], steps=64),
          test=lambda ser: ser >= 0.1)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any, Literal, NamedTuple

from reproduction.records import JOBS, Absent, Record, Records
from unmask import Estimate, UnmaskError

Verdict = Literal["agrees", "differs", "consistent", "not tested"]
VERDICTS: tuple[Verdict, ...] = ("agrees", "differs", "consistent", "not tested")
Truth = bool | None
Test = Callable[..., Truth | tuple[Truth, ...]]  # all of a tuple must hold
Fields = Mapping[str, Any]
Measure = str | float | Callable[[Records, Fields], Estimate | float]
UNDECIDED = "The test needs more rows: an interval contains both answers."


@dataclass(frozen=True)
class Finding:
    """The verdict on a claim, the reason, and the measured values with their labels."""

    verdict: Verdict
    why: str
    ours: tuple[tuple[str, Estimate], ...] = ()


class Values:
    """Estimates by the value of the field that varies (a tuple of several); comparisons apply to all of them."""

    def __init__(self, by: Mapping[Any, Estimate], record: Record) -> None:
        self.by, self.record = by, record  # the last record, for the fields that all of them have in common

    def __getitem__(self, key: Any) -> Values:
        return Values({key: self.by[key]}, self.record)

    @property
    def on_gpu(self) -> bool:
        return str(self.record["device"]).startswith("cuda")

    def estimates(self) -> list[Estimate]:
        return list(self.by.values())

    @property
    def values(self) -> list[float]:
        return [estimate.value for estimate in self.by.values()]

    @property
    def value(self) -> float:
        (value,) = self.values
        return value

    @property
    def spread(self) -> float:
        """The largest value divided by the smallest, minus 1."""
        return max(self.values) / min(self.values) - 1

    def apart(self, other: Values) -> bool:
        """Whether the intervals do not overlap."""
        return (self < other) is True or (self > other) is True

    def contains(self, value: float) -> bool:
        return all(e.low <= value <= e.high for e in self.by.values())

    def __le__(self, other: Values | float) -> Truth:
        return all_of(*(True if a.high <= b.low else False if a.low > b.high else None for a, b in self._pairs(other)))

    def __lt__(self, other: Values | float) -> Truth:
        return all_of(*(True if a.high < b.low else False if a.low >= b.high else None for a, b in self._pairs(other)))

    def __ge__(self, other: Values | float) -> Truth:
        return all_of(*(True if a.low >= b.high else False if a.high < b.low else None for a, b in self._pairs(other)))

    def __gt__(self, other: Values | float) -> Truth:
        return all_of(*(True if a.low > b.high else False if a.high <= b.low else None for a, b in self._pairs(other)))

    def _pairs(self, other: Values | float) -> list[tuple[Estimate, Estimate]]:
        """A single estimate is compared with each of several."""
        own, others = self.estimates(), other.estimates() if isinstance(other, Values) else [number(other)]
        most = max(len(own), len(others))
        return list(zip(*(one * most if len(one) == 1 else one for one in (own, others)), strict=True))


class Shown(NamedTuple):
    """One line of a claim: which measure of which cells. A list of values varies; a function depends on the records."""

    label: str  # with the fields of a cell in braces
    measure: Measure
    cells: Fields

    def measured(self, records: Records) -> tuple[Values, list[tuple[str, Estimate]]]:
        cells = {name: value(records) if callable(value) else value for name, value in self.cells.items()}
        axes = {name: value for name, value in cells.items() if isinstance(value, list | tuple)}
        by: dict[Any, Estimate] = {}
        labelled = []
        for point in product(*axes.values()):
            at: Record = cells | dict(zip(axes, point, strict=True))
            if isinstance(self.measure, str):
                at |= records.record(self.measure, **at)
                estimate = Estimate.of_record(at)
            else:
                value = self.measure(records, at) if callable(self.measure) else self.measure
                estimate = value if isinstance(value, Estimate) else number(value)
            by[point[0] if len(point) == 1 else point] = estimate
            labelled.append((self.label.format(**at), estimate))
        return Values(by, at), labelled


def shown(label: str, measure: Measure, **cells: Any) -> Shown:
    return Shown(label, measure, cells)


def scaled(measure: str, change: Callable[[float, Fields], float]) -> Measure:
    """A measure on another scale: a nondecreasing function of its value, for a given cell."""
    return lambda records, at: records.one(measure, **at).map(lambda value: change(value, at))


@dataclass(frozen=True)
class Claim:
    """words: the paper's claim in short. test: takes the values of each line shown.

    arithmetic: these values are the paper's own figures, or counts by its own cost model.
    """

    where: str
    words: str
    shown: Sequence[Shown] = ()
    test: Test | None = None  # None: not tested here
    agrees: str = "The measured values agree with it."
    differs: str = "The measured values contradict it."
    untested: str = UNDECIDED
    figure: str = ""  # the number in the paper, if it gives one
    name: str = ""
    arithmetic: bool = False

    def finding(self, records: Records) -> Finding:
        try:
            return self._judged(records)
        except Absent as missing:
            return Finding("not tested", f"Not measured yet: {missing}.")
        except (ArithmeticError, ValueError, TypeError, LookupError) as error:
            reason = f"{self.name} cannot be judged by these records: {type(error).__name__}: {error}"
            raise UnmaskError(f"{reason}. Expected those of `measure`. Measure them again") from error

    def _judged(self, records: Records) -> Finding:
        measured = [line.measured(records) for line in self.shown]
        truth = self.test(*(values for values, _ in measured)) if self.test else None
        truth = all_of(*truth) if isinstance(truth, tuple) else truth
        ours = tuple(entry for _, labelled in measured for entry in labelled)
        if truth is None:
            return Finding("not tested", self.untested, ours)
        if not truth:
            return Finding("differs", self.differs, ours)
        return Finding("consistent" if self.arithmetic else "agrees", self.agrees, ours)


def claim(
    where: str, words: str, *lines: Shown, test: Test | None = None, arithmetic: bool = False, **texts: str
) -> Claim:
    return Claim(where, words, lines, test, arithmetic=arithmetic, **texts)


@dataclass(frozen=True)
class Size:
    """The amount of work: quick takes a quarter of an hour on two cores, without weights; full is the paper's."""

    full: bool = False
    device: str = "auto"

    @property
    def name(self) -> str:
        return "full" if self.full else "quick"

    @property
    def rows(self) -> int:
        return 2000 if self.full else 400


@dataclass(frozen=True)
class Item:
    """A figure, a table or a theorem: the cells to measure (parts of a recipe), and its claims by name."""

    name: str
    about: str
    cells: Callable[[Size], list[dict[str, Any]]]
    claims: Mapping[str, Claim]


def item(name: str, about: str, cells: Callable[[Size], list[dict[str, Any]]], claims: Mapping[str, Claim]) -> Item:
    """An item; the names of its claims begin with its own."""
    named = {f"{name}.{key}": replace(claim, name=f"{name}.{key}") for key, claim in claims.items()}
    return Item(name, about, cells, named)


def part(*jobs: str, **axes: Any) -> dict[str, Any]:
    """A part of a recipe: all combinations of the values in lists, with the others fixed."""
    rows = {"rows": axes.pop("rows")} if "rows" in axes else {}
    grid = {name: list(value) for name, value in axes.items() if isinstance(value, list | tuple)}
    fixed = {name: value for name, value in axes.items() if name not in grid}
    return {"jobs": list(jobs), "grid": grid, "fixed": fixed} | rows


def own(job: str, **axes: Any) -> dict[str, Any]:
    """A part of a recipe with a job of jobs.py."""
    return part(f"{JOBS}{job}", **axes)


def all_of(*tests: Truth) -> Truth:
    return False if False in tests else None if None in tests else True


def negated(test: Truth) -> Truth:
    return None if test is None else not test


def number(value: float) -> Estimate:
    """A constant, or a result of arithmetic, without an interval."""
    return Estimate(float(value), float(value), float(value), 0, 1.0, "computed")
