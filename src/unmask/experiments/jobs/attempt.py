"""What any process does with a block, a worker, a Ray task or the driver itself: measure, and say what came of it."""

from __future__ import annotations

import base64
import json
import os
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from contextlib import chdir
from pathlib import Path
from typing import Any

from unmask.core import progress
from unmask.core.errors import MESSAGE, UnmaskError, cut, plain, shown
from unmask.core.memory import size
from unmask.core.registry import Allowed, imports, imports_allowed
from unmask.experiments.jobs.cells import Block
from unmask.experiments.measures.catalogue import (
    Output,
    Plain,
    Record,
    Tally,
    decoded,
    find,
    read_records,
)

TELL_SECONDS = 0.2  # between two words of how far a block is
LARGEST = 2**24  # bytes of the numbers of one block, as text
LARGEST_FILES = 2**28  # bytes of the files of one block
Task = tuple[str, dict[str, Any], bool, Sequence[str], Tally | None, Allowed]
"""Key, spec, whether it is a whole cell, keys of what it needs, the sums of its blocks where all are known, whether
names in it may import code."""


def ordered(block: Block) -> Task:
    """What a process must know of a block."""
    return block.key, block.spec, block.whole, block.needed, block.tally, imports_allowed()


def place_of(files: Path, key: str) -> Path:
    """Where the files of a cell lie; an error where a link would lead elsewhere."""
    if (link := next((path for path in (files, files / key) if path.is_symlink()), None)) is not None:
        raise UnmaskError(f"{cut(str(link))} is a link to elsewhere, where a store does not write")
    return files / key


def measure(
    spec: dict[str, Any], whole: bool, place: Path = Path(), needed: Sequence[Path] = (), tally: Tally | None = None
) -> tuple[str, Any, dict[str, bytes]]:
    """("records", ...) of a whole cell, or ("tally", ...) of a block of one; and files by name."""
    measured = find(spec["metric"])
    arguments = {name: value for name, value in spec.items() if name != "metric"}
    files: dict[str, bytes] = {}
    where = f"what metric {measured.name!r} has answered"
    if tally is None:
        directories = {"place": place, "needed": tuple(needed)}
        made = measured.run(**arguments, **{name: directories[name] for name in measured.given})
        found, files = (made.found, _checked(made.files)) if isinstance(made, Output) else (made, {})
        if measured.records is None:
            return "records", read_records(_text(found), where), files
        tally = decoded(_text(found), Tally, where)
    if not whole or measured.records is None:
        return "tally", tally, files
    return "records", read_records(_text(measured.records(tally, **arguments)), where), files


def _about(spec: dict[str, Any]) -> Record:
    """Which truth a cell's records are of."""
    metric = spec["metric"]
    about = find(metric).about({name: value for name, value in spec.items() if name != "metric"})
    found: Record = decoded(_text(about), dict[str, Plain], f"what metric {metric!r} says of its truth")
    return found


def attempt(given: Task, files: Path, tell: Callable[[float], None] = lambda share: None) -> dict[str, Any]:
    """What came of it, as the driver is told: a mistake of one cell is no end of the others."""
    key, spec, whole, needed, tally, trusted = given
    began = time.perf_counter()
    try:
        with chdir("."), progress.told_to(_seldom(tell)), imports(trusted):  # wherever it goes, the next is here
            kind, found, made = measure(spec, whole, place_of(files, key), [files / other for other in needed], tally)
            if kind == "records":
                about = _about(spec)
                found = [record | about for record in found]
        seconds = time.perf_counter() - began
        encoded = {name: base64.b64encode(content).decode() for name, content in made.items()}
        return {"kind": kind, "found": found, "files": encoded, "seconds": seconds}
    except MemoryError as error:
        said = f"out of memory: {_words(error) or 'ask for fewer rows, or a shorter length'}"
    except UnmaskError as error:
        said = str(error)
    except SystemExit as error:
        said = f"it has called sys.exit({shown(error.code)}), which ends no sweep"
    except Exception as error:
        place = traceback.extract_tb(error.__traceback__)[-1]
        said = f"{type(error).__name__}: {_words(error)} ({os.path.basename(place.filename)}, line {place.lineno})"
    return {"kind": "raised", "error": plain(said[:MESSAGE]), "seconds": time.perf_counter() - began}


def _words(error: Exception) -> str:
    try:
        return str(error)
    except Exception:  # whatever somebody's message comes to
        return "its message cannot be had"


def _text(found: Any) -> bytes:
    """As it will be read again: what JSON cannot hold is the mistake of the metric, and said where it is made."""
    text = json.dumps(found, allow_nan=False).encode()
    if len(text) > LARGEST:
        raise UnmaskError(f"its numbers take {size(len(text))}; at most {size(LARGEST)} do: large outputs are files")
    return text


def _checked(files: Mapping[str, bytes]) -> dict[str, bytes]:
    for name, content in files.items():
        if not isinstance(name, str) or Path(name).name != name or not isinstance(content, bytes):
            raise UnmaskError(f"it has made a file {shown(name)}; expected bytes, by a name without a directory")
    if (total := sum(map(len, files.values()))) > LARGEST_FILES:
        raise UnmaskError(f"its files take {size(total)}; expected at most {size(LARGEST_FILES)}")
    return dict(files)


def _seldom(tell: Callable[[float], None]) -> Callable[[float], None]:
    last = -TELL_SECONDS

    def listen(share: float) -> None:
        nonlocal last
        if time.monotonic() - last >= TELL_SECONDS:
            last = time.monotonic()
            tell(share)

    return listen
