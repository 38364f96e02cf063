"""Data of ParallelBench's site: curves as CSV files, and PBx as JSON.

figures/MODEL/SAMPLER.csv      task, tps (tokens per step), accuracy in percent. The rows `avg` are the settings: the
                               means over the tasks. Other rows have no setting and are left out
leaderboard/MODEL.json         {"thresholds": [..], "results": {SAMPLER: {"80": PB80, ..}}}, 0 where never reached
"""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Annotated, NamedTuple

import msgspec

from unmask.core.errors import UnmaskError, cut
from unmask.core.reading import fit, read_json, read_text
from unmask.experiments.parallel.points import Point

SOURCE = "parallelbench site"
FIGURES, LEADERBOARD = "figures", "leaderboard"
COLUMNS = ["task", "tps", "accuracy"]
MEANS = "avg"
TOP_K = ("random", "l2r", "confidence-topk", "entropy-topk", "topk-margin")


class Claim(NamedTuple):
    """PBx as published; None if never reached."""

    source: str
    model: str
    sampler: str
    threshold: float
    value: float | None


class Board(msgspec.Struct):
    thresholds: list[float]
    results: dict[str, dict[str, float]]


class Numbers(msgspec.Struct):
    tps: Annotated[float, msgspec.Meta(gt=0)]
    accuracy: Annotated[float, msgspec.Meta(ge=0, le=100)]


def points(path: Path) -> list[Point]:
    """The settings of one file, from few to many tokens per step."""
    rows = csv.reader(read_text(path).splitlines())
    if next(rows, None) != COLUMNS:
        raise UnmaskError(f"cannot read {cut(str(path))}, line 1: expected the columns {','.join(COLUMNS)}")
    means = []
    for number, row in enumerate(rows, 2):
        if len(row) != len(COLUMNS):
            raise UnmaskError(f"cannot read {cut(str(path))}, line {number}: it has {len(row)} columns; expected 3")
        if row[0] == MEANS:
            means.append(_numbers(row, f"{path}, line {number}"))
    model, sampler = path.parent.name, path.stem
    ordered = sorted(means, key=lambda one: (one.tps, -one.accuracy))
    names = [f"k{one.tps:g}" if sampler in TOP_K else f"#{rank}" for rank, one in enumerate(ordered, 1)]
    named = zip(names, ordered, strict=True)
    return [Point(SOURCE, model, sampler, name, one.tps, one.accuracy) for name, one in named]


def claims(path: Path) -> list[Claim]:
    board = read_json(path, Board)
    return [
        Claim(SOURCE, path.stem, sampler, threshold, own[f"{threshold:g}"] or None)
        for sampler, own in board.results.items()
        for threshold in board.thresholds
        if f"{threshold:g}" in own
    ]


def _numbers(row: list[str], where: str) -> Numbers:
    try:
        named = {name: float(text) for name, text in zip(COLUMNS[1:], row[1:], strict=True)}
    except ValueError as error:
        raise UnmaskError(
            f"cannot read {cut(where)}: {cut(','.join(row))} has no numbers; expected avg,2.5,80"
        ) from error
    return fit(named, Numbers, where)
