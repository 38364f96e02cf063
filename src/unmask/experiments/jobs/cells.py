"""Cells: what is measured once, as a flat dict of plain values, and the key under which it is found again.

A cell is a metric and all of its parameters, those that were not asked for at their defaults. Its key is the SHA-256 of
its canonical JSON and of the version of this schema, so that two recipes, or two machines, mean the same by the same
cell. What a metric does not take is no part of its cell: theory has no rows.
"""

from __future__ import annotations

import hashlib
import inspect
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from unmask.core import arguments
from unmask.core.errors import UnmaskError, unknown
from unmask.core.registry import parse
from unmask.experiments.jobs.recipe import RESERVED, Point, Recipe
from unmask.experiments.measures.catalogue import TRIVIAL_COST, Measure, Tally, find, merge

SCHEMA = 3  # of cells and of the store: a change of either makes it another
TOKENS_A_BLOCK = 2**18  # rows of a block x length: half a second to some seconds of work that a kill can lose
MOST_BLOCKS = 10**5
LARGE, END = 2**28, 2**20  # bytes of a file that is not read whole for its digest, and of what is read of it
EMPTY = inspect.Parameter.empty
NOTHING: Mapping[Any, Any] = {}


@dataclass(frozen=True)
class Cell:
    """spec: metric and its parameters, in the order of its signature."""

    spec: dict[str, Any]

    @property
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
        """About how long it takes, in seconds of one core where nothing better is known."""
        return arguments.number(f"the cost of metric {self.metric!r}", self.measure.cost(self.arguments), 0.0, 1e12)

    @property
    def needs(self) -> list[Cell]:
        """The cells that must be done before it."""
        return [cell_of(dict(needed)) for needed in self.measure.needs(self.arguments)]

    @property
    def shared(self) -> str:
        """Cells with the same text here are answered by one pass over the same rows."""
        return canonical({name: value for name, value in self.spec.items() if name not in self.measure.shares})


@dataclass(frozen=True, eq=False)
class Block:
    """Rows of a cell that are measured at once; a cell that cannot be merged is one block."""

    key: str
    spec: dict[str, Any]  # with the first_row and rows of this block
    whole: bool  # whether it is all of its cell
    cost: float  # in seconds of one core, about
    needed: tuple[str, ...] = ()  # keys
    tally: Tally | None = None  # the sums of all blocks of a cell, of which its records are still to be made

    @property
    def rows(self) -> tuple[int, int]:
        """(first_row, rows), as the store names it."""
        return int(self.spec.get("first_row", 0)), int(self.spec.get("rows", 0))


def canonical(content: Any) -> str:
    """One text for one content, whatever the order of its keys."""
    return json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)


def blocks(cell: Cell, key: str, done: Mapping[tuple[int, int], Tally] = NOTHING) -> list[Block]:
    """What is left of a cell, in pieces of limited size; done: what is known of (first_row, rows) already."""
    spec, cost = cell.spec, max(cell.cost, TRIVIAL_COST)
    needed = tuple(other.key for other in cell.needs)
    if not cell.measure.merges:
        return [Block(key, spec, True, cost, needed)]
    begin, end = spec["first_row"], spec["first_row"] + spec["rows"]
    size, together = _size(cell)
    found = []
    for first, rows in [*sorted(done), (end, 0)]:
        while begin < first:
            last = min(max((begin + size) // together, begin // together + 1) * together, first)
            share = (last - begin) / spec["rows"]
            block = spec | {"first_row": begin, "rows": last - begin}
            found.append(Block(key, block, share == 1, cost * share, needed))
            begin = last
        if not begin == first <= first + rows <= end:
            raise UnmaskError(f"blocks of cell {key} overlap, or are of rows that it does not have: {first}, {rows}")
        begin = first + rows
    return found or [Block(key, spec, True, 0.0, needed, merge(list(done.values())))]


def _size(cell: Cell) -> tuple[int, int]:
    """Rows of a block of a cell that merges, and of those that stay together."""
    rows = arguments.whole("rows", cell.spec.get("rows"), 1, arguments.MOST_ROWS)
    arguments.whole("first_row", cell.spec.get("first_row"), 0, arguments.MOST - rows)
    told = cell.measure.at_once(cell.arguments)
    size = told or max(TOKENS_A_BLOCK // arguments.length(cell.spec.get("length") or 1), 1)
    together = arguments.whole("rows that stay together", cell.measure.together(cell.arguments))
    if rows > MOST_BLOCKS * max(size, together):
        what = f"{rows} rows are more than {MOST_BLOCKS} blocks of {max(size, together)}"
        raise UnmaskError(f"{what}; ask for fewer, or put them into several cells by their first_row")
    return size, together


def cells_of(recipe: Recipe) -> list[Cell]:
    """Every cell of a recipe once, those of one pass together, each after what it needs; fails on unknown names."""
    chosen = [[_chosen(specification) for specification in part.metrics] for part in recipe.parts]
    measures = [measure for own in chosen for measure, _, _ in own]
    taken = {name for measure in measures for name in measure.parameters}
    if not any(measure.open for measure in measures):
        for name in sorted({name for part in recipe.parts for name in part.axes} - set(RESERVED)):
            if name not in taken:
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


def cell_of(point: Point) -> Cell:
    """The cell of a metric and of those of its parameters that are not at their defaults."""
    metric = str(point["metric"])
    return Cell(_complete(find(metric), metric, {k: v for k, v in point.items() if k != "metric"}, {}))


def cell_in(spec: Point, key: str) -> Cell:
    """The cell that a store has under a key; an error where its metric takes no such values."""
    measure, metric = find(str(spec["metric"])), str(spec["metric"])
    given = {name: value for name, value in spec.items() if name != "metric"}
    try:
        if not measure.open:
            for name in given.keys() - measure.parameters.keys():
                raise unknown(f"parameter of metric {metric!r}:", name, measure.parameters)
        return Cell(_complete(measure, metric, given, None))
    except UnmaskError as error:
        raise UnmaskError(f"cell {key} of the store: {error}") from error


def check(cells: Sequence[Cell]) -> None:
    """Fail before anything is measured, not in the middle."""
    by_metric: dict[str, list[dict[str, Any]]] = {}
    for cell in cells:
        by_metric.setdefault(cell.metric, []).append(cell.arguments)
    for metric, asked in by_metric.items():
        find(metric).check(asked)
    for cell in cells:
        if cell.measure.merges:
            _size(cell)


def _chosen(specification: str) -> tuple[Measure, str, dict[str, Any]]:
    metric, own = parse("metric", specification)
    measure = find(metric)
    for name in own:
        if not measure.open and name not in measure.parameters:
            raise unknown(f"parameter of metric {metric!r}:", name, set(measure.parameters) - {"digest"})
    return measure, metric, own


def _complete(measure: Measure, metric: str, point: Point, digests: dict[str, str] | None) -> dict[str, Any]:
    """All parameters of a metric at one point, each of its type; digests: of files that are known, None to ask none."""
    spec: dict[str, Any] = {"metric": metric}
    for name, default in measure.parameters.items():
        if name not in point and default is EMPTY:
            raise UnmaskError(f"metric {metric!r} needs {name}; put it under grid, zip or fixed")
        spec[name] = _typed(metric, name, point.get(name, default), default)
    if measure.open:
        spec |= {name: value for name, value in point.items() if name not in spec}
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
    """Of the contents of a file, or of the files in a directory; nothing for what is neither, as a name or a device.

    It is part of a cell, so that a language or a network that has changed is another one.
    """
    path = Path(name)
    if not os.path.isfile(path) and not os.path.isdir(path):
        return ""
    whole = hashlib.sha256()
    for file in [path] if path.is_file() else sorted(entry for entry in path.iterdir() if entry.is_file()):
        whole.update(file.name.encode() + b"\0" + hashlib.sha256(_contents(file)).digest())
    return whole.hexdigest()


def _contents(file: Path) -> bytes:
    """All of a file; of the weights of an open model, which are gigabytes, how many bytes they are and the ends."""
    if (size := file.stat().st_size) <= LARGE:
        return file.read_bytes()
    with open(file, "rb") as opened:
        first = opened.read(END)
        opened.seek(-END, os.SEEK_END)
        return str(size).encode() + first + opened.read()
