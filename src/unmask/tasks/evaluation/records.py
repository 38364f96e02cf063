"""The records of a store: each written sample once."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from unmask.core.errors import UnmaskError, cut
from unmask.experiments.cell import canonical
from unmask.experiments.store import FILES, Store
from unmask.tasks import sample as samples
from unmask.tasks.sample import Sample

RECORDS = "records.jsonl"  # of a store: all samples with their verdicts
OF_MACHINES = ("device", "threads", "code", "context")  # in `about`, but not settings


def written(directory: Path) -> dict[tuple[str, str], list[Sample]]:
    """The samples of a store, also of unfinished cells, by (task, file of its items)."""
    written: dict[tuple[str, str], dict[tuple[str, str, int], Sample]] = {}
    store = Store.open(directory)
    for key, cell in store.cells.items():
        if cell.job != "evaluation":
            continue
        own = written.setdefault((str(cell.values["task"]), str(cell.values["data"])), {})
        for file in sorted(store.place(key).glob("*.jsonl")):
            for sample in samples.read(file):
                own[setting(sample), sample.item, sample.number] = sample
    return {source: list(own.values()) for source, own in written.items() if own}


def read(directory: str | Path) -> list[Sample]:
    """The records of a store or of a file."""
    path = Path(directory)
    file = path / RECORDS if path.is_dir() else path
    if not file.exists():
        help = "`unmask eval --store DIR` writes them, and `unmask eval check DIR` makes them from a sweep"
        raise UnmaskError(f"there are no records in {cut(str(directory))}; {help}")
    try:
        return samples.read(file)
    except UnmaskError as error:
        if not (file.parent / FILES).is_dir():
            raise
        raise UnmaskError(f"{error}; `unmask eval check {cut(str(file.parent))}` writes it again") from error


def setting(sample: Sample) -> str:
    """The common settings of all samples of a cell, without the machine."""
    return canonical({name: value for name, value in sample.about.items() if name not in OF_MACHINES})


def check_same_items(records: Sequence[Sample], of: str, where: str) -> None:
    """Refuse records of other items."""
    if other := next((sample.about["data"] for sample in records if sample.about["data"] != of), None):
        what = f"{other} and not {of}: another file under the same name"
        raise UnmaskError(f"{cut(where)} has records of items {what}; take another directory (--out)")


def settings_of(about: dict[str, Any]) -> dict[str, Any]:
    """The settings of an evaluation as a flat mapping."""
    how, model = about["how"], about["model"]
    named = {"task": about["task"], "model": model["card"], "dtype": model["dtype"], "cache": model["cache"]}
    return named | how | {"revision": model.get("revision")}
