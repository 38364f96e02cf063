"""Results from files: own records, items of any program, and the data of ParallelBench's site.

items                        lines of CSV or JSON with the fields of `Line`: item, right and calls, one line an item
records.jsonl                records of `unmask eval`
site, figures/MODEL/SAMPLER.csv      task, tps (tokens per step), accuracy in percent. The rows `avg` are the
                             settings: the means over the tasks. Other rows have no setting and are left out
site, leaderboard/MODEL.json {"thresholds": [..], "results": {SAMPLER: {"80": PB80, ..}}}, 0 where never reached
"""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from math import isfinite
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import msgspec

from unmask.core.errors import UnmaskError, cut
from unmask.core.reading import fit, read_json, read_lines, read_text
from unmask.tasks.evaluation import records
from unmask.tasks.parallel.points import Outcome, Point, of_samples

SITE, ITEMS = "parallelbench site", "items"  # sources
LEADERBOARD = "leaderboard"
COLUMNS = ["task", "tps", "accuracy"]
MEANS = "avg"
TOP_K = ("random", "l2r", "confidence-topk", "entropy-topk", "topk-margin")
LAYOUTS = (
    "files of items (.csv or .jsonl with item, right and calls), records of `unmask eval`, "
    "or the directory `data` of ParallelBench's site"
)
Amount = Annotated[float, msgspec.Meta(ge=0)]


class Claim(NamedTuple):
    """PBx as published; None if never reached."""

    source: str
    model: str
    sampler: str
    threshold: float
    value: float | None


class Line(msgspec.Struct, forbid_unknown_fields=True):
    """One item. Without a name of the sampler, it is that of the file."""

    item: str | int
    right: Annotated[float, msgspec.Meta(ge=0, le=1)]
    calls: Amount | None = None  # model calls
    canvas: Annotated[int, msgspec.Meta(gt=0)] | None = None  # masked positions at the beginning
    written: Amount | None = None  # tokens without padding
    task: str = "task"
    setting: str = "usual"
    sampler: str = ""
    model: str = "model"


class Board(msgspec.Struct):
    thresholds: list[float]
    results: dict[str, dict[str, float]]


class Numbers(msgspec.Struct):
    tps: Annotated[float, msgspec.Meta(gt=0)]
    accuracy: Annotated[float, msgspec.Meta(ge=0, le=100)]


@dataclass
class Published:
    outcomes: list[Outcome] = field(default_factory=list)
    points: list[Point] = field(default_factory=list)  # settings without items
    claims: list[Claim] = field(default_factory=list)  # PBx as published


def read(paths: Sequence[str | Path]) -> Published:
    """Read all results of some files or directories."""
    everything = Published()
    for given in paths:
        path = Path(given)
        if not path.exists():
            raise UnmaskError(f"cannot read {cut(str(path))}: it does not exist; expected {LAYOUTS}")
        results = _read(path)
        if not (results.outcomes or results.points or results.claims):
            raise UnmaskError(f"there are no results in {cut(str(path))}; expected {LAYOUTS}")
        everything.outcomes += results.outcomes
        everything.points += results.points
        everything.claims += results.claims
    return everything


def _read(path: Path) -> Published:
    if (path / records.RECORDS).exists() or path.name == records.RECORDS:
        return Published(of_samples(records.read(path)))
    results = Published()
    files = sorted(one for one in path.rglob("*") if one.is_file()) if path.is_dir() else [path]
    for file in files:
        if file.suffix == ".jsonl":
            results.outcomes += [_outcome(line, file) for _, line in read_lines(file, Line)]
        elif file.suffix == ".csv":
            rows = list(csv.reader(read_text(file).splitlines()))
            if rows[:1] == [COLUMNS]:
                results.points += _points(rows[1:], file)
            else:
                results.outcomes += [_outcome(line, file) for line in _lines(rows, file)]
        elif file.suffix == ".json" and file.parent.name == LEADERBOARD:
            results.claims += _claims(file)
    return results


def _lines(rows: Sequence[list[str]], file: Path) -> Iterator[Line]:
    """The items of a CSV file, whose first row names the columns; an empty cell is unknown."""
    names = rows[0] if rows else []
    for number, row in enumerate(rows[1:], 2):
        where = f"{file}, line {number}"
        if len(row) != len(names):
            raise UnmaskError(f"cannot read {cut(where)}: it has {len(row)} columns; expected {len(names)}")
        yield fit({name: _plain(name, cell) for name, cell in zip(names, row, strict=True) if cell}, Line, where)


def _plain(name: str, cell: str) -> Any:
    """The number in a cell of a column of numbers, else its text."""
    if name not in ("right", "calls", "canvas", "written"):
        return cell
    try:
        number = float(cell)
    except ValueError:
        return cell
    return int(number) if number.is_integer() else number if isfinite(number) else cell


def _outcome(line: Line, file: Path) -> Outcome:
    return Outcome(
        source=ITEMS,
        model=line.model,
        sampler=line.sampler or file.stem,
        setting=line.setting,
        task=line.task,
        item=str(line.item),
        score=line.right,
        forwards=line.calls,
        canvas=line.canvas,
        written=line.written,
    )


def _points(rows: Sequence[list[str]], file: Path) -> list[Point]:
    """The settings of one file of the site, from few to many tokens per step."""
    means = []
    for number, row in enumerate(rows, 2):
        where = f"{file}, line {number}"
        if len(row) != len(COLUMNS):
            raise UnmaskError(f"cannot read {cut(where)}: it has {len(row)} columns; expected 3")
        if row[0] == MEANS:
            means.append(_numbers(row, where))
    model, sampler = file.parent.name, file.stem
    ordered = sorted(means, key=lambda one: (one.tps, -one.accuracy))
    names = [f"k{one.tps:g}" if sampler in TOP_K else f"#{rank}" for rank, one in enumerate(ordered, 1)]
    named = zip(names, ordered, strict=True)
    return [Point(SITE, model, sampler, name, one.tps, one.accuracy) for name, one in named]


def _numbers(row: list[str], where: str) -> Numbers:
    try:
        named = {name: float(text) for name, text in zip(COLUMNS[1:], row[1:], strict=True)}
    except ValueError as error:
        raise UnmaskError(
            f"cannot read {cut(where)}: {cut(','.join(row))} has no numbers; expected avg,2.5,80"
        ) from error
    return fit(named, Numbers, where)


def _claims(file: Path) -> list[Claim]:
    board = read_json(file, Board)
    return [
        Claim(SITE, file.stem, sampler, threshold, own[f"{threshold:g}"] or None)
        for sampler, own in board.results.items()
        for threshold in board.thresholds
        if f"{threshold:g}" in own
    ]
