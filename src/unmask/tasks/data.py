"""Read the items of a task: from a given file, from a file in the data directory, or through `datasets`.

A file is JSON Lines or a JSON list, optionally gzipped. Unreadable lines are reported and skipped.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from unmask.core import progress
from unmask.core.errors import UnmaskError, cut
from unmask.core.memory import size
from unmask.core.reading import fit, from_json, read_bytes

OFFLINE = ("HF_HUB_OFFLINE", "HF_DATASETS_OFFLINE")  # as `datasets` reads them
TRUE = ("1", "ON", "YES", "TRUE")
DIRECTORY = "UNMASK_DATA"  # environment variable: the directory of the data sets' files
MOST = 2**30  # bytes of a file, unpacked
SHOWN = 3  # broken lines that are reported one by one
GZIP = b"\x1f\x8b"


class Dataset(NamedTuple):
    """files: the usual names of its file; hub: (path, configuration, split) for `datasets.load_dataset`."""

    files: tuple[str, ...]
    hub: tuple[str, str | None, str]


class Rows(NamedTuple):
    valid: list[Any]  # of the requested schema
    broken: list[str]  # an error for each skipped line


def read(dataset: Dataset, schema: type, path: str | Path | None = None) -> Rows:
    """The rows of a given file, else of the data set."""
    file = path or find(dataset)
    if file is None:
        return _rows(_fetched(dataset), schema, dataset.hub[0])
    rows = _rows(_entries(_unpacked(read_bytes(file, MOST), file), str(file)), schema, str(file))
    for line in rows.broken[:SHOWN]:
        progress.note(f"skipped: {line}")
    if len(rows.broken) > SHOWN:
        progress.note(f"skipped: {len(rows.broken) - SHOWN} more lines of {cut(str(file))}")
    return rows


def find(dataset: Dataset) -> Path | None:
    """The file of the data set in the data directory, if there is one."""
    directory = os.environ.get(DIRECTORY)
    paths = [Path(directory) / name for name in dataset.files] if directory else []
    return next((path for path in paths if path.is_file()), None)


def shots_file(dataset: Dataset, data: str | Path | None, named: str) -> Path | None:
    """The file of the shots: the named one, one next to the items, or one in the data directory.

    If the items are from a file, a missing file of shots is an error: shots are only downloaded together with items.
    """
    near = [Path(data).parent / name for name in dataset.files] if data else []
    file = Path(named) if named else next((path for path in near if path.is_file()), None) or find(dataset)
    if file is None and data:
        problem = f"the shots need {dataset.files[0]}, which is missing next to {cut(str(data))}"
        raise UnmaskError(f"{problem}. Put it there, pass its path as shots_file, or set shots=0")
    return file


def _unpacked(content: bytes, path: str | Path) -> bytes:
    if not content.startswith(GZIP):
        return content
    try:
        opened = zlib.decompressobj(wbits=31)
        whole = opened.decompress(content, MOST)
    except zlib.error as error:
        raise UnmaskError(f"cannot read {cut(str(path))}: its gzip data are corrupt ({error})") from error
    if opened.unconsumed_tail:
        raise UnmaskError(f"cannot read {cut(str(path))}: it is larger than {size(MOST)} after decompression")
    if not opened.eof:
        raise UnmaskError(f"cannot read {cut(str(path))}: its gzip data are truncated. Download it again")
    return whole


def _entries(content: bytes, where: str) -> Iterator[tuple[str, Any]]:
    """(location, content) of each entry; an unreadable entry yields its error as the content."""
    if content.lstrip()[:1] == b"[":
        for number, entry in enumerate(from_json(content, list[Any], where), 1):
            yield f"{where}, entry {number}", entry
        return
    for number, line in enumerate(content.split(b"\n"), 1):
        if line.strip():
            location = f"{where}, line {number}"
            try:
                yield location, from_json(line, dict[str, Any], location)
            except UnmaskError as error:
                yield location, error


def _fetched(dataset: Dataset) -> Iterator[tuple[str, Any]]:
    path, configuration, split = dataset.hub
    if offline := next((name for name in OFFLINE if os.environ.get(name, "0").upper() in TRUE), None):
        raise UnmaskError(f"the items of {path} are missing, and {offline} is set. Pass a file: --data FILE.jsonl")
    try:
        from datasets import load_dataset
    except ImportError as error:
        directory = f"put {dataset.files[0]} in the directory that {DIRECTORY} names"
        ways = f"Pass a file (--data FILE.jsonl), {directory}, or run: pip install datasets"
        raise UnmaskError(f"the items of {path} are missing. {ways}") from error
    try:
        entries = load_dataset(path, configuration, split=split)
    except Exception as error:  # any error of an unreachable hub
        reason = f"{type(error).__name__}: {cut(str(error).partition(chr(10))[0])}"
        raise UnmaskError(f"datasets cannot load {path}: {reason}. Pass a file: --data FILE.jsonl") from error
    return ((f"{path}/{split}, row {number}", dict(entry)) for number, entry in enumerate(entries))


def _rows(entries: Iterator[tuple[str, Any]], schema: type, where: str) -> Rows:
    valid, broken = [], []
    for location, entry in entries:
        try:
            if isinstance(entry, UnmaskError):
                raise entry
            valid.append(fit(entry, schema, location))
        except UnmaskError as error:
            broken.append(str(error))
    if not valid:
        raise UnmaskError(broken[0] if broken else f"{cut(where)} contains no items; expected a JSON object per line")
    return Rows(valid, broken)
