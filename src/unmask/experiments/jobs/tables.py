"""The records of a store as one table, and the differences of two stores."""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from unmask.core.errors import UnmaskError
from unmask.core.files import atomic
from unmask.experiments.jobs.cells import canonical
from unmask.experiments.jobs.store import Store
from unmask.experiments.measures.catalogue import Record

ESTIMATE = ("measure", "value", "low", "high", "n", "level", "method", "evaluations")
AFTER = (*ESTIMATE, "language_digest", "code_digest", "seconds", "key")
SUFFIXES = (".csv", ".parquet")


def rows(store: Store, keys: Iterable[str] | None = None) -> list[dict[str, Any]]:
    """One dict a cell and measure: the cell's fields, the record's, the code that made it, its seconds and its key."""
    codes = store.codes()
    return [
        spec | record | {"code_digest": codes.get(run), "seconds": seconds, "key": key}
        for key, spec, records, seconds, run in store.records(keys)
        for record in records
    ]


def columns(made: Sequence[dict[str, Any]]) -> list[str]:
    """The fields of all cells, then those of a record."""
    every = dict.fromkeys(name for row in made for name in row)
    fields = [name for name in every if name not in AFTER]
    more = [name for name in AFTER if name in every]
    return [*sorted(fields, key=lambda name: name != "metric"), *more]


def check_out(path: Path) -> None:
    """Fail before anything is read."""
    if path.suffix not in SUFFIXES:
        raise UnmaskError(f"{path}: a table is written as {' or '.join(SUFFIXES)}, not {path.suffix!r}")
    if path.suffix == ".parquet" and find_spec("pyarrow") is None:
        raise UnmaskError(
            f"cannot write {path}: Parquet needs pyarrow (pip install 'unmask[parquet]'); or name a .csv file"
        )


def write(path: Path, made: Sequence[dict[str, Any]]) -> None:
    check_out(path)
    names = columns(made)
    if path.suffix == ".parquet":
        import pandas

        frame = pandas.DataFrame(made, columns=names)
        for name in names:
            kinds = {type(value) for value in frame[name].dropna()}
            if len(kinds - {int, float}) > 0 and len(kinds) > 1:  # a Parquet column has one type: CSV's, text
                frame[name] = frame[name].map(str, na_action="ignore")
        with atomic(path) as file:
            file.write(frame.to_parquet(index=False))
        return
    text = io.StringIO()
    writer = csv.DictWriter(text, names, lineterminator="\n")
    writer.writeheader()
    writer.writerows(made)
    with atomic(path) as file:
        file.write(text.getvalue().encode())


@dataclass(frozen=True)
class Comparison:
    """Two stores: cells that only one of them has done, and cells of both with equal and with different records."""

    only_first: int
    only_second: int
    both: int
    identical: int  # of both, cells whose records are equal to the bit
    beyond: list[dict[str, Any]]  # measures whose intervals do not meet

    @property
    def equal(self) -> bool:
        """Whether the stores have the same cells with the same records."""
        return not self.only_first and not self.only_second and self.identical == self.both


def compare(first: str | Path, second: str | Path, ignore: Sequence[str] = ()) -> Comparison:
    """ignore: fields in which cells may differ, such as the seed; cells that agree in all others are compared."""
    one, other = _cells(first, ignore), _cells(second, ignore)
    pairs = [pair for name in one if name in other for pair in zip(one[name], other[name], strict=False)]
    count = len(pairs)
    identical = sum(canonical(a[1]) == canonical(b[1]) for a, b in pairs)
    beyond = [found for a, b in pairs for found in _beyond(a[0], a[1], b[1])]
    sizes = [sum(map(len, side.values())) for side in (one, other)]
    return Comparison(sizes[0] - count, sizes[1] - count, count, identical, beyond)


def _cells(directory: str | Path, ignore: Sequence[str]) -> dict[str, list[tuple[dict[str, Any], list[Record]]]]:
    found: dict[str, list[tuple[dict[str, Any], list[Record]]]] = {}
    with Store.open(directory) as store:
        for _, spec, records, _, _ in store.records():
            about = {name: value for name, value in spec.items() if name not in ignore}
            found.setdefault(canonical(about), []).append((spec, records))
    return found


def _beyond(spec: dict[str, Any], first: list[Record], second: list[Record]) -> list[dict[str, Any]]:
    """The measures of a cell whose intervals do not meet, or that one side does not have."""
    one, other = _numbered(first), _numbered(second)
    return [
        {"cell": spec, "measure": name[0], "first": one.get(name), "second": other.get(name)}
        for name in one | other
        if name not in one or name not in other or _apart(one[name], other[name]) or _apart(other[name], one[name])
    ]


def _numbered(records: list[Record]) -> dict[tuple[str, int], Record]:
    """Records by their measure and a number: a cell may have several of one measure, such as one for each budget."""
    seen: Counter[str] = Counter()
    found = {}
    for record in records:
        found[record["measure"], seen[record["measure"]]] = record
        seen[record["measure"]] += 1
    return found


def _apart(a: Record, b: Record) -> bool:
    """Whether all of a's interval is below b's; an open end is None."""
    high, low = a.get("high", a["value"]), b.get("low", b["value"])
    return high is not None and low is not None and high < low
