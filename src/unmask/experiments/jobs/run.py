"""sweep(): measure the cells of a recipe, or the rest of a store, and read the results as a table."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from unmask.core import arguments, progress
from unmask.core.errors import UnmaskError
from unmask.core.files import code, origin
from unmask.core.registry import imports, imports_allowed
from unmask.core.shown import Shown
from unmask.experiments.jobs import status as states
from unmask.experiments.jobs import tables
from unmask.experiments.jobs.cells import Cell, cell_of, cells_of, check
from unmask.experiments.jobs.database import hold
from unmask.experiments.jobs.driver import Driver
from unmask.experiments.jobs.recipe import Recipe, from_dict, read_recipe
from unmask.experiments.jobs.store import FILES, Store

if TYPE_CHECKING:
    import pandas

    from unmask.experiments.jobs.pools import Pool

HOME = Path("sweeps")  # where stores are made by default, one directory a name
MOST = 1000  # workers, threads of each, attempts
EngineName = Literal["local", "ray", "here"]


@dataclass(frozen=True)
class How:
    """What measures, and its limits: the options of sweep() that are not about cells."""

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

    def pool(self, directory: Path) -> Pool:
        from unmask.experiments.jobs import pools  # here, since no other command needs pebble

        match self.engine:
            case "here":
                return pools.here(directory)
            case "local":
                return pools.local(directory, self.workers, self.threads, self.limit)
        from unmask.experiments.jobs.cluster import cluster

        return cluster(directory, self.workers, self.threads, self.limit, self.address)


@dataclass(frozen=True, repr=False)
class Sweep(Shown):
    """The cells of a recipe in its store."""

    directory: Path
    keys: tuple[str, ...]
    seconds: float  # of this run

    def __repr__(self) -> str:
        return f"<Sweep of {len(self.keys)} cells in {self.directory}>"

    def rows(self) -> list[dict[str, Any]]:
        """One dict a cell and measure; failed cells are missing, and `status` has their errors."""
        with Store.open(self.directory) as store:
            return tables.rows(store, self.keys)

    @property
    def languages(self) -> dict[str, list[str]]:
        """The languages of its cells: names, or directories of networks, to digests."""
        found: dict[str, dict[str, None]] = {}
        for row in self.rows():
            if "language_digest" in row:
                found.setdefault(row.get("language") or row["model"], {})[row["language_digest"]] = None
        return {name: list(digests) for name, digests in found.items()}

    @property
    def work(self) -> float:
        """Seconds of all of its cells, also of those from earlier runs."""
        with Store.open(self.directory) as store:
            return sum(seconds for _, _, _, seconds, _ in store.records(self.keys))

    def failures(self) -> list[tuple[dict[str, Any], str]]:
        """(spec, error) of each of its cells that has failed."""
        with Store.open(self.directory) as store:
            errors = store.failures()
            return [(store.spec(key), errors[key]) for key in self.keys if key in errors]

    def whole(self) -> Sweep:
        """This sweep, or an error if a cell has failed."""
        failures = self.failures()
        if failures:
            spec, error = failures[0]
            about = ", ".join(f"{spec[name]}" for name in ("language", "model", "sampler", "length") if spec.get(name))
            raise UnmaskError(
                f"{len(failures)} of {len(self.keys)} cells failed, the first {spec['metric']} ({about}): {error}; "
                f"`unmask sweep retry {self.directory}` tries again"
            )
        return self

    def table(self) -> pandas.DataFrame:
        """The same as a DataFrame."""
        import pandas

        rows = self.rows()
        return pandas.DataFrame(rows, columns=tables.columns(rows))

    def files(self, key: str) -> list[Path]:
        """The files of a cell, in the order of its rows; the table has the `key`."""
        return sorted((self.directory / FILES / key).glob("*"))

    def status(self) -> dict[str, Any]:
        """Of the whole store: cells done, running, to do, and failed with their errors."""
        return states.status(self.directory)


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

    recipe: a YAML file, or the same as a dict.    store: a directory; by default sweeps/NAME.
    workers: processes, or Ray tasks, at a time.   threads: of each of them; by default they divide the cores.
    limit: seconds that a block of rows may take.  attempts: how often a cell may lose its process.
    address: of a Ray cluster; by default one is started.
    engine: "here" is this process alone, which knows the samplers that a notebook has registered.
    fresh: measure again what a different version of the code has measured, but for networks that it has trained.
    allow_imports: modules of which a recipe's file may name things, as "module:Name"; a program may name any.
    changes: other values for the recipe: rows=200, steps=[8, 16].
    """
    how = How(engine, workers, threads, address, limit, attempts)
    if isinstance(recipe, Recipe):
        plan = recipe.with_changes(changes)
    elif isinstance(recipe, Mapping):
        plan = from_dict(dict(recipe), "sweep").with_changes(changes)
    else:
        plan = read_recipe(arguments.path("recipe", recipe), changes)
    directory = HOME / plan.name if store is None else arguments.path("store", store)
    arguments.flag("fresh", fresh)
    with imports(_modules(allow_imports) or (imports_allowed() and not isinstance(recipe, str | Path))):
        cells = cells_of(plan)
        if not os.path.exists(directory):
            check(cells)  # before it is made
        with Store.create(directory) as made, _held(made):
            keys = made.add(cells)
            if fresh:
                made.renew(code(), keys, {cell.metric for cell in cells if cell.measure.lasts})
            return _driven(made, how, plan.to_dict(), cells)


def resume(directory: str | Path, *, again: bool = False, allow_imports: Sequence[str] = (), **options: Any) -> Sweep:
    """Measure all that a store still has to measure; again: also what has failed.

    allow_imports: modules of which its cells may name things, as "module:Name". options: those of How.
    """
    how = How(**options)
    with Store.open(arguments.path("store", directory)) as made, imports(_modules(allow_imports)), _held(made):
        if again:
            made.retry()
        todo = [cell_of(made.spec(key), planned=True) for key in made.keys("todo")]
        return _driven(made, how, made.last_recipe(), todo, made.keys())


def _modules(names: Sequence[str]) -> list[str]:
    if isinstance(names, str) or not isinstance(names, Sequence) or not all(isinstance(name, str) for name in names):
        arguments.refuse("allow_imports", names, "a list of modules' names")
    return list(names)


@contextmanager
def _held(store: Store) -> Iterator[None]:
    """Be the one process that writes a store."""
    with hold(store.directory) as killed:
        if killed:
            progress.note(f"the driver before, {killed}, was killed; unfinished cells are measured again")
        yield


def _driven(
    store: Store, how: How, recipe: Mapping[str, Any], cells: Sequence[Cell], keys: Sequence[str] = ()
) -> Sweep:
    """Measure those of these cells that are to be measured. keys: of the sweep, by default of these cells."""
    began, keys = time.perf_counter(), tuple(keys or (cell.key for cell in cells))
    wanted = set(store.keys("todo"))
    todo = {cell.key: cell for cell in cells if cell.key in wanted}
    if todo:
        check(list(todo.values()))
        pool = how.pool(store.directory)
        run = store.begin(recipe, origin(), how.engine)
        try:
            Driver(store, pool, run, todo, how.attempts).drive(str(recipe.get("name", "sweep")))
        finally:
            with suppress(UnmaskError), store.writing():
                store.progress(run, 0)
    return Sweep(store.directory, keys, time.perf_counter() - began)
