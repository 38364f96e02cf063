"""One case: a directory of its own with what it needs, a command in it, and what the promise says of any command.

Exit code 0 or 2, or 1 of `unmask diff`; at most three lines on stderr besides those of progress; no traceback; under
20 seconds of processor and a gigabyte; at exit 2 the directory is as it was; no unfinished file is left, nothing
outside is touched, nothing is started, and no process stays.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import re
import shutil
import socket
import stat
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from unmask.core.files import TEMPORARY

HERE = Path(__file__).parent
SOCKET = "socket"
LINES = 3
BYTES = 2**30
LONGEST = 2600  # characters of a line of stderr: a message of ours has 2,000
PROGRESS = re.compile(r".*: (at work for .*|\d+% after .*|loss .*, validation .*)")
SINGLE = ("NUMBA_NUM_THREADS", "UNMASK_THREADS")
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

    def __repr__(self) -> str:
        what = {name: content if isinstance(content, str | bytes) else "" for name, content in self.files.items()}
        return f"unmask {' '.join(map(repr, self.words))} with {what!r:.1500} {dict(self.environment) or ''}"


@dataclass
class Ran:
    code: int
    out: str
    err: str
    told: list[str]
    wrong: list[str]  # what breaks the promise
    seconds: float
    bytes: int

    @property
    def lines(self) -> list[str]:
        """Of stderr, but for those of progress."""
        return [line for line in self.err.splitlines() if not PROGRESS.fullmatch(line)]


class Server:
    """A client of the fork server (server.py); `seeds` is where its valid files lie.

    place: a directory for the cases of this process. shared: a directory for all processes of a run. The first of them
    starts the server, which ends with it; the others wait until it is ready.
    """

    def __init__(self, place: Path, shared: Path) -> None:
        self.place, self.log = place, shared / "log"
        self.process: subprocess.Popen[str] | None = None
        shared.mkdir(exist_ok=True)
        with (shared / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            try:
                self.connection = connected(shared)
            except OSError:
                self.process = self._started(shared)
                self.connection = connected(shared)
        self.lines = self.connection.makefile("rw")
        self.seeds = Path(self.answer()["seeds"])

    def _started(self, shared: Path) -> subprocess.Popen[str]:
        """The server, once it listens."""
        home = shared / "home"
        home.mkdir(exist_ok=True)
        paths = os.pathsep.join([str(HERE.parents[1]), *(path for path in sys.path if path)])
        environment = os.environ | dict.fromkeys(SINGLE, "1") | {"PYTHONPATH": paths, "HOME": str(home)}
        environment["GLIBC_TUNABLES"] = "glibc.malloc.hugetlb=1"  # large pages: a fork copies fewer of their entries
        with self.log.open("w") as log:
            process = subprocess.Popen(
                [sys.executable, "-P", "-m", "tests.hostile.server", tempfile.mkdtemp(dir=shared)],
                cwd=shared,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                env=environment,
            )
        assert process.stdout is not None
        if not process.stdout.readline():
            raise RuntimeError(f"the server did not start: {self.log.read_text()[-3000:]}")
        return process

    def ask(self, request: Mapping[str, Any]) -> dict[str, Any]:
        self.lines.write(json.dumps(request) + "\n")
        self.lines.flush()
        return self.answer()

    def answer(self) -> dict[str, Any]:
        line = self.lines.readline()
        if not line:
            raise RuntimeError(f"the server has ended: {self.log.read_text()[-3000:]}")
        return json.loads(line)

    def close(self) -> None:
        self.lines.close()
        self.connection.close()
        if self.process is not None:
            self.process.communicate()

    def run(self, case: Case) -> Ran:
        """What came of a case, with all that is wrong about it."""
        root = Path(tempfile.mkdtemp(dir=self.place))
        try:
            for name in ("work", "home", "tmp"):
                (root / name).mkdir()
            for name, content in case.files.items():
                self._put(root / "work" / name, content)
            before = snapshot(root / "work")
            request = {"words": list(case.words), "root": str(root), "environment": dict(case.environment)}
            answer = self.ask(request)
            texts = [(root / name).read_bytes().decode(errors="replace") for name in ("out", "err", "told")]
            ran = Ran(answer["code"], *texts[:2], texts[2].splitlines(), [], answer["seconds"], answer["bytes"])
            ran.wrong = list(self._wrong(case, ran, answer, before, root))
            return ran
        finally:
            shutil.rmtree(root)

    def _put(self, path: Path, content: Content) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        if content is None or isinstance(content, tuple):
            seed, change = (path.name, None) if content is None else content
            valid = self.seeds / seed
            if valid.is_dir():
                shutil.copytree(valid, path)
            else:
                shutil.copyfile(valid, path)
            if change is not None:
                change(path)
        elif callable(content):
            content(path)
        elif isinstance(content, str):
            path.write_text(content, errors="surrogatepass")
        else:
            path.write_bytes(content)

    def _wrong(self, case: Case, ran: Ran, answer: Mapping[str, Any], before: Snapshot, root: Path) -> Any:
        if answer["hung"]:
            yield "it hangs"
        elif ran.code == -24:
            yield "it takes more than 20 s"
        elif ran.code not in ((0, 1, 2) if case.words[:1] == ["diff"] else (0, 2)):  # traces that differ
            yield f"it ends with {ran.code}"
        if "Traceback" in ran.err or "is a defect of unmask" in ran.err:
            yield "a traceback"
        if len(ran.lines) > LINES:
            yield f"{len(ran.lines)} lines on stderr"
        if any(len(line) > LONGEST for line in ran.lines):
            yield "a line without end on stderr"
        if ran.code == 2 and not ran.lines:
            yield "no word of what is wrong"
        if any(not (c.isprintable() or c == "\n") for c in ran.err):
            yield "what is no text on stderr"
        if answer["bytes"] > BYTES:
            yield f"{answer['bytes'] / 2**30:.2f} GiB"
        if answer["left"]:
            yield "a process stays behind"
        yield from ran.told
        after = snapshot(root / "work")
        for name in sorted(before.keys() | after.keys()):
            part = Path(name).name
            if part.startswith(TEMPORARY[0]) and part.endswith(TEMPORARY[1]):
                yield f"a temporary file: {name}"
            elif ran.code != 0 and before.get(name) != after.get(name) and not name.startswith(case.changes or ("\0",)):
                yield f"exit {ran.code}, and changed: {name}"
        for place in ("home", "tmp"):
            for name in snapshot(root / place):
                yield f"left in {place}: {name}"


def connected(shared: Path) -> socket.socket:
    """To the server that listens there; by its directory's number, since paths of sockets must be short."""
    made, directory = socket.socket(socket.AF_UNIX), os.open(shared, os.O_RDONLY)
    try:
        made.connect(f"/proc/self/fd/{directory}/{SOCKET}")
    except OSError:
        made.close()
        raise
    finally:
        os.close(directory)
    return made


def snapshot(directory: Path) -> Snapshot:
    """Each name below a directory with its kind and a digest of what it holds."""
    found: Snapshot = {}
    for place, directories, files in os.walk(directory):
        for name in directories + files:
            path = Path(place, name)
            status = path.lstat()
            text = ""
            if stat.S_ISREG(status.st_mode) and status.st_size < 2**26:
                text = hashlib.md5(path.read_bytes(), usedforsecurity=False).hexdigest()
            found[str(path.relative_to(directory))] = (stat.S_IFMT(status.st_mode), text)
    return found


def pipe(path: Path) -> None:
    os.mkfifo(path)


def link_to_itself(path: Path) -> None:
    path.symlink_to(path.name)


def device(path: Path) -> None:
    path.symlink_to("/dev/zero")


def sparse(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(10**10)


def directory(path: Path) -> None:
    path.mkdir()


def nowhere(path: Path) -> None:
    """No such file."""


NO_FILES: tuple[Make, ...] = (pipe, link_to_itself, device, sparse, directory, nowhere)
