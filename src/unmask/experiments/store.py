"""The store of a sweep: a directory in which one process appends lines of JSON.

    sweep.jsonl    a line for each run, planned cell, finished block, and finished or failed cell; the last one counts
    lock           held by the process that writes, with its number
    files/STEM     files of cells          workers.log     output of jobs

A kill or a full disk can cut only the last line, and the next writer begins a new one. Each line ends with a checksum,
so that a digit that has changed on the disk is noticed. Readers leave out a line that is cut, damaged or of another
shape, name its number once, and need no lock. So a store needs no repair: a cell without its line is measured again.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import socket
import time
import zlib
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import IO, Annotated, Any

import msgspec

from unmask.core import progress
from unmask.core.entries import without
from unmask.core.errors import UnmaskError, cut, listed
from unmask.core.files import make_directory
from unmask.core.reading import check_file
from unmask.experiments.cell import SCHEMA, Record, Rows, Tally, key_of

FILE, LOCK, FILES, LOG = "sweep.jsonl", "lock", "files", "workers.log"
LARGEST = 2**24  # bytes of the numbers of one answer, as text
LONGEST = 4 * LARGEST  # bytes of a line
WIDTH = 400  # bytes of the lock
SYNC = 1.0  # seconds between two writes to the medium itself; a power failure loses at most these
CHECK = b',"crc":"%08x"}'  # the end of a line: a checksum of what comes before it
CHECKED = len(CHECK % 0)

Plain = str | int | float | bool | None
Key = Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{40}$")]
Count = Annotated[int, msgspec.Meta(ge=0)]
Seconds = Annotated[float, msgspec.Meta(ge=0.0, le=1e12)]


class CommonFields(msgspec.Struct):
    """The fields that all records have; None replaces infinite numbers and open ends of intervals."""

    measure: Annotated[str, msgspec.Meta(min_length=1, max_length=200)]
    value: float | None
    low: float | None = None
    high: float | None = None
    n: int | None = None
    level: float | None = None
    method: str | None = None
    model_calls: float | None = None


class Run(msgspec.Struct, tag="run"):
    """The next lines are of this run."""

    schema: int
    began: Seconds
    code: str
    engine: str
    recipe: dict[str, Any]
    origin: dict[str, Any]


class Planned(msgspec.Struct, tag="cell"):
    """A cell that is to be measured, or to be measured again."""

    key: Key
    stem: Key
    job: str
    values: dict[str, Plain]


class Block(msgspec.Struct, tag="block"):
    """The tally of some rows; cells that differ only in their rows share it."""

    stem: Key
    first: Count
    rows: Count
    code: str
    seconds: Seconds
    tally: Tally


class Done(msgspec.Struct, tag="done"):
    """The records of a cell. at: the time; blocks: those of its tally."""

    key: Key
    code: str
    at: Seconds
    seconds: Seconds
    blocks: list[tuple[Count, Count]]
    records: list[dict[str, Plain]]


class Failed(msgspec.Struct, tag="failed"):
    """The error of a cell."""

    key: Key
    code: str
    attempts: Count
    error: str


class Holder(msgspec.Struct):
    """The process that writes a store."""

    pid: int = 0
    host: str = ""
    since: str = ""
    running: int = 0  # blocks

    def __str__(self) -> str:
        return f"process {self.pid} on {cut(self.host)} since {cut(self.since)}" if self.pid else "another process"


Line = Run | Planned | Block | Done | Failed
LINES = msgspec.json.Decoder(Line)


def text_of(line: Mapping[str, Any]) -> bytes:
    """The text of a line, with its checksum."""
    text = json.dumps(line, separators=(",", ":"), allow_nan=False)[:-1].encode()
    return text + CHECK % zlib.crc32(text) + b"\n"


def line_of(text: bytes) -> Line:
    """The line of a text without its end; one of another shape, or with another checksum, is a ValidationError."""
    if not text.endswith(CHECK % zlib.crc32(text[:-CHECKED])):
        raise msgspec.ValidationError("its checksum is another")
    try:
        line: Line = LINES.decode(text)
    except (msgspec.DecodeError, UnicodeError):  # json reads names that are not Unicode and large integers, too
        line = msgspec.convert(json.loads(text, parse_constant=_refused), Line)
    if isinstance(line, Planned) and key_of(line.job, line.values) != line.key:
        raise msgspec.ValidationError("its key is another than that of its content")
    if isinstance(line, Done):
        msgspec.convert(line.records, list[CommonFields])
    return line


@cache
def _tell_aside(path: Path, numbers: tuple[int, ...]) -> None:
    """Name, once for each process, the lines that are left out."""
    which = f"line{'s' * (len(numbers) > 1)} {listed(map(str, numbers))}"
    progress.note(f"{cut(str(path))}: {which} damaged, so left out. Run the recipe again to measure the missing cells.")


class Store:
    """The content of a store, in memory."""

    def __init__(self, directory: str | Path) -> None:
        self.directory = Path(directory)
        self.path, self.files = self.directory / FILE, self.directory / FILES

        self.runs: list[Run] = []
        self.cells: dict[str, Planned] = {}
        self.done: dict[str, Done] = {}
        self.failed: dict[str, Failed] = {}
        self.blocks: dict[str, dict[Rows, Block]] = {}

        if not os.path.lexists(self.path):
            return
        aside = []
        with opened(self.path, os.O_RDONLY) as file:
            for number, text in enumerate(_texts(file), 1):
                try:
                    line = line_of(text)
                except (msgspec.MsgspecError, ValueError, RecursionError):
                    aside += [number] if text.endswith(b"}") else []  # a kill has cut the others
                    continue
                self._note(line)

        if aside:
            _tell_aside(self.path, tuple(aside))

    @classmethod
    def open(cls, directory: str | Path) -> Store:
        store = cls(directory)
        if not store.runs:
            name = cut(str(directory))
            if store.cells or store.blocks:
                raise UnmaskError(
                    f"the line with the recipe is damaged in {name}/{FILE}; other lines are whole",
                    f"Give the recipe again, which keeps the finished cells: `unmask sweep run RECIPE --store {name}`",
                )
            raise UnmaskError(
                f"there is no sweep in {name}, or no whole line of {FILE}",
                f"`unmask sweep run RECIPE --store {name}` makes one",
            )
        return store

    def _note(self, line: Line) -> None:
        match line:
            case Run():
                if line.schema != SCHEMA:
                    other = "a newer" if line.schema > SCHEMA else "an older"
                    raise UnmaskError(
                        f"the store {cut(str(self.directory))} is from {other} version of unmask",
                        "choose another store",
                    )
                self.runs.append(line)

            case Planned():
                self.cells[line.key] = line
                self.done.pop(line.key, None)
                self.failed.pop(line.key, None)
            case Block():
                self.blocks.setdefault(line.stem, {})[line.first, line.rows] = line
            case Done() if line.key in self.cells:
                self.done[line.key] = line
                self.failed.pop(line.key, None)
            case Failed() if line.key in self.cells:
                self.failed[line.key] = line
                self.done.pop(line.key, None)

    @property
    def todo(self) -> list[Planned]:
        return list(without(self.cells, (*self.done, *self.failed)).values())

    def place(self, key: str) -> Path:
        """The directory of a cell's files; it must not be a link."""
        return directory_of(self.files, self.cells[key].stem)

    def spec(self, key: str) -> dict[str, Any]:
        """The job and the parameters of a cell."""
        return {"job": self.cells[key].job} | self.cells[key].values

    def records(self, key: str) -> list[Record]:
        """The records of a finished cell."""
        return self.done[key].records

    def rows(self, keys: Collection[str] | None = None) -> Iterator[dict[str, Any]]:
        """One dict for each record: fields of its cell, its own, code digest, seconds and key of the cell."""
        for key in self.cells:
            if key in self.done and (keys is None or key in keys):
                done = self.done[key]
                more = {"code_digest": done.code, "seconds": done.seconds, "key": key}
                for record in done.records:
                    yield self.spec(key) | record | more


class Writer(Store):
    """A store that this process has locked."""

    def __init__(self, directory: str | Path, file: IO[bytes], lock: IO[bytes]) -> None:
        super().__init__(directory)
        self.file, self.lock = file, lock
        self.since = time.strftime("%Y-%m-%d %H:%M:%S")
        self.synced = 0.0
        self.killed = _holder(lock) if os.fstat(lock.fileno()).st_size else None  # the last process, if it was
        self.tell(0)

    def tell(self, running: int) -> None:
        """Write into the lock how many blocks run now; on a full disk the lock has no name."""
        holder = Holder(os.getpid(), socket.gethostname(), self.since, running)
        with suppress(OSError):
            os.pwrite(self.lock.fileno(), msgspec.json.encode(holder).ljust(WIDTH), 0)

    def append(self, *lines: Line) -> None:
        """Append lines, all or none."""
        texts = list(map(text_of, map(msgspec.to_builtins, lines)))
        handle = self.file.fileno()

        if not os.path.lexists(self.directory / FILE) or os.fstat(handle).st_nlink == 0:
            raise UnmaskError(
                f"the store {cut(str(self.directory))} is gone: it was deleted, or moved, while it was in use",
                "all later results are lost",
            )

        # the rest of a cut line stays alone: readers leave it out
        end = os.fstat(handle).st_size
        if end and os.pread(handle, 1, end - 1) != b"\n":  # a kill has cut a line
            texts.insert(0, b"\n")
        content = memoryview(b"".join(texts))

        try:
            while content:
                content = content[os.write(handle, content) :]
            if time.monotonic() > self.synced + SYNC:
                os.fsync(handle)
                self.synced = time.monotonic()
        except OSError as error:
            with suppress(OSError):  # a part of a line is left out when it is read
                os.ftruncate(handle, end)
            store = cut(str(self.directory))
            full = error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
            help = f"Finished cells are kept. Free some space, then run `unmask sweep resume {store}`"
            advice = f"; is there space left? {help}" if full else ""
            raise UnmaskError(f"cannot write the store {store}: {error.strerror}{advice}") from error

        for line in lines:
            self._note(line)


@contextmanager
def writing(directory: str | Path) -> Iterator[Writer]:
    """Lock a store, which need not exist. The lock stays, or two processes could lock two files of one name."""
    directory = make_directory(Path(directory))
    with opened(directory / LOCK, os.O_RDWR | os.O_CREAT) as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise UnmaskError(
                f"{cut(str(directory))} is in use by {_holder(lock)}", "wait for it, or stop it there with Ctrl-C"
            ) from None
        except OSError as error:  # a file system without locks, where two processes could write one store
            raise UnmaskError(
                f"cannot lock the store {cut(str(directory))}: {error.strerror}",
                "expected a file system with locks",
                "Choose another directory.",
            ) from error

        with opened(directory / FILE, os.O_RDWR | os.O_CREAT | os.O_APPEND) as file:
            try:
                yield Writer(directory, file, lock)
            finally:
                with suppress(OSError):
                    os.fsync(file.fileno())
                    lock.truncate(0)


def records(path: str | Path) -> Iterator[dict[str, Any]]:
    """The records of a store as rows of one table."""
    return Store.open(path).rows()


def _refused(constant: str) -> None:
    raise msgspec.ValidationError(f"{constant} is not a finite number")


def _texts(file: IO[bytes]) -> Iterator[bytes]:
    """The lines of a file without their ends; only the beginning of one that is too long."""
    while text := file.readline(LONGEST):
        yield text.rstrip(b"\n")
        while len(text) == LONGEST and not text.endswith(b"\n"):
            text = file.readline(LONGEST)


def directory_of(files: Path, stem: str) -> Path:
    """The directory of a cell's files; it must not be a link."""
    if link := next(filter(Path.is_symlink, (files, files / stem)), None):
        raise UnmaskError(f"{cut(str(link))} is a link to elsewhere; expected a directory in the store")
    return files / stem


def holder(directory: Path) -> tuple[Holder | None, bool]:
    """(the process that wrote a store last, unless it has ended by itself; whether it still does)."""
    if not os.path.lexists(directory / LOCK):
        return None, False
    with opened(directory / LOCK, os.O_RDONLY) as file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return _holder(file), True
        except OSError:  # a file system without locks has no store that is written
            return None, False
        return (_holder(file) if os.fstat(file.fileno()).st_size else None), False


def _holder(file: IO[bytes]) -> Holder:
    try:
        return msgspec.json.decode(os.pread(file.fileno(), 4096, 0).rstrip(b"\0"), type=Holder)
    except (msgspec.DecodeError, RecursionError, UnicodeError):  # empty, or another program has written it
        return Holder()


@contextmanager
def opened(path: Path, how: int) -> Iterator[IO[bytes]]:
    """A file of a store; a link or an irregular file is refused, as a store writes only in its own directory."""
    if os.path.lexists(path):
        check_file(path)
        if path.is_symlink():
            raise UnmaskError(f"cannot use {cut(str(path))}: it is a link to elsewhere; expected a file in the store")
    try:
        handle = os.open(path, how | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o666)
    except OSError as error:
        raise UnmaskError(f"cannot open {cut(str(path))}: {error.strerror}") from error
    with open(handle, "r+b" if how & os.O_RDWR else "rb", buffering=-1 if how == os.O_RDONLY else 0) as file:
        yield file
