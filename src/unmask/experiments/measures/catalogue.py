"""Metrics by name: functions of a cell's fields that answer with records, one number each.

The parameters of a metric are what a cell of it consists of, so that a recipe can be checked, and its cells hashed,
without running anything. A record is the name of a measure, the fields of an Estimate, and the evaluations that a row
needed on average; further fields are plain values. "package.module:function" is a metric of somebody else; with
**fields it takes all that there is.

A metric that merges measures rows first_row .. first_row + rows - 1 and answers with a tally of whole numbers: counts,
and sums in fixed point. Sums of tallies are exact, hence the records are the same however the rows were cut, on however
many machines. Rows that are not independent, as those of one prompt, stay in one tally (`together`). `samples` merges.
`ter_upper` does not, since its pass answers for all N at once, nor has `theory` rows.

A metric may need other cells, as samples of a network need its training: `needs` names them, they are measured first,
and `needed` is where they have left their files. `place` is the cell's own directory, for work that goes on where it
was stopped, and for what others need.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cache, cached_property
from typing import Annotated, Any

import msgspec

from unmask.core.errors import UnmaskError
from unmask.core.reading import fit, from_json
from unmask.core.registry import Registry

Plain = str | int | float | bool | None
Record = dict[str, Any]
Tally = dict[str, int]
Function = Callable[..., Any]
Arguments = Mapping[str, Any]
TRIVIAL_COST = 1e-3  # seconds, of what we know nothing about
GIVEN = ("place", "needed")  # parameters that are no part of a cell: a directory, and those of the cells that it needs


class Told(msgspec.Struct):
    """What of a record all have; `value` is None where it is no finite number, an open end of its interval, too."""

    measure: Annotated[str, msgspec.Meta(min_length=1, max_length=200)]
    value: float | None
    low: float | None = None
    high: float | None = None
    n: int | None = None
    level: float | None = None
    method: str | None = None
    evaluations: float | None = None


@dataclass(frozen=True)
class Output:
    """What a metric may answer in place of records or a tally: those, and files that are kept beside the store."""

    found: Any
    files: Mapping[str, bytes]


METRICS: Registry[Any] = Registry(
    "metric", "unmask.metrics", returns=(list, dict, Output), given=GIVEN, package="unmask.experiments.measures"
)


def metric(name: str, **options: Any) -> Callable[[Function], Function]:
    """Registers a function as a metric of ours, with the optional fields of a Measure."""

    def add(function: Function) -> Function:
        for option, value in options.items():
            setattr(function, option, value)
        return METRICS.register(name)(function)

    return add


@dataclass(frozen=True)
class Measure:
    """A metric as the engine sees it."""

    name: str
    run: Function  # (**arguments) -> records, or a tally where it merges
    records: Function | None = None  # (tally, **arguments of the whole cell) -> records
    shares: tuple[str, ...] = ()  # parameters in which cells of one pass differ
    cost: Callable[[Arguments], float] = field(default=lambda arguments: TRIVIAL_COST)
    check: Callable[[Sequence[Arguments]], None] = field(default=lambda cells: None)
    together: Callable[[Arguments], int] = field(
        default=lambda arguments: 1
    )  # rows, k to a multiple of them, in a tally
    at_once: Callable[[Arguments], int | None] = field(default=lambda arguments: None)  # rows of a block, if it matters
    needs: Callable[[Arguments], Sequence[Arguments]] = field(default=lambda arguments: ())  # each with its metric
    about: Callable[[Arguments], Record] = field(default=lambda arguments: {})  # which truth it is of, in each record
    lasts: bool = False  # what it makes stays what it is when the code changes, like a trained network

    @property
    def merges(self) -> bool:
        return self.records is not None

    @cached_property
    def parameters(self) -> dict[str, Any]:
        """Names to defaults, of what a cell consists of."""
        every = inspect.signature(self.run).parameters.values()
        kinds = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
        return {p.name: p.default for p in every if p.kind in kinds and p.name not in GIVEN}

    @cached_property
    def given(self) -> tuple[str, ...]:
        """Which directories it asks for."""
        return tuple(name for name in GIVEN if name in inspect.signature(self.run).parameters)

    @cached_property
    def open(self) -> bool:
        """Whether it takes whatever there is."""
        return any(p.kind is p.VAR_KEYWORD for p in inspect.signature(self.run).parameters.values())


def find(name: str) -> Measure:
    """The metric of a name; a function elsewhere may carry the optional fields of a Measure as attributes."""
    METRICS.check_import(name)
    return _found(name)


@cache
def _found(name: str) -> Measure:
    found = METRICS.find(name)
    if isinstance(found, type):
        raise UnmaskError(f"metric {name!r} is a class; expected a function of a cell's fields")
    names = [option.name for option in fields(Measure) if option.name not in ("name", "run")]
    options = {option: getattr(found, option) for option in names if hasattr(found, option)}
    if METRICS.name_of(found) is None:
        options |= {option: _answered(name, option, options[option]) for option in ASKED & options.keys()}
    return Measure(name, found, **options)


ASKED = {"cost", "check", "together", "at_once", "needs"}  # while a sweep is planned, by the driver


def _answered(name: str, option: str, function: Function) -> Function:
    """Somebody else's, whose mistakes are no defect of ours."""

    def answer(given: Any) -> Any:
        try:
            return function(given)
        except (UnmaskError, MemoryError):
            raise
        except (Exception, SystemExit) as error:
            what = f"cannot be asked for its {option}: {type(error).__name__}: {error}"
            raise UnmaskError(f"metric {name!r} {what}") from error

    return answer


def read_records(text: str | bytes, where: str) -> list[Record]:
    """The records that a JSON text holds."""
    found: list[Record] = decoded(text, list[dict[str, Plain]], where)
    fit(found, list[Told], where)
    return found


def decoded(text: str | bytes, schema: Any, where: str) -> Any:
    """A JSON text by its schema. Tallies have integers of more bits than 64, which `from_json` takes nowhere else: it
    is asked for its words where the text will not do."""
    try:
        return msgspec.json.decode(text, type=schema)
    except (msgspec.DecodeError, RecursionError, UnicodeError):
        return from_json(text, schema, where)


def merge(tallies: Sequence[Tally]) -> Tally:
    """The sums: a tally without rows of its own is all zeros."""
    names = {name: None for tally in tallies for name in tally}
    return {name: sum(tally.get(name, 0) for tally in tallies) for name in names}
