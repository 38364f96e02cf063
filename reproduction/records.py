"""Measurements as records: a sweep makes them, a file keeps them, and the fields of their cells find them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import unmask
from unmask import Estimate, UnmaskError

Record = dict[str, Any]
JOBS = "reproduction.jobs:"  # what the names of our own jobs begin with in a sweep; records have the rest
FIELDS = tuple(Estimate.__dataclass_fields__)
DROPPED = ("key", "seconds", "code_digest", "digest", "language_digest", "text_digest")
LOOSE = ("measure", "model_calls", "rows", "device")  # records of one quantity may differ in these fields


class Absent(Exception):
    """Records that a claim needs were not measured."""


class Records:
    """Records by their fields: `one("ser", language="interval-5", steps=64)`."""

    def __init__(self, records: Sequence[Record]) -> None:
        self.records = records

    def all(self, measure: str, **fields: Any) -> list[Record]:
        fields["measure"] = measure
        return [record for record in self.records if all(record.get(n) == value for n, value in fields.items())]

    def one(self, measure: str, **fields: Any) -> Estimate:
        """The estimate of the record with these fields; Absent if there is none."""
        return Estimate.of_record(self.record(measure, **fields))

    def record(self, measure: str, **fields: Any) -> Record:
        """The record with these fields and the most rows; Absent if there is none."""
        matches = [record for record in self.all(measure, **fields) if record["value"] is not None]
        if not matches:
            raise Absent(f"{measure} of " + ", ".join(f"{name} {value}" for name, value in fields.items()))
        for name in {name for record in matches for name in record} - {*FIELDS, *LOOSE}:
            if len(values := {record.get(name) for record in matches}) > 1:
                raise ValueError(f"{measure} of {fields} was recorded for several values of {name}: {values}")
        return max(matches, key=lambda record: record.get("rows") or 0)


@dataclass(frozen=True)
class Measured:
    """size: quick or full. seconds: of work on all cells. origin: of the file, as far as it has one."""

    size: str
    seconds: float
    records: Sequence[Record]
    origin: Mapping[str, Any]
    name: str = ""  # of the file


def read(path: Path) -> Measured:
    """The records in a file that `measure` or `make gpu` has written."""
    try:
        content = json.loads(path.read_text())
        records = content["records"]
        for record in records:
            _ = Estimate.of_record(record), record["job"], record["measure"]
        return Measured(content["size"], float(content["seconds"]), records, content.get("origin", {}), path.name)
    except OSError as error:
        raise UnmaskError(f"{path} cannot be read: {error.strerror}. Measure first, or pass --records FILE") from error
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise UnmaskError(f"{path} has no records of the paper: {error!r}. Expected a file of `measure`") from error


def measure(parts: Iterable[dict[str, Any]], size: str, out: Path, **options: Any) -> Measured:
    """Measure the cells that OUT/sweep does not contain; write OUT/paper.json. options: of `unmask.sweep`."""
    recipe = {"name": f"paper-{size}", "parts": list(parts)}
    sweep = unmask.sweep(recipe, store=out / "sweep", fresh=True, **options).whole()
    measured = Measured(size, sweep.work, [plain(row) for row in sweep.rows()], {}, "paper.json")
    about = {"size": measured.size, "seconds": measured.seconds, "records": measured.records}
    (out / measured.name).write_text(json.dumps(about, allow_nan=False))
    return measured


def plain(row: Mapping[str, Any]) -> Record:
    """A row of a sweep as a record: without the fields of a store, and without those that have no value."""
    whole = {name: value for name, value in row.items() if name not in DROPPED}
    filled = {name: value for name, value in whole.items() if name in FIELDS or (value is not None and value != "")}
    return filled | {"job": row["job"].removeprefix(JOBS)}
