"""sweep(): measure the cells of a recipe, or the rest of a store, and read the results as a table."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections import Counter, deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

from unmask.core import arguments, entries, progress
from unmask.core.errors import UnmaskError, needed
from unmask.core.files import code, origin
from unmask.core.registry import IMPORTS, imports
from unmask.core.run import Measuring
from unmask.experiments.cell import SCHEMA, Cell, Rows, cell_of, cells_of, check, find, merged
from unmask.experiments.parts import Part
from unmask.experiments.pool import ENGINES, Answer, Block
from unmask.experiments.recipe import Recipe, from_dict, read_recipe
from unmask.experiments.store import Block as Stored
from unmask.experiments.store import Done, Failed, Planned, Run, Store, Writer, writing
from unmask.experiments.tables import columns, status

if TYPE_CHECKING:
    import pandas

HOME = Path("sweeps")  # the default directory of stores, by name
MOST = 1000  # workers, threads of each, attempts


@dataclass(frozen=True, repr=False)
class Sweep:
    """The cells of a recipe in its store."""

    directory: Path
    keys: tuple[str, ...]
    seconds: float  # of this run

    def __repr__(self) -> str:
        return f"<Sweep of {len(self.keys)} cells in {self.directory}>"

    @property
    def store(self) -> Store:
        return Store.open(self.directory)

    def rows(self) -> list[dict[str, Any]]:
        """One dict for each record; failed cells are missing, and `status` has their errors."""
        return list(self.store.rows(set(self.keys)))

    @property
    def work(self) -> float:
        """Seconds of all its cells, including earlier runs."""
        done = entries.picked(self.store.done, self.keys)
        return sum(entries.column(done.values(), "seconds"))

    def failures(self) -> list[tuple[dict[str, Any], str]]:
        """(spec, error) of each failed cell."""
        store = self.store
        return [(store.spec(key), store.failed[key].error) for key in self.keys if key in store.failed]

    def whole(self) -> Sweep:
        """This sweep; raises an error if a cell failed."""
        failures = self.failures()
        if failures:
            spec, error = failures[0]
            named = entries.picked(spec, ("language", "model", "sampler", "length"))
            about = ", ".join(map(str, filter(None, named.values())))
            raise UnmaskError(
                f"{len(failures)} of {len(self.keys)} cells failed, the first {spec['job']} ({about}): {error}; "
                f"`unmask sweep retry {self.directory}` tries again"
            )
        return self

    def table(self) -> pandas.DataFrame:
        """The rows as a DataFrame."""
        with needed("pages", "a table as a DataFrame"):
            import pandas

        rows = self.rows()
        return pandas.DataFrame(rows, columns=columns(rows))

    def status(self) -> dict[str, Any]:
        """Counts of the whole store: cells done, running, to do, and failed with their errors."""
        return status(self.directory)


def sweep(
    recipe: str | Path | Mapping[str, Any] | Recipe,
    *,
    store: str | Path | None = None,
    part: str = "1/1",
    engine: str = "local",
    address: str | None = None,
    workers: int | None = None,
    threads: int | None = None,
    limit: float | None = None,
    attempts: int = 3,
    fresh: bool = False,
    allow_imports: Sequence[str] = (),
    **changes: Any,
) -> Sweep:
    """Measure the cells of a recipe that are missing in its store.

    recipe: a YAML file, or its content as a dict. store: a directory (default: sweeps/NAME). limit: seconds of a block.
    part: "3/40" is the third of 40 parts of the cells (default store: sweeps/NAME-3-of-40); `merge` joins their stores.
    engine: "here" is this process alone; it has the samplers that a notebook registered. "ray" is a cluster at an
    address, or a new one on this machine. "module:Name" is your own.
    fresh: measure cells of other code versions again, except for trained networks.
    allow_imports: modules that a recipe file may import from, as "module:Name"; a program may name any.
    changes: other values for the recipe: rows=200, steps=[8, 16].
    """
    how = _checked(Measuring(engine, address, workers, threads, limit, attempts, allow_imports))  # type: ignore[arg-type]

    if isinstance(recipe, Recipe | Mapping):
        plan = recipe if isinstance(recipe, Recipe) else from_dict(dict(recipe), "sweep")
        plan = plan.with_changes(changes)
    else:
        plan = read_recipe(arguments.path("recipe", recipe), changes)
    share = Part.of(part)
    directory = share.beside(HOME / plan.name) if store is None else arguments.path("store", store)
    arguments.flag("fresh", fresh)

    # a recipe of a program may name any module; a file only those that the user allowed
    with imports(how.allow_imports or (IMPORTS.get() and not isinstance(recipe, str | Path))):
        cells = share.cells(cells_of(plan))
        if not os.path.exists(directory):
            check(cells)  # before the store is created
        with writing(directory) as target:
            todo = [cell for cell in cells if not _settled(target, cell, fresh)]
            return _driven(target, how, asdict(plan), todo, cells)


def resume(directory: str | Path, *, again: bool = False, **options: Any) -> Sweep:
    """Measure the remaining cells of a store. again: also the failed cells. options: of `sweep`."""
    how = _checked(Measuring(**options))
    directory = arguments.path("store", directory)
    recipe = Store.open(directory).runs[-1].recipe
    with imports(how.allow_imports), writing(directory) as store:
        left = [*entries.column(store.todo, "key"), *(store.failed if again else ())]
        return _driven(store, how, recipe, [cell_of(store.spec(key), planned=True) for key in left])


def _settled(store: Store, cell: Cell, fresh: bool) -> bool:
    """Whether a cell has an answer. fresh: of this version of the code, except for a lasting one."""
    if (failed := store.failed.get(cell.key)) is not None:
        return not fresh or failed.code == code()
    done = store.done.get(cell.key)
    return done is not None and (not fresh or done.code == code() or find(cell.job).lasts)


def _checked(how: Measuring) -> Measuring:
    engine = how.engine or "local"
    with imports(True):  # the user names the engine, not the recipe
        ENGINES.bind(engine, len(ENGINES.given))

    counts = entries.picked(vars(how), ("workers", "threads", "attempts"))
    for name, value in entries.given(counts).items():
        arguments.whole(name, value, 1, MOST)
    if how.limit is not None:
        arguments.number("limit", how.limit, above=True, what=" of seconds")

    if engine in ("here", "local") and how.address is not None:
        raise UnmaskError(
            f"address is set, but engine `{engine}` is this machine alone. Use engine ray, or leave it out"
        )
    if engine == "here" and (how.limit is not None or (how.workers or 1) > 1):
        raise UnmaskError("engine `here` uses this process only. Leave workers and limit out")

    modules = arguments.texts("allow_imports", how.allow_imports, "a list of module names")
    return replace(how, engine=engine, allow_imports=tuple(modules))


def _driven(
    store: Writer, how: Measuring, recipe: Mapping[str, Any], todo: Sequence[Cell], cells: Sequence[Cell] = ()
) -> Sweep:
    """Measure the rest of a store. cells: of the sweep (default: all of the store)."""
    began = time.perf_counter()
    if store.killed:
        progress.note(f"the last driver, {store.killed}, was killed; unfinished cells are measured again")

    if todo or not store.runs:
        check(todo)
        about = origin()
        run = Run(SCHEMA, time.time(), about["code"], str(how.engine), dict(recipe), about)
        known = set(entries.column(store.todo, "key"))
        planned = [Planned(c.key, c.stem, c.job, c.values) for c in todo if c.key not in known]
        store.append(run, *planned)
        _Drive(store, todo, how).run(str(recipe.get("name", "sweep")))

    keys = tuple(entries.column(cells, "key")) or tuple(store.cells)
    return Sweep(store.directory, keys, time.perf_counter() - began)


class _Drive:
    """One run: blocks that are ready, cells that wait for others, and the answers."""

    def __init__(self, store: Writer, cells: Sequence[Cell], how: Measuring) -> None:
        self.store, self.how = store, how
        self.code = code()
        self.waiting = list(cells)
        self.cells = dict(zip(entries.column(cells, "key"), cells, strict=True))
        self.plan: dict[str, list[Rows]] = {}  # the blocks of each cell
        self.open: dict[str, set[Rows]] = {}  # the unfinished ones of each unfinished cell
        self.lost = Counter[tuple[str, Rows]]()
        self.ready = deque[Block]()
        self.blocks = sum(len(cell.blocks(self._there(cell))[1]) for cell in cells)
        self._wake()

    def _there(self, cell: Cell) -> dict[Rows, Stored]:
        """The finished blocks; all sums of a cell are of one version of the code."""
        blocks = self.store.blocks.get(cell.stem, {}).items()
        return {rows: block for rows, block in blocks if block.code == self.code}

    def _wake(self) -> None:
        """Queue the cells whose needs are done; fail those whose needs have failed."""
        before = -1
        while before != len(self.waiting):  # a cell that fails may fail others that wait for it
            before = len(self.waiting)
            self.waiting = [cell for cell in self.waiting if not self._begun(cell)]

    def _begun(self, cell: Cell) -> bool:
        for before in cell.needs:
            if (failed := self.store.failed.get(before.key)) is not None:
                error = f"it needs a cell of {before.job!r}, which has failed: {failed.error}"
                self.store.append(Failed(cell.key, self.code, 0, error))
                return True
            if before.key not in self.store.done:
                return False

        # finished blocks of cells that differ only in their rows count, too
        used, missing = cell.blocks(self._there(cell))
        self.plan[cell.key] = sorted([*used, *missing])
        self.open[cell.key] = set(missing)
        whole = len(used) + len(missing) == 1
        needs = tuple(entries.column(cell.needs, "stem"))
        self.ready += [Block(cell.key, cell.stem, cell.job, cell.values, rows, whole, needs) for rows in missing]
        if not missing:
            self.ready.append(self._last(cell))
        return True

    def _finished(self, cell: Cell) -> list[Stored]:
        """The blocks of a cell, all of which are done."""
        return list(map(self._there(cell).__getitem__, self.plan[cell.key]))

    def _last(self, cell: Cell) -> Block:
        """The sum of all blocks, whose records are missing: a worker makes them, as the job may be untrusted code."""
        tally = merged(entries.column(self._finished(cell), "tally"))
        self.open[cell.key] = {(0, 0)}
        return Block(cell.key, cell.stem, cell.job, cell.values, tally=tally)

    def run(self, label: str) -> None:
        """Measure the cells; after a KeyboardInterrupt the unfinished cells remain to be measured."""
        if not self.ready:
            return

        files = self.store.files.absolute()
        stopped = KeyboardInterrupt(f"{self.store.directory} has the finished cells; the same command continues there")

        # an interrupt lets running blocks finish, and their answers are kept
        with _interruptible(stopped) as interrupts, progress.track(label, self.blocks) as advance:
            with imports(True):
                engine = ENGINES.make(str(self.how.engine), self.ready, files, self.how, interrupts, self.store.tell)

            with closing(engine) as answers:
                for block, answer in answers:
                    advance(int(block.tally is None and not answer.lost))
                    self._settle(block, answer)
            if self.ready:
                raise stopped

    def _settle(self, block: Block, answer: Answer) -> None:
        """Write an answer. A block of a lost process is measured again; a failed one fails its cell."""
        key, rows, seconds = block.key, block.rows, answer.seconds
        if rows not in self.open.get(key, ()):  # another block of the cell has failed
            return

        self.lost[key, rows] += answer.lost
        if answer.lost and self.lost[key, rows] < self.how.attempts:
            self.ready.appendleft(block)
        elif answer.error:
            self.store.append(Failed(key, self.code, max(self.lost[key, rows], 1), answer.error))
            del self.open[key]

            # its other blocks would be measured in vain
            left = [other for other in self.ready if other.key != key]
            self.ready.clear()
            self.ready.extend(left)
            self._wake()
        else:
            if answer.tally is not None and block.tally is None:
                self.store.append(Stored(block.stem, *rows, self.code, seconds, answer.tally))
            self.open[key].discard(rows)

            if answer.records is not None:
                # the last block made the records of all, so the time of the others is added
                if block.tally is not None:
                    seconds += sum(entries.column(self._finished(self.cells[key]), "seconds"))
                self.store.append(Done(key, self.code, time.time(), seconds, self.plan[key], answer.records))
                del self.open[key]
                self._wake()
            elif not self.open[key]:
                self.ready.appendleft(self._last(self.cells[key]))


@contextmanager
def _interruptible(stopped: KeyboardInterrupt) -> Iterator[list[int]]:
    """The first Ctrl-C lets running blocks finish; a second one, SIGTERM or SIGHUP stops them at once."""
    seen = list[int]()
    if threading.current_thread() is not threading.main_thread():
        yield seen
        return

    def interrupt(number: int, frame: FrameType | None) -> None:
        seen.append(number)
        if number != signal.SIGINT or len(seen) > 1:
            raise stopped
        progress.note("stopping after the running cells; press Ctrl-C again to stop at once")

    ends = [signal.SIGINT, signal.SIGTERM]
    if signal.getsignal(signal.SIGHUP) != signal.SIG_IGN:  # which nohup ignores
        ends.append(signal.SIGHUP)
    before = {number: signal.signal(number, interrupt) for number in ends}

    try:
        yield seen
    except KeyboardInterrupt:  # an engine may have raised another one in its place
        raise stopped from None
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
