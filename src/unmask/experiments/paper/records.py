"""Recorded measurements, found by the fields of their cells."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from unmask.core.estimates import Estimate
from unmask.experiments.measures.catalogue import Record, find

FIELDS = tuple(Estimate.__dataclass_fields__)
DROPPED = ("key", "seconds", "code_digest", "digest", "language_digest", "text_digest")
LOOSE = ("measure", "evaluations", "rows", "device")  # records of one quantity may differ in these fields


class Absent(Exception):
    """A claim needs records that were not measured."""


class Seen:
    """Records by their fields: `one("ser", language="interval-5", steps=64)`."""

    def __init__(self, records: Sequence[Record]) -> None:
        self.records = [_whole(record) for record in records]

    def all(self, measure: str, **fields: Any) -> list[Record]:
        wanted = (fields | {"measure": measure}).items()
        return [record for record in self.records if all(record.get(name) == value for name, value in wanted)]

    def one(self, measure: str, **fields: Any) -> Estimate:
        """The estimate of the record with these fields; Absent if there is none."""
        return Estimate.of_record(self.record(measure, **fields))

    def record(self, measure: str, **fields: Any) -> Record:
        """The record with these fields and the most rows; Absent if there is none."""
        found = [record for record in self.all(measure, **fields) if record["value"] is not None]
        if not found:
            raise Absent(f"{measure} of " + ", ".join(f"{name} {value}" for name, value in fields.items()))
        for name in {name for record in found for name in record} - {*FIELDS, *LOOSE}:
            if len(values := {record.get(name) for record in found}) > 1:
                raise ValueError(f"{measure} of {fields} was recorded for several values of {name}: {values}")
        return max(found, key=lambda record: record.get("rows") or 0)


def kept(row: Mapping[str, Any]) -> Record:
    """A row of a store without its key and without default values: the part that a file keeps."""
    defaults = find(row["metric"]).parameters
    return {
        name: value
        for name, value in row.items()
        if name in FIELDS or (value is not None and name not in DROPPED and defaults.get(name, _NONE) != value)
    }


_NONE = object()


def _whole(record: Record) -> Record:
    metric = record.get("metric")
    defaults = find(metric).parameters if metric else {}
    plain = {name: value for name, value in defaults.items() if isinstance(value, str | int | float | bool | None)}
    return plain | record
