"""A cell: a job with all of its parameters. A block: some of its rows, which one process measures at once.

`pool.measure` runs one, and `store.Writer` keeps its records.

A job is a function. Its parameters are frozen dataclasses, such as Source and Sampling (jobs/sources.py), and plain
values; together their fields are the parameters of a cell: keys of recipes, axes of grids and columns of tables. It
returns records, one number each. These attributes of a job are functions of any of its parameters, except `lasts`:

    records   of a tally and parameters -> records. Such a job merges: it measures the rows first_row .. first_row +
              rows - 1 and returns a tally of whole numbers, which add up exactly whatever the blocks are
    size      (rows of a block, rows that stay together, as those of one prompt)
    needs     the cells that come first, each a mapping with its job
    check     raises an error if the cell cannot be measured
    about     fields of each record, such as the digest of a language
    lasts     True if results stay valid when the code changes, as a trained network
"""

from __future__ import annotations

import bisect
import hashlib
import inspect
import json
import math
import os
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import cache, cached_property, partial
from importlib import import_module
from itertools import chain
from pathlib import Path
from typing import Any, TypeVar, get_type_hints

from unmask.core import arguments, entries
from unmask.core.errors import UnmaskError, unknown
from unmask.core.files import atomic, make_directory
from unmask.core.memory import PLACE_BYTES, fits
from unmask.core.registry import Entry, Registry
from unmask.core.specs import parse, unlike, written
from unmask.experiments.recipe import Recipe
from unmask.samplers.joint.draws import rows_together

SCHEMA = 5  # of cells: a change gives every cell a new key
# JSON text that does not depend on the order of keys
canonical = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False).encode
TOKENS_A_BLOCK = 2**18  # rows of a block x length: 0.5 s to a few s of work
MOST_BLOCKS = 10**5
LARGE, END = 2**28, 2**20  # bytes: of larger files, only the two ends enter the digest; size of an end
EMPTY = inspect.Parameter.empty
NAMED = ("language", "text", "model", "causal_model", "card", "data")  # parameters that may name a file

Function = TypeVar("Function", bound=Callable[..., Any])
Record = dict[str, Any]
Tally = dict[str, int]
Rows = tuple[int, int]  # (first row, number)

INDEX = {  # names of jobs to their modules
    **dict.fromkeys(("samples", "ter_upper", "theory", "autoregressive", "gap"), "unmask.experiments.jobs.samples"),
    **dict.fromkeys(
        ("training", "uniform_training", "learned", "learned_gap", "clock"), "unmask.experiments.jobs.training"
    ),
    **dict.fromkeys(("steps_for_ter", "steps_for_ser", "prediction"), "unmask.experiments.jobs.steps"),
    **dict.fromkeys(("text_training", "written", "original", "text_clock"), "unmask.experiments.jobs.texts"),
    **dict.fromkeys(("infilling", "learned_infilling", "text_infilling"), "unmask.experiments.jobs.infilling"),
    "evaluation": "unmask.tasks.evaluation.job",
    "eval": "unmask.tasks.evaluation.published",
    "curve": "unmask.experiments.board.curve",
}


class Jobs(Registry[Any]):
    """The jobs of the index, of programs, of importable modules and of installed packages."""

    def find(self, name: str) -> Callable[..., Any]:
        if name in INDEX:
            function: Callable[..., Any] = getattr(import_module(INDEX[name]), name)
            return function
        if ":" not in name and name not in self.names():
            raise unknown("job", name, self.names())
        if not inspect.isfunction(maker := super().find(name)):
            raise UnmaskError(f"job {name!r} is not a function. Expected a function of a cell's parameters. Write one")
        return maker

    def names(self) -> list[str]:
        return [*sorted(INDEX), *super().names()]

    def entry(self, name: str) -> Entry:
        return replace(super().entry(name), options=find(name).fields)


JOBS = Jobs("job", "unmask.jobs", returns=(list, dict))


@dataclass(frozen=True)
class Place:
    """Directories of a cell: its own, and those of the cells that it needs. It is not a parameter."""

    own: Path
    needed: tuple[Path, ...] = ()

    def write(self, name: str, content: bytes) -> None:
        with atomic(make_directory(self.own) / name) as file:
            file.write(content)


@dataclass(frozen=True)
class Job:
    """A function with its attributes."""

    name: str
    run: Callable[..., Any]

    @cached_property
    def fields(self) -> dict[str, Any]:
        """The parameters of its cells, with their defaults."""
        defaults = dict[str, Any]()
        for name, kind in _kinds(self.run).items():
            default = inspect.signature(self.run).parameters[name].default
            if kind is None:
                defaults[name] = default
            elif kind is not Place:
                every = inspect.signature(kind).parameters
                defaults |= {part: getattr(default, part, own.default) for part, own in every.items()}
        return defaults

    @cached_property
    def merges(self) -> bool:
        return hasattr(self.run, "records")

    @cached_property
    def takes_place(self) -> bool:
        """Whether its cells have files."""
        return Place in _kinds(self.run).values()

    @cached_property
    def lasts(self) -> bool:
        return bool(getattr(self.run, "lasts", False))

    def ask(self, attribute: str, values: Mapping[str, Any], otherwise: Any) -> Any:
        """The answer of an attribute. An exception in the code of others becomes an error of one line."""
        if not hasattr(self.run, attribute):
            return otherwise
        try:
            return call(getattr(self.run, attribute), values)
        except (UnmaskError, MemoryError):
            raise
        except (Exception, SystemExit) as error:
            raise UnmaskError(
                f"job {self.name!r} cannot be planned: its {attribute} fails with {type(error).__name__}: {error}"
            ) from error


def job(**attributes: Any) -> Callable[[Function], Function]:
    """Give a function the attributes of a job."""

    def mark(function: Function) -> Function:
        vars(function).update(attributes)
        return function

    return mark


@cache
def _kinds(function: Callable[..., Any]) -> dict[str, Any]:
    """Each parameter with its dataclass, or None for a plain one."""
    every = inspect.signature(function).parameters.values()
    kinds = {name: kind for name, kind in get_type_hints(function).items() if is_dataclass(kind)}
    return {one.name: kinds.get(one.name) for one in every if one.kind is not one.VAR_KEYWORD}


def call(function: Callable[..., Any], values: Mapping[str, Any], **given: Any) -> Any:
    """A function of the values of a cell, and of other values; defaults stand for parameters that a cell lacks."""
    every = {**values, **given}
    kinds = _kinds(function)
    for name, kind in kinds.items():
        if kind is not None and name not in given:
            every[name] = kind(**entries.picked(values, entries.column(fields(kind), "name")))
    return function(**entries.picked(every, kinds))


def find(name: str) -> Job:
    """The job of a name, or of "package.module:function"."""
    return _built_in(name) if name in INDEX else Job(name, JOBS.find(name))


@cache
def _built_in(name: str) -> Job:
    return Job(name, JOBS.find(name))


@dataclass(frozen=True, eq=False)
class Cell:
    """values: all parameters of the job, in the order of its signature."""

    job: str
    values: dict[str, Any]

    @property
    def spec(self) -> dict[str, Any]:
        return {"job": self.job} | self.values

    @cached_property
    def key(self) -> str:
        return key_of(self.job, self.values)

    @cached_property
    def stem(self) -> str:
        """Equal for cells that differ only in which rows they have: these share blocks and the directory of files."""
        own = entries.without(self.values, ("rows", "first_row"))
        return key_of(self.job, own) if find(self.job).merges else self.key

    @cached_property
    def needs(self) -> list[Cell]:
        """The cells that must be done first."""
        return list(map(cell_of, find(self.job).ask("needs", self.values, ())))

    @property
    def layout(self) -> tuple[Rows, Rows]:
        """((first row, end) of a cell that merges, (rows of a block, rows that stay together))."""
        rows = arguments.whole("rows", self.values.get("rows"), 1, arguments.MOST_ROWS)
        first = arguments.whole("first_row", self.values.get("first_row"), 0, arguments.MOST - rows)
        together = arguments.whole("rows_per_prompt", self.values.get("rows_per_prompt", 1))

        # rows that continue one prompt, or that a joint draw chooses among, stay in one block
        together = math.lcm(together, rows_together(self.values.get("draw", "product")))
        usual = max(TOKENS_A_BLOCK // arguments.length(self.values.get("length") or 1), 1), together
        block, together = find(self.job).ask("size", self.values, usual)

        size = max(block // together, 1) * together
        if rows > MOST_BLOCKS * size:
            raise UnmaskError(
                f"{rows} rows are more than {MOST_BLOCKS} blocks of {size}",
                "reduce rows, or divide them among cells with first_row",
            )
        return (first, first + rows), (size, together)

    def blocks(self, there: Collection[Rows]) -> tuple[list[Rows], list[Rows]]:
        """(finished, missing) blocks that cover a cell exactly; there: the finished ones of its stem."""
        if not find(self.job).merges:
            return [], [(0, 0)]
        (at, end), (size, together) = self.layout
        have = dict[int, int]()

        # finished blocks that lie within the cell and cut no group of rows; of two with one beginning, the longer
        for first, rows in there:
            ends = {first, first + rows} - {at, end}
            if at <= first < first + rows <= end and not any(cut % together for cut in ends):
                have[first] = max(rows, have.get(first, 0))

        used, missing = list[Rows](), list[Rows]()
        starts = sorted(have)
        while at < end:
            if rows := have.get(at, 0):
                used.append((at, rows))
            else:
                # to the next boundary of a block, the end of the cell, or a finished block
                later = bisect.bisect_right(starts, at)
                rows = min([(at // size + 1) * size, end, *starts[later : later + 1]]) - at
                missing.append((at, rows))
            at += rows

        return used, missing


def merged(tallies: Sequence[Tally]) -> Tally:
    """The sum of tallies; a missing name counts as zero."""
    total = Counter[str]()
    for tally in tallies:
        total.update(tally)
    return dict(total)


def key_of(job: str, values: Mapping[str, Any]) -> str:
    return hashlib.sha256(canonical([SCHEMA, job, values]).encode()).hexdigest()[:40]


def cells_of(recipe: Recipe) -> list[Cell]:
    """Each cell of a recipe once, after the cells that it needs."""
    chosen = list[list[tuple[Job, dict[str, Any]]]]()
    for part in recipe.parts:
        named = map(partial(parse, "job"), part.jobs)
        chosen.append([(_with(settings, name), settings) for name, settings in named])

    # a parameter of one job is enough: the others of the part ignore it
    known = {name for job, _ in chain(*chosen) for name in job.fields}
    wanted = set[str]().union(*entries.column(recipe.parts, "names"))
    for name in sorted(wanted):
        if name.partition(".")[0] not in known | {"rows", "seed"}:
            raise unknown("parameter:", name, known - {"seed", "digest"})

    cells, of_file = dict[str, Cell](), cache(digest)  # each file is read once
    for part, own in zip(recipe.parts, chosen, strict=True):
        for point in part.points():
            for job, settings in own:
                for cell in _after_needs(Cell(job.name, _complete(job, point | settings, of_file))):
                    cells.setdefault(cell.key, cell)

    return list(cells.values())


def _after_needs(cell: Cell) -> Iterator[Cell]:
    for needed in cell.needs:
        yield from _after_needs(needed)
    yield cell


def cell_of(given: Mapping[str, Any], planned: bool = False) -> Cell:
    """The cell of a job and its given parameters. planned: they include the digest, so no file is read."""
    own = entries.without(given, {"job"})
    job = _with(own, str(given["job"]))
    return Cell(job.name, _complete(job, own, None if planned else digest))


def check(cells: Sequence[Cell]) -> None:
    """Find mistakes before any measurement."""
    for cell in cells:
        job = find(cell.job)
        rows, length = cell.values.get("rows"), cell.values.get("length")
        if job.merges:
            (first, end), (size, _) = cell.layout
            rows = min(end - first, size)
        job.ask("check", cell.values, None)
        if isinstance(rows, int) and isinstance(length, int):
            fits(rows, f"rows of {length} tokens", PLACE_BYTES * length)


def _with(given: Mapping[str, Any], name: str) -> Job:
    """The job of a name, which must have the given parameters."""
    job = find(name)
    for parameter in given:
        if parameter.partition(".")[0] not in job.fields:
            raise unknown(f"parameter of job {job.name!r}:", parameter, job.fields.keys() - {"digest"})
    return job


def _complete(job: Job, given: Mapping[str, Any], of_file: Callable[[str], str] | None) -> dict[str, Any]:
    """All parameters of a job with their types; "X.option" adds an option to the spec X.

    of_file: the digest of a file; None reads no file.
    """
    values = dict[str, Any]()
    for name, default in job.fields.items():
        value = given.get(name, default)
        if value is EMPTY:
            raise UnmaskError(f"job {job.name!r} needs {name}; put it under grid, zip or fixed")

        if expected := unlike(value, default):
            raise UnmaskError(f"{name} of job {job.name!r} is {value!r}; expected {expected}")
        if type(default) is float:
            value = float(value)

        # X.option adds to the spec X, whose own options win
        options = {key.partition(".")[2]: own for key, own in given.items() if key.startswith(f"{name}.")}
        if value and name == "language":
            from unmask.languages.presets import varied

            value = varied(str(value), **options)
        elif value and options:  # except for options that the spec sets itself
            spec, own = parse(name, value)
            value = written(spec, options | own)

        values[name] = value

    # a changed file is another cell
    if "digest" in values and of_file is not None:
        files = map(str, filter(None, entries.picked(values, NAMED).values()))
        values["digest"] = "".join(map(of_file, files))
    return values


def digest(name: str) -> str:
    """The digest of a file or of the files in a directory; empty for any other name.

    It is part of a cell: a changed language or network gives a new cell.
    """
    path = Path(name)
    if not os.path.isfile(path) and not os.path.isdir(path):
        return ""
    whole = hashlib.sha256()
    for file in [path] if path.is_file() else sorted(filter(Path.is_file, path.iterdir())):
        whole.update(file.name.encode() + b"\0" + hashlib.sha256(_contents(file)).digest())
    return whole.hexdigest()


def _contents(file: Path) -> bytes:
    """The bytes of a file; for a large one, such as weights of an open model, its size and both ends."""
    if (size := file.stat().st_size) <= LARGE:
        return file.read_bytes()
    with open(file, "rb") as opened:
        first = opened.read(END)
        opened.seek(-END, os.SEEK_END)
        return str(size).encode() + first + opened.read()
