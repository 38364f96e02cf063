"""Where the items of a task come from: a file, what a directory of data has under its usual name, or `datasets`.

A file is JSON Lines, or a JSON list, gzipped or not. A line that cannot be read is named and left out; the rest is
kept.
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
DIRECTORY = "UNMASK_DATA"  # an environment variable: where files lie under their usual names
MOST = 2**30  # bytes of a file, unpacked
SHOWN = 3  # broken lines that are told one by one
GZIP = b"\x1f\x8b"


class Dataset(NamedTuple):
    """files: the usual names of its file; hub: (path, configuration, split) for `datasets.load_dataset`."""

    files: tuple[str, ...]
    hub: tuple[str, str | None, str]


class Rows(NamedTuple):
    found: list[Any]  # of the schema that was asked for
    broken: list[str]  # what was left out, and why


def read(dataset: Dataset, schema: type, path: str | Path | None = None) -> Rows:
    """The rows of a file, or of where the data set is found."""
    file = path or find(dataset)
    if file is None:
        return _rows(_fetched(dataset), schema, dataset.hub[0])
    found = _rows(_entries(_unpacked(read_bytes(file, MOST), file), str(file)), schema, str(file))
    for line in found.broken[:SHOWN]:
        progress.note(f"left out: {line}")
    if len(found.broken) > SHOWN:
        progress.note(f"left out: {len(found.broken) - SHOWN} more lines of {cut(str(file))}")
    return found


def find(dataset: Dataset) -> Path | None:
    """Its file in the directory of data, if there is one."""
    place = os.environ.get(DIRECTORY)
    paths = [Path(place) / name for name in dataset.files] if place else []
    return next((path for path in paths if path.is_file()), None)


def beside(dataset: Dataset, data: str | Path | None, named: str) -> Path | None:
    """The file of another data set than that of the items: the named one, one beside the items, or one of a usual name.

    Where the items are a file, an error if there is none: they were not fetched, and it is not either.
    """
    near = [Path(data).parent / name for name in dataset.files] if data else []
    found = Path(named) if named else next((path for path in near if path.is_file()), None) or find(dataset)
    if found is None and data:
        what = f"shots are made of {dataset.files[0]}, which is not beside {cut(str(data))}"
        raise UnmaskError(f"{what}; put it there, name it (shots_file), or take shots=0")
    return found


def _unpacked(content: bytes, path: str | Path) -> bytes:
    if not content.startswith(GZIP):
        return content
    try:
        opened = zlib.decompressobj(wbits=31)
        whole = opened.decompress(content, MOST)
    except zlib.error as error:
        raise UnmaskError(f"cannot read {cut(str(path))}: it is gzipped and broken ({error})") from error
    if opened.unconsumed_tail:
        raise UnmaskError(f"cannot read {cut(str(path))}: unpacked it has over {size(MOST)}")
    if not opened.eof:
        raise UnmaskError(f"cannot read {cut(str(path))}: it is gzipped and ends too early; fetch it again")
    return whole


def _entries(content: bytes, where: str) -> Iterator[tuple[str, Any]]:
    """(where it stands, what there is) of each; an error in the place of what cannot be read."""
    if content.lstrip()[:1] == b"[":
        for number, entry in enumerate(from_json(content, list[Any], where), 1):
            yield f"{where}, entry {number}", entry
        return
    for number, line in enumerate(content.split(b"\n"), 1):
        if line.strip():
            place = f"{where}, line {number}"
            try:
                yield place, from_json(line, dict[str, Any], place)
            except UnmaskError as error:
                yield place, error


def _fetched(dataset: Dataset) -> Iterator[tuple[str, Any]]:
    path, configuration, split = dataset.hub
    if offline := next((name for name in OFFLINE if os.environ.get(name, "0").upper() in TRUE), None):
        raise UnmaskError(f"the items of {path} are not here, and {offline} is set; give a file (--data FILE.jsonl)")
    try:
        from datasets import load_dataset
    except ImportError as error:
        where = (
            f"give a file (--data FILE.jsonl), or put {dataset.files[0]} into a directory and name it in {DIRECTORY}"
        )
        raise UnmaskError(f"the items of {path} are not here; {where}, or pip install datasets") from error
    try:
        found = load_dataset(path, configuration, split=split)
    except Exception as error:  # whatever a hub that cannot be reached comes to
        what = f"{type(error).__name__}: {cut(str(error).partition(chr(10))[0])}"
        raise UnmaskError(f"datasets cannot load {path}: {what}; give a file (--data FILE.jsonl)") from error
    return ((f"{path}/{split}, row {number}", dict(entry)) for number, entry in enumerate(found))


def _rows(entries: Iterator[tuple[str, Any]], schema: type, where: str) -> Rows:
    found, broken = [], []
    for place, entry in entries:
        try:
            if isinstance(entry, UnmaskError):
                raise entry
            found.append(fit(entry, schema, place))
        except UnmaskError as error:
            broken.append(str(error))
    if not found:
        raise UnmaskError(broken[0] if broken else f"{cut(where)} holds no items; expected a JSON object a line")
    return Rows(found, broken)
