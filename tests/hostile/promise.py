"""The promise of every command, whatever its input: a case in a directory of its own, and what breaks the promise.

Exit code 0 or 2, or 1 of `unmask diff`; at most three lines on stderr besides those of progress; no traceback; under
a minute of processor and three gigabytes; at exit 2 the directory is as it was; no unfinished file is left.
"""

from __future__ import annotations

import hashlib
import os
import re
import resource
import shutil
import signal
import stat
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple, NoReturn

from unmask.core.files import TEMPORARY

LINES = 3
SECONDS = 60  # of the processor: a loop without end, and no measure of speed
ROOM = 3 * 2**30  # bytes of addresses
LONGEST = 2600  # characters of a line of stderr: a message of ours has 2,000
PROGRESS = re.compile(r".*: (at work for .*|\d+% after .*|loss .*, validation .*)")
Make = Callable[[Path], object]
Content = bytes | str | Make | tuple[str, Make] | None
Snapshot = dict[str, tuple[int, str]]


@dataclass
class Case:
    """A command and what lies in its directory.

    files: by name, bytes, a text, or a function that makes it there; None for a copy of the valid one of that name, or
    (name of a valid one, what is done to its copy). changes: beginnings of names that may change at exit 2, too.
    """

    words: Sequence[str]
    files: Mapping[str, Content] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)
    changes: tuple[str, ...] = ()

    def put(self, place: Path, valid: Path) -> None:
        """Make its files; `valid` has the valid ones."""
        for name, content in self.files.items():
            path = place / name
            path.parent.mkdir(parents=True, exist_ok=True)
            if content is None or isinstance(content, tuple):
                seed, change = (path.name, None) if content is None else content
                (shutil.copytree if (valid / seed).is_dir() else shutil.copyfile)(valid / seed, path)
                if change is not None:
                    change(path)
            elif callable(content):
                content(path)
            elif isinstance(content, str):
                path.write_text(content, errors="surrogatepass")
            else:
                path.write_bytes(content)


class Ran(NamedTuple):
    code: int
    err: str
    wrong: list[str]  # what breaks the promise

    @property
    def lines(self) -> list[str]:
        return told(self.err)


def told(err: str) -> list[str]:
    """The lines of stderr, but for those of progress."""
    return [line for line in err.splitlines() if not PROGRESS.fullmatch(line)]


def broken(case: Case, code: int, err: str, before: Snapshot, after: Snapshot) -> Iterator[str]:
    """What is wrong with the end of a case."""
    lines = told(err)
    if code not in ((0, 1, 2) if case.words[:1] == ["diff"] else (0, 2)):  # traces that differ
        yield f"it ends with {code}"
    if "Traceback" in err or "is a bug of unmask" in err:
        yield "a traceback"
    if len(lines) > LINES:
        yield f"{len(lines)} lines on stderr"
    if any(len(line) > LONGEST for line in lines):
        yield "a line without end on stderr"
    if code == 2 and not lines:
        yield "no word of what is wrong"
    if any(not (c.isprintable() or c == "\n") for c in err):
        yield "what is no text on stderr"
    for name in sorted(before.keys() | after.keys()):
        part = Path(name).name
        if part.startswith(TEMPORARY[0]) and part.endswith(TEMPORARY[1]):
            yield f"a temporary file: {name}"
        elif code != 0 and before.get(name) != after.get(name) and not name.startswith(case.changes or ("\0",)):
            yield f"exit {code}, and changed: {name}"


@contextmanager
def bounded() -> Iterator[None]:
    """Bound the processor's time and the addresses that the block takes."""

    def over(number: int, frame: object) -> NoReturn:
        raise RuntimeError(f"it takes more than {SECONDS} s")

    pages = int(Path("/proc/self/statm").read_text().split()[0])
    before, handler = resource.getrlimit(resource.RLIMIT_AS), signal.signal(signal.SIGPROF, over)
    resource.setrlimit(resource.RLIMIT_AS, (pages * os.sysconf("SC_PAGE_SIZE") + ROOM, before[1]))
    signal.setitimer(signal.ITIMER_PROF, SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, handler)
        resource.setrlimit(resource.RLIMIT_AS, before)


def snapshot(directory: Path) -> Snapshot:
    """Each name below a directory with its kind and a digest of what it holds."""
    found: Snapshot = {}
    for place, directories, files in os.walk(directory):
        for name in directories + files:
            path = Path(place, name)
            status, text = path.lstat(), ""
            if stat.S_ISREG(status.st_mode) and status.st_size < 2**26:
                text = hashlib.md5(path.read_bytes(), usedforsecurity=False).hexdigest()
            found[str(path.relative_to(directory))] = (stat.S_IFMT(status.st_mode), text)
    return found
