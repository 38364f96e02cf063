"""What any process does with a block, a worker, a Ray task or the driver itself: measure, and say what came of it."""

from __future__ import annotations

import base64
import json
import os
import time
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from unmask.core import progress
from unmask.core.errors import UnmaskError
from unmask.core.registry import Allowed, imports, imports_allowed
from unmask.experiments.jobs.cells import Block
from unmask.experiments.measures.catalogue import Output, find

TELL_SECONDS = 0.2  # between two words of how far a block is
Task = tuple[str, dict[str, Any], bool, Sequence[str], Allowed]
"""Key, spec, whether it is a whole cell, keys of what it needs, whether names in it may import code, or of what."""


def ordered(block: Block) -> Task:
    """What a process must know of a block."""
    return block.key, block.spec, block.whole, block.needed, imports_allowed()


def measure(
    spec: dict[str, Any], whole: bool, place: Path = Path(), needed: Sequence[Path] = ()
) -> tuple[str, Any, dict[str, bytes]]:
    """("records", ...) of a whole cell, or ("tally", ...) of a block of one; and files by name."""
    measured = find(spec["metric"])
    arguments = {name: value for name, value in spec.items() if name != "metric"}
    directories = {"place": place, "needed": tuple(needed)}
    made = measured.run(**arguments, **{name: directories[name] for name in measured.given})
    found, files = (made.found, dict(made.files)) if isinstance(made, Output) else (made, {})
    if measured.records is None:
        return "records", plain(found), files
    if whole:
        return "records", plain(measured.records(found, **arguments)), files
    return "tally", plain(found), files


def attempt(given: Task, files: Path, tell: Callable[[float], None] = lambda share: None) -> dict[str, Any]:
    """What came of it, as the driver is told: a mistake of one cell is no end of the others."""
    key, spec, whole, needed, trusted = given
    began = time.perf_counter()
    try:
        with progress.told_to(_seldom(tell)), imports(trusted):
            kind, found, made = measure(spec, whole, files / key, [files / other for other in needed])
        seconds = time.perf_counter() - began
        encoded = {name: base64.b64encode(content).decode() for name, content in made.items()}
        return {"kind": kind, "found": found, "files": encoded, "seconds": seconds}
    except MemoryError as error:
        said = f"out of memory: {str(error) or 'ask for fewer rows, or a shorter length'}"
    except UnmaskError as error:
        said = str(error)
    except Exception as error:
        place = traceback.extract_tb(error.__traceback__)[-1]
        said = f"{type(error).__name__}: {error} ({os.path.basename(place.filename)}, line {place.lineno})"
    return {"kind": "raised", "error": said, "seconds": time.perf_counter() - began}


def _seldom(tell: Callable[[float], None]) -> Callable[[float], None]:
    last = -TELL_SECONDS

    def listen(share: float) -> None:
        nonlocal last
        if time.monotonic() - last >= TELL_SECONDS:
            last = time.monotonic()
            tell(share)

    return listen


def plain(found: Any) -> Any:
    """As it will be read again: what JSON cannot hold is the mistake of the metric, and said where it is made."""
    return json.loads(json.dumps(found, allow_nan=False))
