"""Measuring a block and reporting failures, in a worker, a Ray task or the driver itself."""

from __future__ import annotations

import json
import os
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from contextlib import chdir
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from unmask.core import progress
from unmask.core.errors import MESSAGE, UnmaskError, plain, shown
from unmask.core.memory import size
from unmask.core.registry import Allowed, imports
from unmask.experiments.jobs.catalogue import Output, Plain, Record, Tally, decoded, find, read_records
from unmask.experiments.sweeps.cells import Block
from unmask.experiments.sweeps.store import directory_of

LARGEST = 2**24  # bytes of the numbers of one block, as text
LARGEST_FILES = 2**28  # bytes of the files of one block
Tell = Callable[[float], None]  # takes the finished fraction of a block


@dataclass(frozen=True)
class Answer:
    """result: the records of a whole cell, or the tally of a block; error: the reason for a missing result.

    lost: the process ended first, so another attempt may succeed; without an error the block had not begun.
    """

    result: Any = None
    files: Mapping[str, bytes] = field(default_factory=dict)
    seconds: float = 0.0
    error: str = ""
    lost: bool = False


def attempt(block: Block, files: Path, allowed: Allowed, tell: Tell = lambda fraction: None) -> Answer:
    """Measure a block. An error in a job is an answer: other cells go on. allowed: modules that names may import."""
    began, process = time.perf_counter(), os.getpid()
    try:
        with chdir("."), progress.reported_to(tell), imports(allowed):  # a job may change the directory
            needed = [files / key for key in block.needed]
            result, written = measure(block.spec, block.whole, directory_of(files, block.key), needed, block.tally)
            if block.whole:
                about = _about(block.spec)
                result = [record | about for record in result]
        return Answer(result, written, time.perf_counter() - began)
    except MemoryError as error:
        text = f"out of memory: {_text(error) or 'ask for fewer rows, or a shorter length'}"
    except UnmaskError as error:
        text = str(error)
    except SystemExit as error:
        text = f"it called sys.exit({shown(error.code)})"
    except Exception as error:
        last = traceback.extract_tb(error.__traceback__)[-1]
        text = f"{type(error).__name__}: {_text(error)} ({os.path.basename(last.filename)}, line {last.lineno})"
    finally:
        if os.getpid() != process:  # a forked child of the job
            os._exit(0)
    return Answer(seconds=time.perf_counter() - began, error=plain(text[:MESSAGE]))


def measure(
    spec: dict[str, Any], whole: bool, place: Path = Path(), needed: Sequence[Path] = (), tally: Tally | None = None
) -> tuple[Any, dict[str, bytes]]:
    """The records of a whole cell, or the tally of a block; and files by name."""
    job = find(spec["job"])
    arguments = {name: value for name, value in spec.items() if name != "job"}
    files: dict[str, bytes] = {}
    where = f"the answer of job {job.name!r}"
    if tally is None:
        directories = {"place": place, "needed": tuple(needed)}
        result = job.run(**arguments, **{name: directories[name] for name in job.given})
        if isinstance(result, Output):
            result, files = result.result, _checked(result.files)
    if job.records is not None:
        tally = tally if tally is not None else decoded(_json(result), Tally, where)
        if not whole:
            return tally, files
        result = job.records(tally, **arguments)
    return read_records(_json(result), where), files


def _about(spec: dict[str, Any]) -> Record:
    """The fields of a cell's records that identify their ground truth."""
    about = find(spec["job"]).about({name: value for name, value in spec.items() if name != "job"})
    fields: Record = decoded(_json(about), dict[str, Plain], f"the ground truth of job {spec['job']!r}")
    return fields


def _text(error: Exception) -> str:
    try:
        return str(error)
    except Exception:  # an error of any class
        return "its message is not readable"


def _json(result: Any) -> bytes:
    """Encode a result as the store does. A result that JSON cannot represent is an error of the job."""
    text = json.dumps(result, allow_nan=False).encode()
    if len(text) > LARGEST:
        raise UnmaskError(f"its numbers take {size(len(text))}; expected at most {size(LARGEST)}. Return them as files")
    return text


def _checked(files: Mapping[str, bytes]) -> dict[str, bytes]:
    for name, content in files.items():
        if not isinstance(name, str) or Path(name).name != name or not isinstance(content, bytes):
            raise UnmaskError(f"it made a file {shown(name)}; expected bytes, and a name without a directory")
    if (total := sum(map(len, files.values()))) > LARGEST_FILES:
        raise UnmaskError(f"its files take {size(total)}; expected at most {size(LARGEST_FILES)}")
    return dict(files)
