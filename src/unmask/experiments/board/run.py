"""board(): measure samplers and summarize the results."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from unmask.core.errors import UnmaskError
from unmask.core.tables import Shown
from unmask.experiments.board.cells import FILE, from_file, joined
from unmask.experiments.board.families import family
from unmask.experiments.board.grid import Settings, recipe
from unmask.experiments.board.measures import Curve, Measured
from unmask.experiments.board.standings import Record, records
from unmask.experiments.cell import canonical
from unmask.experiments.jobs.curve import FAILURE
from unmask.experiments.pool import EngineName
from unmask.experiments.run import Sweep, sweep
from unmask.experiments.store import Store
from unmask.languages.reading import unseeded
from unmask.models.trained.checkpoints import read_language


@dataclass(frozen=True)
class Failure:
    """A failed budget or sampler; the others go on without it."""

    language: str
    length: int
    sampler: str
    knob: str
    value: object  # of the knob; None if a whole seed failed
    message: str


@dataclass(frozen=True, repr=False)
class Board(Shown):
    """The records and failures of a board."""

    settings: Settings
    records: Sequence[Record]
    failures: Sequence[Failure]
    seconds: float  # of all cells, including earlier runs
    languages: Mapping[str, Sequence[str]]  # names to digests, one for each seed

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
    """Measure samplers on the exact denoisers of languages, with intervals.

    store: a directory of `unmask.sweep`, which can resume an interrupted board (default: a temporary one).
    engine, workers: of `unmask.sweep`; "here" has the samplers that this program registered.
    """
    settings = settings or Settings()
    plan = recipe(settings)
    with _directory(store) as directory:
        return of_sweep(sweep(plan, store=directory, engine=engine, workers=workers, fresh=True), settings)


def of_sweep(run: Sweep, settings: Settings) -> Board:
    """The results of the curves of a sweep; fails if there is no curve."""
    curves, failures = measured(run)
    if not curves:
        raise UnmaskError(f"no sampler could be measured; {failures[0].sampler}: {failures[0].message}")
    return Board(settings, records(curves, settings), failures, run.work, run.languages)


def measured(run: Sweep) -> tuple[list[Measured], list[Failure]]:
    """The curves and failures of a sweep, by language, then by sampler; other cells are left out."""
    by_place: dict[tuple[str, int], dict[str, list[_Cell]]] = {}
    for cell in _cells(run):
        members = by_place.setdefault((cell.language, cell.spec["length"]), {})
        of_all_seeds = cell.spec | {"language": cell.language, "seed": None}
        members.setdefault(canonical(of_all_seeds), []).append(cell)
    curves: list[Measured] = []
    failures: list[Failure] = []
    for (language, length), members in by_place.items():
        for cells in members.values():
            member = family(cells[0].spec["sampler"], length, cells[0].spec["quick"])
            about = language, length, member.specification, member.knob
            failures += [Failure(*about, value, message) for value, message in _failed(cells)]
            if not any(cell.error for cell in cells):
                points = joined(member, length, [from_file(cell.file, cell.spec["rows"]) for cell in cells])
                if points:
                    specs = tuple(cell.spec["language"] for cell in cells if not cell.spec["model"])
                    curves.append(Measured(language, length, member, Curve(points), specs))
    return curves, failures


@dataclass(frozen=True)
class _Cell:
    """A `curve` in its store: records and a file, or an error."""

    spec: dict[str, Any]
    records: list[Record]
    file: Path
    error: str

    @property
    def language(self) -> str:
        """Its spec without a seed: seeds are pooled by it."""
        return unseeded(read_language(self.spec["model"])[1] if self.spec["model"] else self.spec["language"])


def _cells(run: Sweep) -> list[_Cell]:
    store, cells = Store.open(run.directory), []
    for key in run.keys:
        if store.cells[key].job == "curve":
            if key not in store.done and key not in store.failed:
                raise UnmaskError(f"{run.directory} is not complete; `unmask sweep resume` continues it")
            error, file = store.failed[key].error if key in store.failed else "", store.place(key) / FILE
            cells.append(_Cell(store.spec(key), [] if error else store.records(key), file, error))
    return cells


def _failed(cells: Sequence[_Cell]) -> list[tuple[object, str]]:
    """(value of the knob, reason) of the failures of all seeds, each budget once; None: a whole cell."""
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
    with TemporaryDirectory(prefix="unmask-board-") as directory:
        try:
            yield Path(directory)
        except KeyboardInterrupt:
            raise KeyboardInterrupt("the results are lost; pass a store to keep them") from None
