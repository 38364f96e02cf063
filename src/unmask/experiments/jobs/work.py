"""What any process does with a block, a worker, a Ray task or the driver itself: measure it, and report what failed."""

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
from unmask.experiments.jobs.cells import Block
from unmask.experiments.jobs.store import place_of
from unmask.experiments.measures.catalogue import Output, Plain, Record, Tally, decoded, find, read_records

LARGEST = 2**24  # bytes of the numbers of one block, as text
LARGEST_FILES = 2**28  # bytes of the files of one block
Tell = Callable[[float], None]  # takes the fraction of a block that is done


@dataclass(frozen=True)
class Answer:
    """found: the records of a whole cell, or the tally of a block; error: why there are none.

    lost: the process ended first, so that another attempt may succeed; without an error the block had not begun.
    """

    found: Any = None
    files: Mapping[str, bytes] = field(default_factory=dict)
    seconds: float = 0.0
    error: str = ""
    lost: bool = False


def attempt(block: Block, files: Path, allowed: Allowed, tell: Tell = lambda fraction: None) -> Answer:
    """Measure a block. An error in a metric is an answer: the other cells go on. allowed: what names may import."""
    began, me = time.perf_counter(), os.getpid()
    try:
        with chdir("."), progress.told_to(tell), imports(allowed):  # a metric may change the directory
            needed = [files / key for key in block.needed]
            found, made = measure(block.spec, block.whole, place_of(files, block.key), needed, block.tally)
            if block.whole:
                about = _about(block.spec)
                found = [record | about for record in found]
        return Answer(found, made, time.perf_counter() - began)
    except MemoryError as error:
        text = f"out of memory: {_text(error) or 'ask for fewer rows, or a shorter length'}"
    except UnmaskError as error:
        text = str(error)
    except SystemExit as error:
        text = f"it has called sys.exit({shown(error.code)})"
    except Exception as error:
        last = traceback.extract_tb(error.__traceback__)[-1]
        text = f"{type(error).__name__}: {_text(error)} ({os.path.basename(last.filename)}, line {last.lineno})"
    finally:
        if os.getpid() != me:  # a child that the metric has forked
            os._exit(0)
    return Answer(seconds=time.perf_counter() - began, error=plain(text[:MESSAGE]))


def measure(
    spec: dict[str, Any], whole: bool, place: Path = Path(), needed: Sequence[Path] = (), tally: Tally | None = None
) -> tuple[Any, dict[str, bytes]]:
    """The records of a whole cell, or the tally of a block of one; and files by name."""
    metric = find(spec["metric"])
    arguments = {name: value for name, value in spec.items() if name != "metric"}
    files: dict[str, bytes] = {}
    where = f"the answer of metric {metric.name!r}"
    if tally is None:
        directories = {"place": place, "needed": tuple(needed)}
        found = metric.run(**arguments, **{name: directories[name] for name in metric.given})
        if isinstance(found, Output):
            found, files = found.found, _checked(found.files)
    if metric.records is not None:
        tally = tally if tally is not None else decoded(_json(found), Tally, where)
        if not whole:
            return tally, files
        found = metric.records(tally, **arguments)
    return read_records(_json(found), where), files


def _about(spec: dict[str, Any]) -> Record:
    """The fields that name the truth of a cell's records."""
    about = find(spec["metric"]).about({name: value for name, value in spec.items() if name != "metric"})
    found: Record = decoded(_json(about), dict[str, Plain], f"the truth of metric {spec['metric']!r}")
    return found


def _text(error: Exception) -> str:
    try:
        return str(error)
    except Exception:  # of somebody's own class
        return "its message cannot be had"


def _json(found: Any) -> bytes:
    """As the store will hold it: an answer that JSON cannot hold is an error of the metric."""
    text = json.dumps(found, allow_nan=False).encode()
    if len(text) > LARGEST:
        raise UnmaskError(f"its numbers take {size(len(text))}; expected at most {size(LARGEST)}. Keep them in files")
    return text


def _checked(files: Mapping[str, bytes]) -> dict[str, bytes]:
    for name, content in files.items():
        if not isinstance(name, str) or Path(name).name != name or not isinstance(content, bytes):
            raise UnmaskError(f"it has made a file {shown(name)}; expected bytes, by a name without a directory")
    if (total := sum(map(len, files.values()))) > LARGEST_FILES:
        raise UnmaskError(f"its files take {size(total)}; expected at most {size(LARGEST_FILES)}")
    return dict(files)
