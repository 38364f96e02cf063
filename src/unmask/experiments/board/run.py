"""board(): measure, and say what came out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from unmask.core.errors import UnmaskError
from unmask.core.shown import Shown
from unmask.experiments.board import kept
from unmask.experiments.board.curves import FAILURE
from unmask.experiments.board.families import family
from unmask.experiments.board.grid import Settings, recipe
from unmask.experiments.board.joining import Failure, Measured, joined
from unmask.experiments.board.measures import Curve
from unmask.experiments.board.optimum import best
from unmask.experiments.board.standings import Record, records
from unmask.experiments.jobs.cells import canonical
from unmask.experiments.jobs.run import EngineName, Sweep, sweep
from unmask.experiments.jobs.store import FILES, Store
from unmask.networks.model.checkpoints import read_language


@dataclass(frozen=True, repr=False)
class Board(Shown):
    """What was measured, and what could not be."""

    settings: Settings
    records: Sequence[Record]
    failures: Sequence[Failure]
    seconds: float  # of all cells, whenever they were measured
    languages: Mapping[str, Sequence[str]]  # names to digests, one a seed

    def __repr__(self) -> str:
        return f"<Board of {len({r['sampler'] for r in self.records})} samplers, {len(self.records)} records>"

    def of(self, measure: str) -> list[Record]:
        return [record for record in self.records if record["measure"] == measure]


def board(
    settings: Settings | None = None,
    *,
    store: str | Path | None = None,
    engine: EngineName = "here",
    workers: int | None = None,
) -> Board:
    """Samplers on the exact denoisers of languages: every number with its interval.

    store: a directory of `unmask.sweep`, from which an interrupted board goes on; none is kept unless told so.
    engine, workers: those of `unmask.sweep`; "here" knows samplers that this program has registered.
    """
    settings = settings or Settings()
    plan = recipe(settings)
    with _directory(store) as directory:
        return of_sweep(sweep(plan, store=directory, engine=engine, workers=workers, fresh=True), settings)


def of_sweep(made: Sweep, settings: Settings) -> Board:
    """What its curves come to; fails if there is none."""
    found, failures = measured(made)
    if not found:
        raise UnmaskError(f"no sampler could be measured; {failures[0].sampler}: {failures[0].message}")
    return Board(settings, records(found, settings, best(found)), failures, made.work, made.languages)


def measured(made: Sweep) -> tuple[list[Measured], list[Failure]]:
    """The curves of a sweep, which may have other cells beside them, and what failed: by language, then by sampler."""
    by_place: dict[tuple[str, int], dict[str, list[_Cell]]] = {}
    for cell in _cells(made):
        members = by_place.setdefault((cell.language, cell.spec["length"]), {})
        members.setdefault(canonical(cell.spec | {"language_seed": None, "seed": None}), []).append(cell)
    found: list[Measured] = []
    failures: list[Failure] = []
    for (language, length), members in by_place.items():
        for cells in members.values():
            member = family(cells[0].spec["sampler"], length, cells[0].spec["quick"])
            about = language, length, member.specification, member.knob
            failures += [Failure(*about, value, message) for value, message in _failed(cells)]
            if not any(cell.error for cell in cells):
                points = joined(member, length, [kept.read(cell.file, cell.spec["rows"]) for cell in cells])
                if points:
                    seeds = tuple(cell.spec["language_seed"] for cell in cells if not cell.spec["model"])
                    found.append(Measured(language, length, member, Curve(points), seeds))
    return found, failures


@dataclass(frozen=True)
class _Cell:
    """A `curve` as its store has it: records and a file, or an error."""

    spec: dict[str, Any]
    records: list[Record]
    file: Path
    error: str

    @property
    def language(self) -> str:
        """As people know it."""
        return read_language(self.spec["model"])[1] if self.spec["model"] else str(self.spec["language"])


def _cells(made: Sweep) -> list[_Cell]:
    with Store.open(made.directory) as store:
        done = {key: (spec, records) for key, spec, records, _, _ in store.records(made.keys)}
        failed = store.failures()
        found = []
        for key in made.keys:
            spec, records = done[key] if key in done else (store.spec(key), [])
            if spec["metric"] == "curve":
                if key not in done and key not in failed:
                    raise UnmaskError(f"not all of {made.directory} is measured; `unmask sweep resume` goes on with it")
                file = made.directory / FILES / key / kept.FILE
                found.append(_Cell(spec, records, file, "" if key in done else failed[key]))
        return found


def _failed(cells: Sequence[_Cell]) -> list[tuple[object, str]]:
    """(value of the knob, why) of what the cells of all seeds could not do, each budget once; None: a whole cell."""
    whole = {cell.error: None for cell in cells if cell.error}
    budgets: dict[str, tuple[object, str]] = {}
    for cell in cells:
        for record in cell.records:
            if record["measure"] == FAILURE:
                budgets.setdefault(canonical(record["budget"]), (record["budget"], record["note"]))
    return [*((None, error) for error in whole), *budgets.values()]


@contextmanager
def _directory(store: str | Path | None) -> Iterator[Path]:
    if store is not None:
        yield Path(store)
        return
    with TemporaryDirectory(prefix="unmask-board-") as made:
        try:
            yield Path(made)
        except KeyboardInterrupt:
            raise KeyboardInterrupt("no store was named, and nothing is kept") from None
