"""What can still be read of a damaged store: each page of its file by itself, without SQLite, which needs all of them.

Rows of a table stand on leaf pages, each as its length, its number, the types of its values, and those; what is too
long for a page goes on along a chain of others (the file format: sqlite.org/fileformat.html, 1.5, 1.6, 2.1 and 4.1). A
row that stands in pages which are whole is found, however little of the way to them is left.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from unmask.core.errors import UnmaskError, cut
from unmask.core.memory import available
from unmask.core.reading import read_bytes
from unmask.experiments.jobs.opening import FILE, MAGIC, none_in
from unmask.experiments.measures.catalogue import Plain, decoded, read_records

TIMES = 4  # what reading takes of memory, of the size of a file
LEAF = 0x0D  # the first byte of a page with rows
INTEGERS = (0, 1, 2, 3, 4, 6, 8)  # bytes of the values of each type
CELL, RUN = 11, 7  # columns
UNREADABLE = (IndexError, ValueError, KeyError, struct.error, UnmaskError)


@dataclass(frozen=True)
class Rescued:
    """rows: as tables.rows has them. lost: of cells, those whose numbers are missing, at least; of records, the cells
    that are done, and whose records cannot be read."""

    rows: list[dict[str, Any]]
    cells: int
    cells_lost: int
    records_lost: int


def rescue(directory: str | Path) -> Rescued:
    """Everything of a store that is done and can be read."""
    directory = Path(directory)
    if not os.path.lexists(directory / FILE):
        raise none_in(directory)
    cells, codes = _found(_Pages(directory / FILE))
    if not cells:
        raise UnmaskError(f"nothing in the store {cut(str(directory))} can be read")
    rows, bad = [], 0
    for _, cell in sorted(cells.items()):
        if cell["state"] == "done":
            try:
                more = {"code_digest": codes.get(cell["run"]), "seconds": float(cell["seconds"]), "key": cell["key"]}
                rows += [cell["spec"] | one | more for one in read_records(cell["records"], cell["key"])]
            except (UnmaskError, TypeError, ValueError):
                bad += 1
    return Rescued(rows, len(cells), max(cells) - len(cells), bad)


def _found(pages: _Pages) -> tuple[dict[int, dict[str, Any]], dict[int, str | None]]:
    """(cells by number, runs to the code that measured in them). Of a cell that is there more than once, in pages that
    SQLite had given up, what has got furthest counts."""
    cells: dict[int, dict[str, Any]] = {}
    codes: dict[int, str | None] = {}
    names = ("key", "metric", "spec", "cost", "state", "attempts", "error", "records", "seconds", "run")
    for number, values in pages.rows():
        with suppress(UnmaskError, TypeError):
            if len(values) == CELL and isinstance(values[1], str) and len(values[1]) == 64:
                cell = dict(zip(names, values[1:], strict=True))
                cell["spec"] = decoded(cell["spec"], dict[str, Plain], cell["key"])
                if number not in cells or _far(cell) > _far(cells[number]):
                    cells[number] = cell
            elif len(values) == RUN and isinstance(values[2], str):
                code = decoded(values[2], dict[str, Any], "a run").get("code")
                codes[number] = code if isinstance(code, str) else None
    return cells, codes


def _far(cell: Mapping[str, Any]) -> tuple[bool, int]:
    return cell["state"] == "done", cell["run"] if isinstance(cell["run"], int) else 0


class _Pages:
    """Pages by number, the newest of each: what has been written, and is not yet in the file, stands beside it."""

    def __init__(self, path: Path) -> None:
        most = available() // TIMES
        content = read_bytes(path, most)
        size = int.from_bytes(content[16:18]) if content.startswith(MAGIC) else 0
        self.size = 2**16 if size == 1 else size if size in (2**k for k in range(9, 16)) else 2**12
        self.usable = self.size - (content[20] if content.startswith(MAGIC) else 0)
        self.of = {i // self.size + 1: content[i : i + self.size] for i in range(0, len(content), self.size)}
        if os.path.lexists(beside := f"{path}-wal"):
            self._add(read_bytes(beside, most))

    def _add(self, journal: bytes) -> None:
        """Frames of this journal up to the last whole transaction: page, pages then or 0, salt, sums, content."""
        waiting: dict[int, bytes] = {}
        for at in range(32, len(journal) - 23 - self.size, 24 + self.size):
            page, whole = struct.unpack_from(">II", journal, at)
            if journal[at + 8 : at + 16] != journal[16:24]:
                break  # left of an earlier one
            waiting[page] = journal[at + 24 : at + 24 + self.size]
            if whole:
                self.of |= waiting
                waiting = {}

    def rows(self) -> Iterator[tuple[int, list[Any]]]:
        """(number, values) of all rows that can be read."""
        for number, page in self.of.items():
            head = 100 if number == 1 else 0
            count = int.from_bytes(page[head + 3 : head + 5])
            if (
                page[head : head + 1] != bytes([LEAF]) or count > self.size // 6
            ):  # a row has four bytes, and a place two
                continue
            for i in range(count):
                with suppress(*UNREADABLE):
                    yield self._row(page, *struct.unpack_from(">H", page, head + 8 + 2 * i))

    def _row(self, page: bytes, at: int) -> tuple[int, list[Any]]:
        length, at = _varint(page, at)
        number, at = _varint(page, at)
        return number, _values(self._payload(page, at, length))

    def _payload(self, page: bytes, at: int, length: int) -> bytes:
        most, least = self.usable - 35, (self.usable - 12) * 32 // 255 - 23
        here = least + (length - least) % (self.usable - 4)
        here = length if length <= most else here if here <= most else least
        made, next_page = [page[at : at + here]], page[at + here : at + here + 4] if here < length else b""
        left = length - here
        while left > 0:
            page = self.of[int.from_bytes(next_page)]
            made.append(page[4 : min(self.usable, 4 + left)])
            next_page, left = page[:4], left - (self.usable - 4)
            if len(made) > len(self.of):
                raise ValueError  # a chain that bites its tail
        return b"".join(made)


def _values(payload: bytes) -> list[Any]:
    end, at = _varint(payload, 0)
    kinds = []
    while at < end:
        kind, at = _varint(payload, at)
        kinds.append(kind)
    values: list[Any] = []
    for kind in kinds:
        size = INTEGERS[kind] if kind < 7 else 8 if kind == 7 else 0 if kind < 12 else (kind - 12) // 2
        part, at = payload[at : at + size], at + size
        if len(part) < size:
            raise ValueError
        if kind == 7:
            values += struct.unpack(">d", part)
        elif kind < 12:
            values.append(None if kind == 0 else kind - 8 if kind > 7 else int.from_bytes(part, signed=True))
        else:
            values.append(part.decode(errors="replace") if kind % 2 else part)  # its schema will say whether it does
    return values


def _varint(content: bytes, at: int) -> tuple[int, int]:
    """(number, where it ends): seven bits a byte, and eight of a ninth."""
    number = 0
    for i in range(8):
        number = number << 7 | content[at + i] & 0x7F
        if content[at + i] < 0x80:
            return number, at + i + 1
    return number << 8 | content[at + 8], at + 9
