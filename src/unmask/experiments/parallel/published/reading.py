"""Results of any kind from paths: own records, runs with a line for each item, data of ParallelBench's site."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path

from unmask.core import progress
from unmask.core.errors import UnmaskError, cut
from unmask.experiments.evaluation import records
from unmask.experiments.parallel.points import Outcome, Point, of_samples
from unmask.experiments.parallel.published import runs, site
from unmask.experiments.parallel.published.site import Claim

LAYOUTS = (
    "a result tree of ParallelBench, a directory of lm-eval with --log_samples, records of `unmask eval`, "
    "or the directory `data` of ParallelBench's site"
)


@dataclass
class Published:
    outcomes: list[Outcome] = field(default_factory=list)
    points: list[Point] = field(default_factory=list)  # settings without items
    claims: list[Claim] = field(default_factory=list)  # PBx as published
    notes: list[str] = field(default_factory=list)


def read(paths: Sequence[str | Path]) -> Published:
    """Read all results of some files or directories."""
    everything = Published()
    for given in paths:
        before = len(everything.outcomes), len(everything.points), len(everything.claims)
        _add(everything, Path(given))
        if before == (len(everything.outcomes), len(everything.points), len(everything.claims)):
            raise UnmaskError(f"there are no results in {cut(str(given))}; expected {LAYOUTS}")
    return everything


def _add(everything: Published, path: Path) -> None:
    if not path.exists():
        raise UnmaskError(f"cannot read {cut(str(path))}: it does not exist; expected {LAYOUTS}")
    if (path / records.RECORDS).exists() or path.name == records.RECORDS:
        everything.outcomes += of_samples(records.read(path))
        return
    files = sorted(one for one in path.rglob("*") if one.is_file()) if path.is_dir() else [path]
    tables = [one for one in files if one.suffix == ".csv" and (one == path or one.parent.parent.name == site.FIGURES)]
    boards = [one for one in files if one.suffix == ".json" and one.parent.name == site.LEADERBOARD]
    everything.points += [point for file in tables for point in site.points(file)]
    everything.claims += [claim for file in boards for claim in site.claims(file)]
    samples = runs.newest(one for one in files if one.name.startswith("samples_") and one.suffix == ".jsonl")
    measured = set()
    with progress.track("reading results", len(samples)) as advance:
        for directory, own in groupby(sorted(samples), lambda run: run.path.parent):
            outcomes = []
            for run in own:
                outcomes += runs.outcomes(run)
                measured.add(run.place[1:])
                advance(1)
            everything.outcomes += outcomes
            everything.notes += runs.contradictions(directory, outcomes)
    results = [one for one in files if one.name == runs.RESULTS]
    everything.points += runs.points(results, measured)
