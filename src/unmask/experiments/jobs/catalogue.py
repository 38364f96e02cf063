"""Jobs by name: each measures a cell and returns records, one number each.

A built-in job is a frozen dataclass. Its fields are the parameters of a cell: keys of recipes, axes of grids and
columns of tables. So a recipe can be checked, and its cells hashed, before anything runs. A job of another package is a
function, "package.module:function". Its keyword parameters are the fields (**fields takes all), its attributes the
options of Measure. A record has the name of a measure, the fields of an Estimate, and the mean number of model calls
per row; further fields are plain values.

A job that merges measures rows first_row .. first_row + rows - 1 and returns a tally of whole numbers: counts, and sums
in fixed point. Sums of tallies are exact, so the records depend neither on the blocks nor on the number of machines.
Dependent rows, such as those of one prompt, stay in one tally (`together`).

A job may need other cells, as samples of a network need its training. `needs` names them, they are measured first, and
`needed` has the directories with their files. `place` is the cell's own directory, for interrupted work and for files
that other cells need.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Annotated, Any, ClassVar

import msgspec

from unmask.core.errors import UnmaskError
from unmask.core.reading import fit, from_json
from unmask.core.registry import Registry

Plain = str | int | float | bool | None
Record = dict[str, Any]
Tally = dict[str, int]
Function = Callable[..., Any]
Arguments = Mapping[str, Any]
TRIVIAL_COST = 1e-3  # seconds, if nothing is known
GIVEN = ("place", "needed")  # arguments outside the cell: its directory, and those of the cells that it needs


class CommonFields(msgspec.Struct):
    """The fields that all records have; None replaces infinite numbers and open ends of intervals."""

    measure: Annotated[str, msgspec.Meta(min_length=1, max_length=200)]
    value: float | None
    low: float | None = None
    high: float | None = None
    n: int | None = None
    level: float | None = None
    method: str | None = None
    model_calls: float | None = None


@dataclass(frozen=True)
class Output:
    """Records or a tally, and files to be stored next to the database."""

    result: Any
    files: Mapping[str, bytes]


JOBS: Registry[Any] = Registry("job", "unmask.jobs", returns=(list, dict, Output), given=GIVEN)


@dataclass(frozen=True, kw_only=True)
class Job:
    """A built-in job, with the values of a cell."""

    merges: ClassVar[bool] = False
    shares: ClassVar[tuple[str, ...]] = ()
    lasts: ClassVar[bool] = False

    def measure(self, *args: Any, **given: Any) -> Any:
        """Return records, or a tally if it merges; given: the declared directories, `place` or `needed`."""
        raise NotImplementedError

    def records(self, tally: Tally) -> list[Record]:
        """Return the records of the tally of all rows, if it merges."""
        raise NotImplementedError

    def check(self) -> None:
        """Raise an error if the cell cannot be measured."""

    def cost(self) -> float:
        """Estimated seconds on one core."""
        return TRIVIAL_COST

    def together(self) -> int:
        """The rows of a tally are a multiple of this number."""
        return 1

    def at_once(self) -> int | None:
        """Rows of a block, or None for any number."""
        return None

    def needs(self) -> Sequence[Arguments]:
        """The cells that must be measured first, each with its job."""
        return ()

    def about(self) -> Record:
        """Fields of each record that name the true distribution."""
        return {}


@dataclass(frozen=True)
class Measure:
    """A job as the engine sees it; each function takes the parameters of a cell."""

    name: str
    run: Function  # (**arguments) -> records, or a tally if it merges
    parameters: dict[str, Any]  # names to defaults, of a cell
    given: tuple[str, ...] = ()  # the directories that it takes
    open: bool = False  # whether it takes every field
    records: Function | None = None  # (tally, **arguments of the whole cell) -> records
    shares: tuple[str, ...] = ()  # parameters in which cells of one pass differ
    cost: Callable[[Arguments], float] = field(default=lambda arguments: TRIVIAL_COST)
    check: Callable[[Sequence[Arguments]], None] = field(default=lambda cells: None)
    together: Callable[[Arguments], int] = field(default=lambda arguments: 1)
    at_once: Callable[[Arguments], int | None] = field(default=lambda arguments: None)
    needs: Callable[[Arguments], Sequence[Arguments]] = field(default=lambda arguments: ())
    about: Callable[[Arguments], Record] = field(default=lambda arguments: {})
    lasts: bool = False  # results stay valid when the code changes, as of a trained network

    @property
    def merges(self) -> bool:
        return self.records is not None


def find(name: str) -> Measure:
    """The job with a name."""
    JOBS.check_import(name)
    return _find(name)


@cache
def _find(name: str) -> Measure:
    registered: Any = JOBS.find(name)
    if not isinstance(registered, type):
        return _of_function(name, registered)
    if JOBS.name_of(registered) is None:
        raise UnmaskError(f"job {name!r} is a class. Expected a function of a cell's fields. Write one that calls it")
    return _of_class(name, registered)


def _of_class(name: str, kind: type[Job]) -> Measure:
    def call(method: str) -> Function:
        return lambda arguments: getattr(kind(**arguments), method)()

    def run(**arguments: Any) -> Any:
        directories = {key: arguments.pop(key) for key in given}
        return kind(**arguments).measure(**directories)

    def records(tally: Tally, **arguments: Any) -> list[Record]:
        return kind(**arguments).records(tally)

    def check(cells: Sequence[Arguments]) -> None:
        for cell in cells:
            kind(**cell).check()

    parameters = {p.name: p.default for p in inspect.signature(kind).parameters.values()}
    given = tuple(key for key in GIVEN if key in inspect.signature(kind.measure).parameters)
    merged = records if kind.merges else None
    options: dict[str, Any] = {option: call(option) for option in PLANNING - {"check"} | {"about"}}
    return Measure(name, run, parameters, given, False, merged, kind.shares, check=check, lasts=kind.lasts, **options)


def _of_function(name: str, function: Function) -> Measure:
    """The job of a function, whose attributes are options of Measure."""
    every = inspect.signature(function).parameters.values()
    kinds = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    parameters = {p.name: p.default for p in every if p.kind in kinds and p.name not in GIVEN}
    given = tuple(key for key in GIVEN if key in inspect.signature(function).parameters)
    names = {"records", "shares", "about", "lasts"} | PLANNING
    options: dict[str, Any] = {option: getattr(function, option) for option in names if hasattr(function, option)}
    options |= {option: _guarded(name, option, options[option]) for option in PLANNING & options.keys()}
    return Measure(name, function, parameters, given, any(p.kind is p.VAR_KEYWORD for p in every), **options)


PLANNING = {"cost", "check", "together", "at_once", "needs"}  # called by the driver, while it plans a sweep


def _guarded(name: str, option: str, function: Function) -> Function:
    """A function of another package, whose exceptions become one-line errors."""

    def answer(given: Any) -> Any:
        try:
            return function(given)
        except (UnmaskError, MemoryError):
            raise
        except (Exception, SystemExit) as error:
            reason = f"its {option} fails with {type(error).__name__}: {error}"
            raise UnmaskError(f"job {name!r} cannot be planned: {reason}") from error

    return answer


def read_records(text: str | bytes, where: str) -> list[Record]:
    """The records in a JSON text."""
    records: list[Record] = decoded(text, list[dict[str, Plain]], where)
    fit(records, list[CommonFields], where)
    return records


def decoded(text: str | bytes, schema: Any, where: str) -> Any:
    """Decode a JSON text by its schema. Tallies have integers beyond 64 bits, which `from_json` refuses; it writes the
    errors alone."""
    try:
        return msgspec.json.decode(text, type=schema)
    except (msgspec.DecodeError, RecursionError, UnicodeError):
        return from_json(text, schema, where)


def merge(tallies: Sequence[Tally]) -> Tally:
    """The sum of tallies; a missing name counts as zero."""
    names = {name: None for tally in tallies for name in tally}
    return {name: sum(tally.get(name, 0) for tally in tallies) for name in names}
