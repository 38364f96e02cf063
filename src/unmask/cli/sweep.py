"""unmask sweep run|status|resume|retry|export|compare."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from unmask.cli.options import Count, Directory, File, Number, Switch

if TYPE_CHECKING:
    from unmask.experiments.jobs import Sweep

Recipe = Annotated[Path, "RECIPE"]
Store = Annotated[Path, "STORE"]
Settings = Annotated[tuple[str, ...], "NAME=VALUE"]
Fields = Annotated[tuple[str, ...], "NAME"]
SHOWN = 20  # failures, or differences, in a table


@dataclass(frozen=True)
class Measuring:
    """What measures, and what it may take.

    Args:
        engine: Processes of this machine, tasks of a Ray cluster, or this process alone.
        workers: How many at a time; by default as many as there are cores.
        threads: Cores that each of them has, and that a task asks Ray for.
        address: A Ray cluster that runs already; "auto" finds it.
        limit: Seconds after which a block of rows is stopped, and its cell has failed.
        attempts: How often a cell may lose its process before it has failed.
        allow_imports: Import what a recipe or a store names of this module, as MODULE:Name.
    """

    engine: Literal["local", "ray", "here"] = "local"
    workers: Count = None
    threads: Count = None
    address: Annotated[str, "HOST:PORT"] = ""
    limit: Number = None
    attempts: int = 3
    allow_imports: Annotated[tuple[str, ...], "MODULE"] = ()

    @property
    def options(self) -> dict[str, Any]:
        return asdict(self) | {"address": self.address or None}


def run(
    recipe: Recipe,
    /,
    *,
    set: Settings = (),
    store: Directory = None,
    dry_run: Switch = False,
    fresh: Switch = False,
    by: Measuring = Measuring(),
    json: Switch = False,
) -> None:
    """Measure the cells of a recipe that its store does not have yet.

    Examples:
        unmask sweep run recipes/smoke.yaml
        unmask sweep run recipes/lengths.yaml --set rows=200 length=[128,256]
        unmask sweep run smoke --dry-run
        unmask sweep run recipes/smoke.yaml --engine ray --address auto

    A finished cell is never measured again in its store, also after the recipe has
    grown. A kill loses only the cells that are running. Ctrl-C once ends after
    these cells, twice at once.

    Args:
        recipe: A YAML file: name, metrics, grid, zip, fixed, rows, seeds; or one of ours by name: lengths.
        set: Other values for the recipe: steps=[8,16] is walked, rows=200 is fixed.
        store: The directory of the sweep; sweeps/NAME unless told otherwise.
        dry_run: Print the cells, their number and about how long they take, and stop.
        fresh: Measure again what another version of the code has measured, but for networks that it has trained.
        json: Print one JSON object instead of a table.
    """
    from unmask.cli.output import show
    from unmask.core.registry import imports
    from unmask.experiments import jobs
    from unmask.experiments.jobs.recipe import read_recipe
    from unmask.experiments.jobs.run import HOME

    plan = read_recipe(recipe, set)
    with imports(by.allow_imports):
        if dry_run:
            show_plan(plan, HOME / plan.name if store is None else store, json)
        else:
            finish(jobs.sweep(plan, store=store, fresh=fresh, **by.options), json, show)


def status(store: Store, /, *, json: Switch = False) -> None:
    """Say how far a sweep is: done, running, to do, failed and why, and who drives it.

    Example:
        unmask sweep status sweeps/smoke

    Cells a second and seconds left are by the last run, also while it goes on.
    What another version of the code than this one has measured is old, and
    counted; `unmask sweep run` can measure it again.

    Args:
        store: The directory of a sweep.
        json: Print one JSON object instead of a table.
    """
    from unmask.cli.output import show
    from unmask.experiments.jobs.status import status as status_of

    show_status(status_of(store), json, show)


def resume(
    store: Store,
    /,
    *,
    by: Measuring = Measuring(),
    json: Switch = False,
) -> None:
    """Measure what a store still has to do; no recipe is needed.

    Example:
        unmask sweep resume sweeps/smoke

    Args:
        store: The directory of a sweep.
        json: Print one JSON object instead of a table.
    """
    from unmask.cli.output import show
    from unmask.experiments.jobs.run import resume as resume_store

    finish(resume_store(store, **by.options), json, show)


def retry(
    store: Store,
    /,
    *,
    by: Measuring = Measuring(),
    json: Switch = False,
) -> None:
    """Measure what has failed once more, and what is still to do.

    Example:
        unmask sweep retry sweeps/smoke --limit 600

    Args:
        store: The directory of a sweep.
        json: Print one JSON object instead of a table.
    """
    from unmask.cli.output import show
    from unmask.experiments.jobs.run import resume as resume_store

    finish(resume_store(store, again=True, **by.options), json, show)


def export(store: Store, /, *, out: File = None, json: Switch = False) -> None:
    """Write the numbers of a store as one table: a row a cell and measure.

    Examples:
        unmask sweep export sweeps/smoke --out smoke.csv
        unmask sweep export sweeps/smoke --out smoke.parquet
        unmask sweep export sweeps/smoke --json

    The columns are the fields of the cells, then measure, value, low, high, n,
    level, method, evaluations, digests of the language and of the code, and the
    seconds that the cell has taken.

    Args:
        store: The directory of a sweep.
        out: A .csv file, or .parquet, which needs pyarrow; STORE/table.csv if not given.
        json: Print one JSON object with the table instead of writing a file, or beside it.
    """
    from unmask.cli.output import show
    from unmask.experiments.jobs import tables
    from unmask.experiments.jobs.store import Store as Opened

    path = out if out is not None else None if json else store / "table.csv"
    if path is not None:
        tables.check_out(path)
    with Opened.open(store) as opened:
        rows = tables.rows(opened)
    if path is not None:
        tables.write(path, rows)
    found: dict[str, Any] = {"file": None if path is None else str(path), "rows": len(rows)}
    show(found | ({"table": rows} if json else {}), json)


def compare(first: Store, second: Store, /, *, ignore: Fields = (), json: Switch = False) -> None:
    """Say whether two stores are equal to the bit, and what differs beyond intervals.

    Examples:
        unmask sweep compare sweeps/here sweeps/there
        unmask sweep compare sweeps/a sweeps/b --ignore seed

    Args:
        first: The directory of a sweep.
        second: That of another one.
        ignore: Fields of cells that may differ, such as the seed.
        json: Print one JSON object instead of a table.
    """
    from unmask.cli.output import show
    from unmask.experiments.jobs.tables import compare as compare_stores

    found = compare_stores(first, second, ignore)
    if json:
        show({"equal": found.equal} | asdict(found), True)
        return
    counts = {name: value for name, value in asdict(found).items() if name != "beyond"}
    show({"equal": found.equal} | counts | {"beyond intervals": len(found.beyond)}, False)
    for entry in found.beyond[:SHOWN]:
        sides = " against ".join("nothing" if side is None else f"{side['value']:.6g}" for side in sides_of(entry))
        print(f"  {entry['measure']}: {sides}; {said(entry['cell'])}")


def sides_of(entry: dict[str, Any]) -> tuple[Any, Any]:
    return entry["first"], entry["second"]


def show_plan(plan: Any, store: Path, json: bool) -> None:
    """What a recipe would measure."""
    from unmask.cli.output import show
    from unmask.experiments.jobs.cells import cells_of, check
    from unmask.experiments.jobs.status import estimate

    cells = cells_of(plan)
    check(cells)
    todo, seconds = estimate(cells, store)
    result = {"name": plan.name, "store": str(store), "cells": len(cells), "to_do": todo, "core_seconds": seconds}
    if json:
        show(result | {"grid": [cell.spec for cell in cells]}, True)
        return
    for cell in cells:
        print(said(cell.spec))
    print()
    show(result, False)


def said(spec: dict[str, Any]) -> str:
    fields = ", ".join(
        f"{name}={value}" for name, value in spec.items() if name != "metric" and value not in ("", None)
    )
    return f"{spec['metric']}({fields})"


def finish(made: Sweep, json: bool, show: Any) -> None:
    """What a run has come to; where cells have failed, so has the command."""
    from unmask.core.errors import UnmaskError

    found = made.status()
    show_status(found | {"seconds": made.seconds}, json, show)
    if found["failed"]:
        noun = "cell" if found["failed"] == 1 else "cells"
        raise UnmaskError(f"{found['failed']} {noun} failed; `unmask sweep retry {made.directory}` tries again")


def show_status(found: dict[str, Any], json: bool, show: Any) -> None:
    if json:
        show(found, True)
        return
    table = {name: value for name, value in found.items() if name not in ("failures", "driver")}
    driver = found["driver"]
    table["driver"] = None if driver is None else f"process {driver['pid']} on {driver['host']}"
    show(table, False)
    for failure in found["failures"][:SHOWN]:
        print(f"  failed: {said(failure['cell'])}: {failure['error']}")


command = {
    "run": run,
    "status": status,
    "resume": resume,
    "retry": retry,
    "export": export,
    "compare": compare,
}
