"""Cells: what is measured once, as a flat mapping of plain values, and the key under which a store keeps it.

A cell is a metric and all of its parameters, with defaults for those that a recipe leaves out. Its key is the SHA-256
of its canonical JSON and of the version of this schema: two recipes, or two machines, mean the same cell by it. A
parameter that a metric does not take is no part of its cell: theory has no rows.
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
from unmask.core.registry import parse
from unmask.experiments.jobs.recipe import Recipe
from unmask.experiments.measures.catalogue import TRIVIAL_COST, Measure, Tally, find, merge

SCHEMA = 3  # of cells: a change makes each cell a different one
TOKENS_A_BLOCK = 2**18  # rows of a block x length: half a second to some seconds of work that a kill can lose
MOST_BLOCKS = 10**5
LARGE, END = 2**28, 2**20  # bytes of a file of which only the ends are read for its digest, and of each end
EMPTY = inspect.Parameter.empty
NOTHING: Mapping[Any, Any] = {}


@dataclass(frozen=True)
class Cell:
    """spec: the metric and its parameters, in the order of its signature."""

    spec: dict[str, Any]

    @cached_property
    def key(self) -> str:
        return hashlib.sha256(canonical({"schema": SCHEMA} | self.spec).encode()).hexdigest()

    @property
    def metric(self) -> str:
        return str(self.spec["metric"])

    @property
    def measure(self) -> Measure:
        return find(self.metric)

    @property
    def arguments(self) -> dict[str, Any]:
        return {name: value for name, value in self.spec.items() if name != "metric"}

    @cached_property
    def cost(self) -> float:
        """Estimated seconds of one core."""
        return arguments.number(f"the cost of metric {self.metric!r}", self.measure.cost(self.arguments), 0.0, 1e12)

    @property
    def needs(self) -> list[Cell]:
        """The cells that must be done before it."""
        return [cell_of(dict(needed)) for needed in self.measure.needs(self.arguments)]

    @property
    def shared(self) -> str:
        """Cells with the same text here are measured by one pass over the same rows."""
        return canonical({name: value for name, value in self.spec.items() if name not in self.measure.shares})

    def blocks(self, done: Mapping[tuple[int, int], Tally] = NOTHING) -> list[Block]:
        """The rest of the cell in blocks of limited size; done: the tallies of (first_row, rows) that are measured."""
        cost, needed = max(self.cost, TRIVIAL_COST), tuple(other.key for other in self.needs)
        if not self.measure.merges:
            return [Block(self.key, self.spec, True, cost, needed)]
        made = []
        for first, rows in self._missing(done):
            fraction = rows / self.spec["rows"]
            spec = self.spec | {"first_row": first, "rows": rows}
            made.append(Block(self.key, spec, fraction == 1, cost * fraction, needed))
        return made or [Block(self.key, self.spec, True, 0.0, needed, merge(list(done.values())))]

    def _missing(self, done: Mapping[tuple[int, int], Tally]) -> Iterator[tuple[int, int]]:
        """(first_row, rows) of the blocks that are to be measured."""
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
        """Rows of a block of a cell that merges, and rows that stay together."""
        rows = arguments.whole("rows", self.spec.get("rows"), 1, arguments.MOST_ROWS)
        arguments.whole("first_row", self.spec.get("first_row"), 0, arguments.MOST - rows)
        asked = self.measure.at_once(self.arguments)
        size = asked or max(TOKENS_A_BLOCK // arguments.length(self.spec.get("length") or 1), 1)
        together = arguments.whole("rows that stay together", self.measure.together(self.arguments))
        if rows > MOST_BLOCKS * max(size, together):
            what = f"{rows} rows are more than {MOST_BLOCKS} blocks of {max(size, together)}"
            raise UnmaskError(f"{what}; ask for fewer, or put them into several cells by their first_row")
        return size, together


@dataclass(frozen=True, eq=False)
class Block:
    """Rows of a cell that are measured at once; a cell that does not merge is one block."""

    key: str
    spec: dict[str, Any]  # the cell's, with the first_row and rows of this block
    whole: bool  # whether it is all of its cell
    cost: float = 0.0  # estimated seconds of one core
    needed: tuple[str, ...] = ()  # keys of the cells that its cell needs
    tally: Tally | None = None  # the sums of all blocks, of which only the records are still to be made

    @property
    def rows(self) -> tuple[int, int]:
        """(first_row, rows)."""
        return int(self.spec.get("first_row", 0)), int(self.spec.get("rows", 0))


def canonical(content: Any) -> str:
    """One text for one content, whatever the order of its keys."""
    return json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)


def cells_of(recipe: Recipe) -> list[Cell]:
    """Every cell of a recipe once, those of one pass together, each after the cells that it needs."""
    chosen = [[_chosen(specification) for specification in part.metrics] for part in recipe.parts]
    measures = [measure for own in chosen for measure, _, _ in own]
    taken = {name for measure in measures for name in measure.parameters}
    if not any(measure.open for measure in measures):
        for name in sorted({name for part in recipe.parts for name in part.names} - {"rows", "seed"} - taken):
            raise unknown("parameter:", name, taken - {"seed", "digest"})
    found: dict[str, Cell] = {}
    digests: dict[str, str] = {}
    for part, own in zip(recipe.parts, chosen, strict=True):
        for point in part.points():
            for measure, metric, settings in own:
                _join(found, Cell(_complete(measure, metric, point | settings, digests)))
    together: dict[str, list[Cell]] = {}
    for name, cell in found.items():
        together.setdefault(cell.shared if cell.measure.shares else name, []).append(cell)
    return [cell for group in together.values() for cell in group]


def _join(found: dict[str, Cell], cell: Cell) -> None:
    for needed in cell.needs:
        _join(found, needed)
    found.setdefault(canonical(cell.spec), cell)


def cell_of(given: Mapping[str, Any], planned: bool = False) -> Cell:
    """The cell of a metric and of those of its parameters that are not at their defaults; planned: with its digest."""
    metric, given = str(given["metric"]), {name: value for name, value in given.items() if name != "metric"}
    measure = find(metric)
    for name in given.keys() - measure.parameters.keys() if not measure.open else ():
        raise unknown(f"parameter of metric {metric!r}:", name, measure.parameters)
    return Cell(_complete(measure, metric, given, None if planned else {}))


def check(cells: Sequence[Cell]) -> None:
    """Fail before anything is measured, not in the middle."""
    by_metric: dict[str, list[dict[str, Any]]] = {}
    for cell in cells:
        by_metric.setdefault(cell.metric, []).append(cell.arguments)
    for metric, asked in by_metric.items():
        find(metric).check(asked)
    for cell in cells:
        if cell.measure.merges:
            _ = cell.size


def _chosen(specification: str) -> tuple[Measure, str, dict[str, Any]]:
    """A metric with its name and the settings of its own that a recipe gives it."""
    metric, own = parse("metric", specification)
    measure = find(metric)
    for name in own:
        if not measure.open and name not in measure.parameters:
            raise unknown(f"parameter of metric {metric!r}:", name, set(measure.parameters) - {"digest"})
    return measure, metric, own


def _complete(
    measure: Measure, metric: str, given: Mapping[str, Any], digests: dict[str, str] | None
) -> dict[str, Any]:
    """All parameters of a metric, each of its type; digests: of files that are known, None to read none."""
    spec: dict[str, Any] = {"metric": metric}
    for name, default in measure.parameters.items():
        if name not in given and default is EMPTY:
            raise UnmaskError(f"metric {metric!r} needs {name}; put it under grid, zip or fixed")
        spec[name] = _typed(metric, name, given.get(name, default), default)
    if measure.open:
        spec |= {name: value for name, value in given.items() if name not in spec}
    if "digest" in measure.parameters and digests is not None:
        files = [
            str(spec[name]) for name in ("language", "text", "model", "causal_model", "card", "data") if spec.get(name)
        ]
        spec["digest"] = "".join(digests.setdefault(file, digest(file)) for file in files)
    return spec


def _typed(metric: str, name: str, value: Any, default: Any) -> Any:
    if type(default) is float and type(value) is int:
        return float(value)
    if default is None or default is EMPTY or type(value) is type(default):
        return value
    wanted = {int: "a whole number", float: "a number", str: "a word", bool: "true or false"}.get(type(default))
    raise UnmaskError(f"{name} of metric {metric!r} is {value!r}; expected {wanted or repr(default)}")


def digest(name: str) -> str:
    """The digest of a file, or of the files in a directory; empty for a name that is neither.

    It is part of a cell: a language or a network that has changed makes a different cell.
    """
    path = Path(name)
    if not os.path.isfile(path) and not os.path.isdir(path):
        return ""
    whole = hashlib.sha256()
    for file in [path] if path.is_file() else sorted(entry for entry in path.iterdir() if entry.is_file()):
        whole.update(file.name.encode() + b"\0" + hashlib.sha256(_contents(file)).digest())
    return whole.hexdigest()


def _contents(file: Path) -> bytes:
    """All of a file; of a large one, as the weights of an open model, its size and both ends."""
    if (size := file.stat().st_size) <= LARGE:
        return file.read_bytes()
    with open(file, "rb") as opened:
        first = opened.read(END)
        opened.seek(-END, os.SEEK_END)
        return str(size).encode() + first + opened.read()
