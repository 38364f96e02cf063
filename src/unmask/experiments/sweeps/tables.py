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
from unmask.experiments.jobs.catalogue import Record
from unmask.experiments.sweeps.cells import canonical
from unmask.experiments.sweeps.store import Store

ESTIMATE = ("measure", "value", "low", "high", "n", "level", "method", "model_calls")
AFTER = (*ESTIMATE, "language_digest", "code_digest", "seconds", "key")
SUFFIXES = (".csv", ".parquet")


def rows(store: Store, keys: Iterable[str] | None = None) -> list[dict[str, Any]]:
    """One dict for each record: fields of its cell, its own fields, code digest, seconds and key of the cell."""
    codes = store.codes()
    return [
        spec | record | {"code_digest": codes.get(run), "seconds": seconds, "key": key}
        for key, spec, records, seconds, run in store.records(keys)
        for record in records
    ]


def columns(rows: Sequence[dict[str, Any]]) -> list[str]:
    """Names of columns: the fields of cells first, then the fields of records."""
    every = dict.fromkeys(name for row in rows for name in row)
    fields = [name for name in every if name not in AFTER]
    more = [name for name in AFTER if name in every]
    return [*sorted(fields, key=lambda name: name != "job"), *more]


def check_out(path: Path) -> None:
    """Refuse a wrong file name before any work."""
    if path.suffix not in SUFFIXES:
        raise UnmaskError(f"{path}: expected {' or '.join(SUFFIXES)}, not {path.suffix!r}")
    if path.suffix == ".parquet" and find_spec("pyarrow") is None:
        help = "pip install 'unmask[parquet]', or choose a .csv file"
        raise UnmaskError(f"cannot write {path}: Parquet needs pyarrow; {help}")


def write(path: Path, rows: Sequence[dict[str, Any]]) -> None:
    check_out(path)
    names = columns(rows)
    if path.suffix == ".parquet":
        import pandas

        frame = pandas.DataFrame(rows, columns=names)
        for name in names:
            kinds = {type(value) for value in frame[name].dropna()}
            if len(kinds - {int, float}) > 0 and len(kinds) > 1:  # a Parquet column has one type: text, as in CSV
                frame[name] = frame[name].map(str, na_action="ignore")
        with atomic(path) as file:
            file.write(frame.to_parquet(index=False))
        return
    text = io.StringIO()
    writer = csv.DictWriter(text, names, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    with atomic(path) as file:
        file.write(text.getvalue().encode())


@dataclass(frozen=True)
class Comparison:
    """Two stores: cells finished in only one, and cells of both with equal and with different records."""

    only_first: int
    only_second: int
    both: int
    identical: int  # cells of both with records equal to the bit
    beyond: list[dict[str, Any]]  # measures with intervals that do not overlap

    @property
    def equal(self) -> bool:
        return not self.only_first and not self.only_second and self.identical == self.both


def compare(first: str | Path, second: str | Path, ignore: Sequence[str] = ()) -> Comparison:
    """Compare cells that agree in all fields. ignore: other fields, such as the seed, in which they may differ."""
    one, other = _cells(first, ignore), _cells(second, ignore)
    pairs = [pair for name in one if name in other for pair in zip(one[name], other[name], strict=False)]
    count = len(pairs)
    identical = sum(canonical(a[1]) == canonical(b[1]) for a, b in pairs)
    beyond = [different for a, b in pairs for different in _beyond(a[0], a[1], b[1])]
    sizes = [sum(map(len, side.values())) for side in (one, other)]
    return Comparison(sizes[0] - count, sizes[1] - count, count, identical, beyond)


def _cells(directory: str | Path, ignore: Sequence[str]) -> dict[str, list[tuple[dict[str, Any], list[Record]]]]:
    cells: dict[str, list[tuple[dict[str, Any], list[Record]]]] = {}
    with Store.open(directory) as store:
        for _, spec, records, _, _ in store.records():
            about = {name: value for name, value in spec.items() if name not in ignore}
            cells.setdefault(canonical(about), []).append((spec, records))
    return cells


def _beyond(spec: dict[str, Any], first: list[Record], second: list[Record]) -> list[dict[str, Any]]:
    """Measures of a cell with intervals that do not overlap, or that one side lacks."""
    one, other = _numbered(first), _numbered(second)
    return [
        {"cell": spec, "measure": name[0], "first": one.get(name), "second": other.get(name)}
        for name in one | other
        if name not in one or name not in other or _apart(one[name], other[name]) or _apart(other[name], one[name])
    ]


def _numbered(records: list[Record]) -> dict[tuple[str, int], Record]:
    """Records by (measure, number): a cell may have several records of a measure, for example one for each budget."""
    count: Counter[str] = Counter()
    numbered = {}
    for record in records:
        numbered[record["measure"], count[record["measure"]]] = record
        count[record["measure"]] += 1
    return numbered


def _apart(a: Record, b: Record) -> bool:
    """Whether the interval of a is below that of b; None is an open end."""
    high, low = a.get("high", a["value"]), b.get("low", b["value"])
    return high is not None and low is not None and high < low
