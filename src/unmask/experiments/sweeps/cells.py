"""Cells: one job with all of its parameters, as a flat mapping of plain values, and its key in a store.

Parameters that a recipe leaves out have their defaults. A cell has only the parameters of its job: theory has no rows.
Its key is the SHA-256 of its canonical JSON and of the version of this schema, so all recipes and machines agree on it.
"""

from __future__ import annotations

import hashlib
import inspect
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from unmask.core import arguments
from unmask.core.errors import UnmaskError, unknown
from unmask.core.memory import PLACE_BYTES, fits
from unmask.core.registry import parse, written
from unmask.experiments.jobs.catalogue import TRIVIAL_COST, Measure, Tally, find, merge
from unmask.experiments.sweeps.recipe import Recipe

SCHEMA = 3  # version of cells: a change gives every cell a new key
TOKENS_A_BLOCK = 2**18  # rows of a block x length: 0.5 s to a few s of work
MOST_BLOCKS = 10**5
LARGE, END = 2**28, 2**20  # bytes: of larger files, only the two ends enter the digest; size of an end
EMPTY = inspect.Parameter.empty
NOTHING: Mapping[Any, Any] = {}


@dataclass(frozen=True)
class Cell:
    """spec: the job and its parameters, in the order of its signature."""

    spec: dict[str, Any]

    @cached_property
    def key(self) -> str:
        return hashlib.sha256(canonical({"schema": SCHEMA} | self.spec).encode()).hexdigest()

    @property
    def job(self) -> str:
        return str(self.spec["job"])

    @property
    def measure(self) -> Measure:
        return find(self.job)

    @property
    def arguments(self) -> dict[str, Any]:
        return {name: value for name, value in self.spec.items() if name != "job"}

    @cached_property
    def cost(self) -> float:
        """Estimated seconds of one core."""
        return arguments.number(f"the cost of job {self.job!r}", self.measure.cost(self.arguments), 0.0, 1e12)

    @property
    def needs(self) -> list[Cell]:
        """Cells that must be done first."""
        return [cell_of(dict(needed)) for needed in self.measure.needs(self.arguments)]

    @property
    def shared(self) -> str:
        """Cells with equal text here are measured by one pass over the same rows."""
        return canonical({name: value for name, value in self.spec.items() if name not in self.measure.shares})

    def blocks(self, done: Mapping[tuple[int, int], Tally] = NOTHING) -> list[Block]:
        """The rest of the cell in blocks of limited size; done: tallies of finished blocks, by (first_row, rows)."""
        cost, needed = max(self.cost, TRIVIAL_COST), tuple(other.key for other in self.needs)
        if not self.measure.merges:
            return [Block(self.key, self.spec, True, cost, needed)]
        blocks = []
        for first, rows in self._missing(done):
            fraction = rows / self.spec["rows"]
            spec = self.spec | {"first_row": first, "rows": rows}
            blocks.append(Block(self.key, spec, fraction == 1, cost * fraction, needed))
        return blocks or [Block(self.key, self.spec, True, 0.0, needed, merge(list(done.values())))]

    def _missing(self, done: Mapping[tuple[int, int], Tally]) -> Iterator[tuple[int, int]]:
        """(first_row, rows) of the blocks to measure."""
        begin, end = self.spec["first_row"], self.spec["first_row"] + self.spec["rows"]
        size, together = self.size
        for first, rows in [*sorted(done), (end, 0)]:
            while begin < first:
                last = min(max((begin + size) // together, begin // together + 1) * together, first)
                yield begin, last - begin
                begin = last
            if not begin == first <= first + rows <= end:
                raise UnmaskError(f"blocks of cell {self.key} overlap, or have rows beyond its own: {first}, {rows}")
            begin = first + rows

    @property
    def size(self) -> tuple[int, int]:
        """(rows of a block of a cell that merges, rows that stay together)."""
        rows = arguments.whole("rows", self.spec.get("rows"), 1, arguments.MOST_ROWS)
        arguments.whole("first_row", self.spec.get("first_row"), 0, arguments.MOST - rows)
        at_once = self.measure.at_once(self.arguments)
        size = at_once or max(TOKENS_A_BLOCK // arguments.length(self.spec.get("length") or 1), 1)
        together = arguments.whole("rows that stay together", self.measure.together(self.arguments))
        if rows > MOST_BLOCKS * max(size, together):
            what = f"{rows} rows are more than {MOST_BLOCKS} blocks of {max(size, together)}"
            raise UnmaskError(f"{what}; reduce rows, or divide them among cells with first_row")
        return size, together


@dataclass(frozen=True, eq=False)
class Block:
    """Rows of a cell that are measured together; a cell that does not merge is one block."""

    key: str
    spec: dict[str, Any]  # of the cell, with first_row and rows of this block
    whole: bool  # whether it is the whole cell
    cost: float = 0.0  # estimated seconds of one core
    needed: tuple[str, ...] = ()  # keys of cells that its cell needs
    tally: Tally | None = None  # sums of all blocks: only the records are missing

    @property
    def rows(self) -> tuple[int, int]:
        """(first_row, rows)."""
        return int(self.spec.get("first_row", 0)), int(self.spec.get("rows", 0))


def canonical(content: Any) -> str:
    """JSON text that does not depend on the order of keys."""
    return json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)


def cells_of(recipe: Recipe) -> list[Cell]:
    """Each cell of a recipe once, after the cells that it needs; cells of one pass are together."""
    chosen = [[_chosen(specification) for specification in part.jobs] for part in recipe.parts]
    measures = [measure for own in chosen for measure, _, _ in own]
    known = {name for measure in measures for name in measure.parameters}
    if not any(measure.open for measure in measures):
        set_names = {name for part in recipe.parts for name in part.names}
        for name in sorted(name for name in set_names if name.partition(".")[0] not in known | {"rows", "seed"}):
            raise unknown("parameter:", name, known - {"seed", "digest"})
    cells: dict[str, Cell] = {}
    digests: dict[str, str] = {}
    for part, own in zip(recipe.parts, chosen, strict=True):
        for point in part.points():
            for measure, job, settings in own:
                _join(cells, Cell(_complete(measure, job, point | settings, digests)))
    together: dict[str, list[Cell]] = {}
    for name, cell in cells.items():
        together.setdefault(cell.shared if cell.measure.shares else name, []).append(cell)
    return [cell for group in together.values() for cell in group]


def _join(cells: dict[str, Cell], cell: Cell) -> None:
    for needed in cell.needs:
        _join(cells, needed)
    cells.setdefault(canonical(cell.spec), cell)


def cell_of(given: Mapping[str, Any], planned: bool = False) -> Cell:
    """The cell of a job and its given parameters. planned: they include the digest, so no file is read."""
    job, given = str(given["job"]), {name: value for name, value in given.items() if name != "job"}
    measure = find(job)
    for name in given if not measure.open else ():
        if name.partition(".")[0] not in measure.parameters:
            raise unknown(f"parameter of job {job!r}:", name, measure.parameters)
    return Cell(_complete(measure, job, given, None if planned else {}))


def check(cells: Sequence[Cell]) -> None:
    """Find mistakes before any measurement."""
    by_job: dict[str, list[dict[str, Any]]] = {}
    for cell in cells:
        by_job.setdefault(cell.job, []).append(cell.arguments)
    for job, settings in by_job.items():
        find(job).check(settings)
    for cell in cells:
        rows, length = cell.spec.get("rows"), cell.spec.get("length")
        if cell.measure.merges:
            rows = min(cell.spec["rows"], max(cell.size))
        if isinstance(rows, int) and isinstance(length, int):
            fits(rows, f"rows of {length} tokens", PLACE_BYTES * length)


def _chosen(specification: str) -> tuple[Measure, str, dict[str, Any]]:
    """A job, its name, and its settings in a recipe."""
    job, own = parse("job", specification)
    measure = find(job)
    for name in own:
        if not measure.open and name not in measure.parameters:
            raise unknown(f"parameter of job {job!r}:", name, set(measure.parameters) - {"digest"})
    return measure, job, own


def _complete(measure: Measure, job: str, given: Mapping[str, Any], digests: dict[str, str] | None) -> dict[str, Any]:
    """All parameters of a job with their types; "X.option" adds an option to the spec X.

    digests: known digests of files; None reads no file.
    """
    spec: dict[str, Any] = {"job": job}
    for name, default in measure.parameters.items():
        if name not in given and default is EMPTY:
            raise UnmaskError(f"job {job!r} needs {name}; put it under grid, zip or fixed")
        spec[name] = _typed(job, name, given.get(name, default), default)
    options: dict[str, dict[str, Any]] = {"language": {}} if spec.get("language") else {}
    for name, value in given.items():
        axis, dot, option = name.partition(".")
        if dot and spec.get(axis):
            options.setdefault(axis, {})[option] = value
        elif measure.open:
            spec.setdefault(name, value)
    for axis, chosen in options.items():
        spec[axis] = _with_options(axis, spec[axis], chosen)
    if "digest" in measure.parameters and digests is not None:
        files = [
            str(spec[name]) for name in ("language", "text", "model", "causal_model", "card", "data") if spec.get(name)
        ]
        spec["digest"] = "".join(digests.setdefault(file, digest(file)) for file in files)
    return spec


def _with_options(axis: str, spec: Any, options: dict[str, Any]) -> str:
    """A spec with these options, except for options that it sets itself."""
    if axis == "language":
        from unmask.languages.presets import varied  # here, since a worker imports torch only if a job needs it

        return varied(str(spec), **options)
    name, own = parse(axis, spec)
    return written(name, options | own)


def _typed(job: str, name: str, value: Any, default: Any) -> Any:
    if type(default) is float and type(value) is int:
        return float(value)
    if default is None or default is EMPTY or type(value) is type(default):
        return value
    expected = {int: "a whole number", float: "a number", str: "a word", bool: "true or false"}.get(type(default))
    raise UnmaskError(f"{name} of job {job!r} is {value!r}; expected {expected or repr(default)}")


def digest(name: str) -> str:
    """The digest of a file or of the files in a directory; empty for any other name.

    It is part of a cell: a changed language or network gives a new cell.
    """
    path = Path(name)
    if not os.path.isfile(path) and not os.path.isdir(path):
        return ""
    whole = hashlib.sha256()
    for file in [path] if path.is_file() else sorted(entry for entry in path.iterdir() if entry.is_file()):
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
