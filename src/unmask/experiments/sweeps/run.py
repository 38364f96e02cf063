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
from unmask.experiments.sweeps import status as states
from unmask.experiments.sweeps import tables
from unmask.experiments.sweeps.cells import Cell, cell_of, cells_of, check
from unmask.experiments.sweeps.database import hold
from unmask.experiments.sweeps.driver import Driver
from unmask.experiments.sweeps.recipe import Recipe, from_dict, read_recipe
from unmask.experiments.sweeps.store import FILES, Store

if TYPE_CHECKING:
    import pandas

    from unmask.experiments.sweeps.pools import Pool

HOME = Path("sweeps")  # the default directory of stores, by name
MOST = 1000  # workers, threads of each, attempts
EngineName = Literal["local", "ray", "here"]


@dataclass(frozen=True)
class How:
    """The engine and its limits: options of sweep() that do not change cells."""

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
            raise UnmaskError("address is that of a Ray cluster. Pass engine ray, too")
        if self.engine == "here" and (self.limit is not None or (self.workers or 1) > 1):
            raise UnmaskError("engine `here` uses this process only. Leave workers and limit out")

    def pool(self, directory: Path) -> Pool:
        from unmask.experiments.sweeps import pools  # here, since no other command needs pebble

        match self.engine:
            case "here":
                return pools.here(directory)
            case "local":
                return pools.local(directory, self.workers, self.threads, self.limit)
        from unmask.experiments.sweeps.cluster import cluster

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
        """One dict for each record; failed cells are missing, and `status` has their errors."""
        with Store.open(self.directory) as store:
            return tables.rows(store, self.keys)

    @property
    def languages(self) -> dict[str, list[str]]:
        """The digests of its languages, by spec without seed or by directory of the network."""
        from unmask.languages.presets import unseeded

        digests: dict[str, dict[str, None]] = {}
        for row in self.rows():
            if "language_digest" in row:
                digests.setdefault(unseeded(row.get("language") or row["model"]), {})[row["language_digest"]] = None
        return {name: list(own) for name, own in digests.items()}

    @property
    def work(self) -> float:
        """Seconds of all its cells, including earlier runs."""
        with Store.open(self.directory) as store:
            return sum(seconds for _, _, _, seconds, _ in store.records(self.keys))

    def failures(self) -> list[tuple[dict[str, Any], str]]:
        """(spec, error) of each failed cell."""
        with Store.open(self.directory) as store:
            errors = store.failures()
            return [(store.spec(key), errors[key]) for key in self.keys if key in errors]

    def whole(self) -> Sweep:
        """This sweep; raises an error if a cell failed."""
        failures = self.failures()
        if failures:
            spec, error = failures[0]
            about = ", ".join(f"{spec[name]}" for name in ("language", "model", "sampler", "length") if spec.get(name))
            raise UnmaskError(
                f"{len(failures)} of {len(self.keys)} cells failed, the first {spec['job']} ({about}): {error}; "
                f"`unmask sweep retry {self.directory}` tries again"
            )
        return self

    def table(self) -> pandas.DataFrame:
        """The rows as a DataFrame."""
        import pandas

        rows = self.rows()
        return pandas.DataFrame(rows, columns=tables.columns(rows))

    def files(self, key: str) -> list[Path]:
        """The files of a cell, in the order of its rows; the table has its `key`."""
        return sorted((self.directory / FILES / key).glob("*"))

    def status(self) -> dict[str, Any]:
        """Counts of the whole store: cells done, running, to do, and failed with their errors."""
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
    """Measure the cells of a recipe that are missing in its store.

    recipe: a YAML file, or its content as a dict.  store: a directory (default: sweeps/NAME).
    workers: number of processes or Ray tasks.      threads: of each worker (default: cores / workers).
    limit: maximum seconds for a block of rows.     attempts: number of processes that a cell may lose.
    address: of a Ray cluster (default: start one).
    engine: "here" is this process alone; it has the samplers that a notebook registered.
    fresh: measure cells of other code versions again, except for trained networks.
    allow_imports: modules that a recipe file may import from, as "module:Name"; a program may name any.
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
            check(cells)  # before the store is created
        with Store.create(directory) as target, _locked(target):
            keys = target.add(cells)
            if fresh:
                target.renew(code(), keys, {cell.job for cell in cells if cell.measure.lasts})
            return _driven(target, how, plan.to_dict(), cells)


def resume(directory: str | Path, *, again: bool = False, allow_imports: Sequence[str] = (), **options: Any) -> Sweep:
    """Measure the remaining cells of a store. again: also the failed cells.

    allow_imports: modules that its cells may import from, as "module:Name". options: of How.
    """
    how = How(**options)
    with Store.open(arguments.path("store", directory)) as store, imports(_modules(allow_imports)), _locked(store):
        if again:
            store.retry()
        todo = [cell_of(store.spec(key), planned=True) for key in store.keys("todo")]
        return _driven(store, how, store.last_recipe(), todo, store.keys())


def _modules(names: Sequence[str]) -> list[str]:
    if isinstance(names, str) or not isinstance(names, Sequence) or not all(isinstance(name, str) for name in names):
        arguments.refuse("allow_imports", names, "a list of module names")
    return list(names)


@contextmanager
def _locked(store: Store) -> Iterator[None]:
    with hold(store.directory) as killed:
        if killed:
            progress.note(f"the last driver, {killed}, was killed; unfinished cells are measured again")
        yield


def _driven(
    store: Store, how: How, recipe: Mapping[str, Any], cells: Sequence[Cell], keys: Sequence[str] = ()
) -> Sweep:
    """Measure the unfinished cells among these. keys: of the sweep (default: of these cells)."""
    began, keys = time.perf_counter(), tuple(keys or (cell.key for cell in cells))
    unfinished = set(store.keys("todo"))
    todo = {cell.key: cell for cell in cells if cell.key in unfinished}
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
