"""The records of a store: every sample that was written, once."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from unmask.core.errors import UnmaskError, cut
from unmask.experiments.jobs.cells import canonical
from unmask.experiments.jobs.store import FILES, Store
from unmask.tasks import sample as samples
from unmask.tasks.sample import Sample

RECORDS = "records.jsonl"  # of a store: all samples, with what became of them
OF_MACHINES = ("device", "threads", "code")  # in `about`, and no part of what was asked


def written(directory: Path) -> dict[tuple[str, str], list[Sample]]:
    """What the cells of a store have written, those that are not done too: by (task, file of its items)."""
    found: dict[tuple[str, str], dict[tuple[str, str, int], Sample]] = {}
    with Store.open(directory) as store:
        keys = store.keys()
        specs = {key: store.spec(key) for key in keys}
    for key, spec in specs.items():
        if spec["metric"] != "evaluation":
            continue
        own = found.setdefault((spec["task"], spec["data"]), {})
        for file in sorted((directory / FILES / key).glob("samples-*.jsonl")):
            for sample in samples.read(file):
                own[setting(sample), sample.item, sample.number] = sample
    return {what: list(own.values()) for what, own in found.items() if own}


def read(directory: str | Path) -> list[Sample]:
    """The records of an evaluation, or of a file of them."""
    path = Path(directory)
    file = path / RECORDS if path.is_dir() else path
    if not file.exists():
        what = "`unmask eval --out DIR` leaves them, and `unmask eval check` makes them of a sweep"
        raise UnmaskError(f"there are no records in {cut(str(directory))}; {what}")
    try:
        return samples.read(file)
    except UnmaskError as error:
        if not (file.parent / FILES).is_dir():
            raise
        raise UnmaskError(f"{error}; `unmask eval check {cut(str(file.parent))}` writes it again") from error


def setting(sample: Sample) -> str:
    """What all samples of a cell have in common, but for the machine."""
    return canonical({name: value for name, value in sample.about.items() if name not in OF_MACHINES})


def check_same_items(found: Sequence[Sample], of: str, where: str) -> None:
    """An error where records are of other items than these."""
    if other := next((sample.about["data"] for sample in found if sample.about["data"] != of), None):
        what = f"{other} and not {of}: another file under the same name"
        raise UnmaskError(f"{cut(where)} has records of items {what}; take another directory (--out)")


def told(about: dict[str, Any]) -> dict[str, Any]:
    """The settings that people chose, flat."""
    how, model = about["how"], about["model"]
    named = {"task": about["task"], "model": model["card"], "dtype": model["dtype"], "cache": model["cache"]}
    return named | how | {"revision": model.get("revision"), "quantize": model.get("quantize")}
