"""Recorded measurements, found by the fields of their cells."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from unmask.core.estimates import Estimate
from unmask.experiments.cell import Record, find

FIELDS = tuple(Estimate.__dataclass_fields__)
DROPPED = ("key", "seconds", "code_digest", "digest", "language_digest", "text_digest")
LOOSE = ("measure", "model_calls", "rows", "device")  # records of one quantity may differ in these fields


class Absent(Exception):
    """Records that a claim needs were not measured."""


class Records:
    """Records by their fields: `one("ser", language="interval-5", steps=64)`."""

    def __init__(self, records: Sequence[Record]) -> None:
        self.records = [_defaults(record.get("job")) | record for record in records]

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


def compact(row: Mapping[str, Any]) -> Record:
    """A row of a store for a file: without its key and default values."""
    defaults = find(row["job"]).fields
    return {
        name: value
        for name, value in row.items()
        if name in FIELDS or (value is not None and name not in DROPPED and (name, value) not in defaults.items())
    }


def _defaults(job: str | None) -> Record:
    defaults = find(job).fields if job else {}
    return {name: value for name, value in defaults.items() if isinstance(value, str | int | float | bool | None)}
