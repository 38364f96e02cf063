"""The records of a reproduction as one file, from which its claims can be judged anywhere."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec

from unmask.core.errors import UnmaskError
from unmask.core.files import finite
from unmask.core.reading import read_json
from unmask.experiments.cell import Record, cells_of, find
from unmask.experiments.paper.items import ITEMS, chosen, recipe
from unmask.experiments.paper.judge import Claim, Finding, Size
from unmask.experiments.paper.records import Records, compact
from unmask.experiments.run import Sweep
from unmask.experiments.store import CommonFields

FILE = "paper.json"


class StoredRecord(CommonFields, kw_only=True):
    """A record of a file, with the fields that every number has."""

    job: Annotated[str, msgspec.Meta(min_length=1, max_length=200)]
    n: int
    level: float
    method: str


class Origin(msgspec.Struct):
    """The fields of an origin that are used; a file has more."""

    command: Annotated[list[str], msgspec.Meta(min_length=1)]
    code: str
    machine: str
    device: str | None = None


class Content(msgspec.Struct):
    """The content of such a file."""

    origin: Origin
    size: Literal["quick", "full"]
    seconds: float
    items: list[str]
    records: list[dict[str, str | int | float | bool | None]]


@dataclass(frozen=True)
class Reproduction:
    """items: those with all cells measured; seconds: of work on all cells.

    others: by name, reproductions that may decide a claim that this one leaves open, or decide it again: the last wins.
    """

    size: str
    items: tuple[str, ...]
    records: Sequence[Record]
    seconds: float
    failures: tuple[tuple[str, str], ...] = ()  # (metric, error) of failed cells
    others: tuple[tuple[str, Reproduction], ...] = ()

    @cached_property
    def findings(self) -> dict[str, list[tuple[Claim, Finding]]]:
        """The claims of each item, with their findings."""
        sources = [("", Records(self.records)), *((name, Records(other.records)) for name, other in self.others)]
        items = chosen(self.items)
        return {item.name: [(claim, _last(claim, sources)) for claim in item.claims.values()] for item in items}

    def of(self, item: str) -> list[Record]:
        """The records of an item's cells, with default values."""
        cells = [cell.spec for cell in cells_of(recipe(chosen([item]), Size(self.size == "full")))]
        specs = [{name: value for name, value in spec.items() if name != "device"}.items() for spec in cells]
        return [
            record
            for record in Records(self.records).records
            if any(all(record.get(name) == value for name, value in spec) for spec in specs)
        ]

    def to_json(self, origin: dict[str, Any]) -> bytes:
        """JSON with one record per line."""
        about = {"origin": origin, "size": self.size, "seconds": self.seconds, "items": list(self.items)}
        lines = ",\n  ".join(json.dumps(record, allow_nan=False) for record in self.records)
        head = json.dumps(finite(about), indent=1, allow_nan=False).removesuffix("\n}")
        return f'{head},\n "records": [\n  {lines}\n ]\n}}\n'.encode()


def _last(claim: Claim, sources: Sequence[tuple[str, Records]]) -> Finding:
    """The finding of the last records that decide a claim by other values, with their name; else that of the first."""
    finding = claim.finding(sources[0][1])
    for name, records in sources[1:]:
        other = claim.finding(records)
        if other.verdict != "not tested" and other.ours != finding.ours:
            finding = replace(other, why=f"{other.why} Measured on {name}.")
    return finding


def joined(paths: Sequence[str | Path]) -> tuple[Reproduction, dict[str, Any]]:
    """The reproduction in the first file and its origin; the other files decide claims, too."""
    (first, origin), *rest = (read(path) for path in paths)
    named = [
        (f"{about['device'] or about['machine']} ({Path(path).name})", other)
        for path, (other, about) in zip(paths[1:], rest, strict=True)
    ]
    return replace(first, others=tuple(named)), origin


def of_sweep(sweep: Sweep, size: Size) -> Reproduction:
    """All items of this size in a store, including those that another command measured."""
    cells = {name: [cell.key for cell in cells_of(recipe([item], size))] for name, item in ITEMS.items()}
    keys = list(dict.fromkeys(key for own in cells.values() for key in own))
    store = sweep.store
    measured, failed = list(store.rows(set(keys))), store.failed
    seconds = sum(store.done[key].seconds for key in keys if key in store.done)
    failures = tuple((store.cells[key].job, failed[key].error) for key in keys if key in failed)
    done = {row["key"] for row in measured} | set(failed)
    items = tuple(name for name, own in cells.items() if set(own) <= done)
    return Reproduction(size.name, items, [compact(finite(row)) for row in measured], seconds, failures)


def read(path: str | Path) -> tuple[Reproduction, dict[str, Any]]:
    """The reproduction in a file, and its origin."""
    content: Content = read_json(path, Content)
    for number, record in enumerate(content.records):
        try:
            msgspec.convert(record, StoredRecord)
            find(str(record["job"]))
        except (msgspec.ValidationError, UnmaskError) as error:
            fault = f"record {number} is not a record of the paper: {error}"
            raise UnmaskError(f"{path}: {fault}. Measure again with unmask paper") from error
    chosen(content.items)
    reproduction = Reproduction(content.size, tuple(content.items), content.records, content.seconds)
    return reproduction, msgspec.structs.asdict(content.origin)
