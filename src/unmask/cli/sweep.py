"""unmask sweep run|status|resume|retry|merge|export."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from unmask.cli.options import Answer, Assignments, Directory, File, Grid, Measuring, Switch
from unmask.core.entries import column, without
from unmask.core.errors import plural
from unmask.core.registry import imports
from unmask.core.tables import rows_of

if TYPE_CHECKING:
    from unmask.experiments import Sweep
    from unmask.experiments.parts import Part

Store = Annotated[Path, "STORE"]
SHOWN = 20  # failures to print


def run(
    recipe: Annotated[Path, "RECIPE"],
    /,
    *,
    set: Assignments = (),
    store: Directory = None,
    part: Annotated[str, "K/N"] = "1/1",
    dry_run: Switch = False,
    fresh: Switch = False,
    by: Measuring = Measuring(),
) -> Answer:
    """Measure the cells of a recipe that are not in its store.

    Examples:
        unmask sweep run recipes/smoke.yaml
        unmask sweep run recipes/lengths.yaml --set rows=200 length=[128,256]
        unmask sweep run recipes/lengths.yaml --engine ray --address auto
        unmask sweep run recipes/lengths.yaml --part 3/40

    A store keeps each finished cell, also if the recipe grows. Press Ctrl-C once to
    stop after the running cells, twice to stop immediately.

    Args:
        recipe: YAML file with name, jobs, grid, zip, fixed, rows and seeds; or the name of an included recipe.
        set: Other values for the recipe: steps=[8,16] adds to the grid, rows=200 is fixed.
        store: Directory of the sweep. (default: sweeps/NAME, of a part sweeps/NAME-K-of-N)
        part: Measure part K of N only, from 1 to N: a job of a cluster. 1/1 is all cells.
        dry_run: Print the cells and their number, and stop.
        fresh: Measure cells of other code versions again, except trained networks.
    """
    from unmask.experiments.parts import Part
    from unmask.experiments.recipe import read_recipe
    from unmask.experiments.run import HOME, sweep

    share = Part.of(part)
    plan = read_recipe(recipe, set)
    with imports(by.allow_imports):
        if dry_run:
            return _plan(plan, store or share.beside(HOME / plan.name), share)
        return _finished(sweep(plan, store=store, part=part, fresh=fresh, **by.options()))


def status(store: Store, /) -> Answer:
    """Show the progress of a sweep: cells done, running, to do and failed.

    Example:
        unmask sweep status sweeps/smoke
    """
    from unmask.experiments.tables import status as status_of

    return _answer(status_of(store))


def resume(store: Store, /, *, by: Measuring = Measuring()) -> Answer:
    """Measure the missing cells of a store, without its recipe.

    Example:
        unmask sweep resume sweeps/smoke
    """
    from unmask.experiments.run import resume as resume_store

    return _finished(resume_store(store, **by.options()))


def retry(store: Store, /, *, by: Measuring = Measuring()) -> Answer:
    """Measure the failed and the missing cells of a store.

    Example:
        unmask sweep retry sweeps/smoke --limit 600
    """
    from unmask.experiments.run import resume as resume_store

    return _finished(resume_store(store, again=True, **by.options()))


def merge(store: Store, parts: Annotated[tuple[Path, ...], "PART"], /) -> Answer:
    """Join the stores of parts into one.

    Example:
        unmask sweep merge sweeps/lengths sweeps/lengths-*-of-40

    The store is created if it is missing. Finished cells come with their files, and
    nothing is measured. The same command later adds newer cells.

    Args:
        parts: Stores of `unmask sweep run --part`, or any others.
    """
    from unmask.experiments.parts import merge as merged

    merged(store, parts)
    return status(store)


def export(store: Store, /, *, out: File = None, json: Switch = False) -> Answer:
    """Export the numbers of a store as one table, a row for each cell and metric.

    Examples:
        unmask sweep export sweeps/smoke --out smoke.csv
        unmask sweep export sweeps/smoke --json

    Args:
        out: File of the table, .csv. (default: STORE/table.csv)
        json: Print one JSON object with the table; write a file only with --out.
    """
    from unmask.experiments import tables
    from unmask.experiments.store import records

    if out is None and not json:
        out = store / "table.csv"
    if out is not None:
        tables.check_out(out)

    rows = list(records(store))
    result: dict[str, Any] = {"file": None, "rows": len(rows)}
    if out is not None:
        tables.write(out, rows)
        result["file"] = str(out)
    if json:
        result["table"] = rows
    return Answer(result)


def _plan(plan: Any, store: Path, share: Part) -> Answer:
    """Return the cells of a recipe and their number."""
    from unmask.experiments.cell import cells_of, check
    from unmask.experiments.store import Store as Opened

    cells = share.cells(cells_of(plan))
    check(cells)
    done = Opened(store).done
    result = {
        "name": plan.name,
        "store": str(store),
        "cells": len(cells),
        "to_do": sum(cell.key not in done for cell in cells),
    }
    text: list[tuple[str, str] | Grid | str] = [*map(_label, column(cells, "spec")), "", *rows_of(result)]
    return Answer(result | {"grid": column(cells, "spec")}, text)


def _label(spec: dict[str, Any]) -> str:
    fields = ", ".join(f"{name}={value}" for name, value in spec.items() if name != "job" and value not in ("", None))
    return f"{spec['job']}({fields})"


def _finished(sweep: Sweep) -> Answer:
    """Return the status after a run, with an error if cells have failed."""
    counts = sweep.status()
    failure = ""
    if counts["failed"]:
        failure = f"{plural(counts['failed'], 'cell')} failed. Try again: `unmask sweep retry {sweep.directory}`"
    return _answer(counts | {"seconds": sweep.seconds}, failure)


def _answer(counts: dict[str, Any], failure: str = "") -> Answer:
    """Return the status of a sweep."""
    table = without(counts, ["failures"])
    if (driver := counts["driver"]) is not None:
        table["driver"] = f"process {driver['pid']} on {driver['host']}"
    failed = [f"  failed: {_label(one['cell'])}: {one['error']}" for one in counts["failures"][:SHOWN]]
    return Answer(counts, [*rows_of(table), *failed], failure)


command = {"run": run, "status": status, "resume": resume, "retry": retry, "merge": merge, "export": export}
