"""sweep(): run a recipe, or the rest of it, and have its numbers as a table."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from unmask.core import arguments, progress
from unmask.core.errors import UnmaskError
from unmask.core.files import code, origin
from unmask.core.registry import imports, imports_allowed
from unmask.core.shown import Shown
from unmask.experiments.jobs import seals, tables
from unmask.experiments.jobs import status as standing
from unmask.experiments.jobs.cells import Cell, cell_in, cells_of, check
from unmask.experiments.jobs.driver import Driver
from unmask.experiments.jobs.engines import Engine
from unmask.experiments.jobs.local import Local
from unmask.experiments.jobs.lock import hold
from unmask.experiments.jobs.recipe import Recipe, from_dict, read_recipe
from unmask.experiments.jobs.store import FILES, Store, release_all

if TYPE_CHECKING:
    import pandas

HOME = Path("sweeps")  # where stores are made unless told otherwise, one directory a name
MOST = 1000  # workers, threads of each, attempts
EngineName = Literal["local", "ray", "here"]


@dataclass(frozen=True)
class How:
    """What measures, and what it may take: the options of sweep() that are not about cells."""

    engine: EngineName = "local"
    workers: int | None = None
    threads: int | None = None
    address: str | None = None
    limit: float | None = None
    attempts: int = 3

    def __post_init__(self) -> None:
        for name in ("workers", "threads", "attempts"):
            if (value := getattr(self, name)) is not None:
                arguments.whole(name, value, 1, MOST)
        if self.limit is not None:
            arguments.number("limit", self.limit, above=True, what=" of seconds")
        if self.engine != "ray" and self.address is not None:
            raise UnmaskError("an address is that of a Ray cluster; say engine ray, too")
        if self.engine == "here" and (self.limit is not None or (self.workers or 1) > 1):
            raise UnmaskError("engine here is this process alone: it has no workers, and cannot be stopped at a limit")

    def make(self, directory: Path) -> Engine:
        match self.engine:
            case "here":
                from unmask.experiments.jobs.here import Here

                return Here(directory)
            case "local":
                return Local(directory, self.workers, self.threads, self.limit)
        from unmask.experiments.jobs.cluster import Cluster

        return Cluster(directory, self.workers, self.threads, self.address, self.limit)


@dataclass(frozen=True, repr=False)
class Sweep(Shown):
    """The cells of a recipe in its store."""

    directory: Path
    keys: tuple[str, ...]
    seconds: float  # of this run

    def __repr__(self) -> str:
        return f"<Sweep of {len(self.keys)} cells in {self.directory}>"

    def rows(self) -> list[dict[str, Any]]:
        """One dict a cell and measure; what has failed is missing, and `status` says why."""
        with Store.open(self.directory) as store:
            return tables.rows(store, self.keys)

    @property
    def languages(self) -> dict[str, list[str]]:
        """Which languages its cells are about: names, or directories of networks, to digests."""
        found: dict[str, dict[str, None]] = {}
        for row in self.rows():
            if "language_digest" in row:
                found.setdefault(row.get("language") or row["model"], {})[row["language_digest"]] = None
        return {name: list(digests) for name, digests in found.items()}

    @property
    def work(self) -> float:
        """Seconds of all of its cells, whoever has measured them and when."""
        with Store.open(self.directory) as store:
            return sum(seconds for _, _, _, seconds, _ in store.records(self.keys))

    def failures(self) -> list[tuple[dict[str, Any], str]]:
        """(spec, error) of each of its cells that has failed."""
        with Store.open(self.directory) as store:
            errors = store.failures()
            return [(store.spec(key), errors[key]) for key in self.keys if key in errors]

    def whole(self) -> Sweep:
        """Itself, where nothing has failed: what is drawn from all cells cannot do without some."""
        failures = self.failures()
        if failures:
            spec, error = failures[0]
            about = ", ".join(f"{spec[name]}" for name in ("language", "model", "sampler", "length") if spec.get(name))
            raise UnmaskError(
                f"{len(failures)} of {len(self.keys)} cells failed, the first {spec['metric']} ({about}): {error}; "
                f"`unmask sweep retry {self.directory}` tries again, and the same command goes on from there"
            )
        return self

    def table(self) -> pandas.DataFrame:
        """The same as a DataFrame."""
        import pandas

        rows = self.rows()
        return pandas.DataFrame(rows, columns=tables.columns(rows))

    def files(self, key: str) -> list[Path]:
        """What a cell has left beside its numbers, in the order of its rows; `key` stands in the table."""
        return sorted((self.directory / FILES / key).glob("*"))

    def status(self) -> dict[str, Any]:
        """Of the whole store: cells done, running, to do, failed and why."""
        return standing.status(self.directory)


def sweep(
    recipe: str | Path | Mapping[str, Any] | Recipe,
    *,
    store: str | Path | None = None,
    engine: EngineName = "local",
    workers: int | None = None,
    threads: int | None = None,
    address: str | None = None,
    limit: float | None = None,
    attempts: int = 3,
    fresh: bool = False,
    allow_imports: Sequence[str] = (),
    **changes: Any,
) -> Sweep:
    """Measure the cells of a recipe that its store does not have yet.

    recipe: a YAML file, or the same as a dict.    store: a directory; sweeps/NAME unless told otherwise.
    workers: processes, or Ray tasks, at a time.   threads: of each of them; all share the cores unless told otherwise.
    limit: seconds that a block of rows may take.  attempts: how often a cell may lose its process.
    address: of a Ray cluster; one is started where there is none.
    engine: "here" is this process alone, for what only it knows, such as a sampler that a notebook has registered.
    fresh: measure again what another version of the code has measured, but for networks that it has trained.
    allow_imports: modules of which a recipe's file may name things, as "module:Name"; a program may of all.
    changes: other values for the recipe: rows=200, steps=[8, 16].
    """
    how = How(engine, workers, threads, address, limit, attempts)
    plan = planned(recipe, changes)
    directory = HOME / plan.name if store is None else arguments.path("store", store)
    arguments.flag("fresh", fresh)
    with imports(modules(allow_imports) or (imports_allowed() and not isinstance(recipe, str | Path))):
        cells = cells_of(plan)
        if not os.path.exists(directory):
            check(cells)  # before it is made
        with Store.create(directory) as made:
            return _driven(made, how, plan.to_dict(), cells, fresh=fresh)


def resume(
    directory: str | Path,
    *,
    again: bool = False,
    engine: EngineName = "local",
    workers: int | None = None,
    threads: int | None = None,
    address: str | None = None,
    limit: float | None = None,
    attempts: int = 3,
    allow_imports: Sequence[str] = (),
) -> Sweep:
    """All that a store still has to do, whatever recipes it comes from; again: with what has failed.

    allow_imports: modules of which its cells may name things, as "module:Name", where the store was made here.
    """
    how = How(engine, workers, threads, address, limit, attempts)
    allowed = modules(allow_imports)
    with Store.open(arguments.path("store", directory)) as made, imports(allowed):
        return _driven(made, how, made.last_recipe() or {}, again=again)


def modules(names: Sequence[str]) -> list[str]:
    """Of which names in files may be imported."""
    if isinstance(names, str) or not isinstance(names, Sequence) or not all(isinstance(name, str) for name in names):
        arguments.refuse("allow_imports", names, "a list of modules' names")
    return list(names)


def planned(recipe: str | Path | Mapping[str, Any] | Recipe, changes: Mapping[str, Any]) -> Recipe:
    if isinstance(recipe, Recipe):
        return recipe.with_changes(changes)
    if isinstance(recipe, Mapping):
        return from_dict(dict(recipe), "sweep").with_changes(changes)
    return read_recipe(arguments.path("recipe", recipe), changes)


def _driven(
    store: Store,
    how: How,
    recipe: Mapping[str, Any],
    cells: Sequence[Cell] | None = None,
    *,
    fresh: bool = False,
    again: bool = False,
) -> Sweep:
    """Measure what is to do of these cells, or of all that the store has."""
    began = time.perf_counter()
    with hold(store.directory) as dead:
        if dead is not None:
            progress.note(f"{dead}; cells that it had given out, and that are to do again: {store.count('running')}")
        store.begin_again()
        keys = store.keys() if cells is None else store.add(cells)
        if fresh and cells is not None:
            store.renew(code(), keys, {cell.metric for cell in cells if cell.measure.lasts})
        if again:
            store.retry()
        known = {} if cells is None else dict(zip(keys, cells, strict=True))
        wanted = store.todo(keys)
        found = {key: store.spec(key) for key in wanted if key not in known}
        with seals.heeded(store.directory, found):
            todo = [(key, known.get(key) or cell_in(found[key], key)) for key in wanted]
            if todo:
                check([cell for _, cell in todo])
                seals.seal(store.directory, {key: cell.spec for key, cell in known.items()})
                _drive(store, how, recipe, todo)
    return Sweep(store.directory, tuple(keys), time.perf_counter() - began)


def _drive(store: Store, how: How, recipe: Mapping[str, Any], todo: Sequence[tuple[str, Cell]]) -> None:
    engine = how.make(store.directory)
    store.drop_blocks_of_others(code())
    run = store.begin(recipe, origin(), how.engine)
    try:
        Driver(store, engine, run, how.attempts).drive(todo, str(recipe.get("name", "sweep")))
    finally:
        with suppress(UnmaskError), store.writing() as connection:
            release_all(connection)
        with suppress(UnmaskError):
            store.end(run)
