"""The database file of a store, and the lock of the one process that writes it.

A file is opened only if its schema is the one below and SQLite finds no damage in it: quick_check verifies the
constraints of the tables, too. JSON in them is read by its schema (store.py).
"""

from __future__ import annotations

import fcntl
import os
import shutil
import socket
import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any

import msgspec

from unmask.core.errors import UnmaskError, cut
from unmask.core.reading import check_file, opened

FILE = "sweep.sqlite"
LOCK = "driver.lock"
SUFFIXES = ("", "-wal", "-shm", "-journal")  # of the files that SQLite may open
VERSION = 4  # of the tables
MAGIC = b"SQLite format 3\0"
VERSION_AT = 60  # bytes into an SQLite file
BUSY = 10.0  # seconds to wait for another process
TABLES = """
create table if not exists cell (
  number integer primary key, key text not null unique, metric text not null, spec text not null, cost real not null,
  state text not null default 'todo', attempts integer not null default 0, error text, records text, seconds real,
  run integer,
  check (typeof(key) = 'text' and length(key) = 64 and key not glob '*[^0-9a-f]*' and typeof(spec) = 'text'),
  check (typeof(cost) = 'real' and cost between 0 and 1e12 and typeof(attempts) = 'integer'),
  check (seconds is null or (typeof(seconds) = 'real' and seconds between 0 and 1e12)),
  check (case state when 'todo' then 1 when 'failed' then typeof(error) = 'text'
    when 'done' then typeof(records) = 'text' and seconds is not null and typeof(run) = 'integer' else 0 end));
create index if not exists cell_state on cell (state, run, metric, cost, seconds);
create table if not exists block (
  key text not null, first_row integer not null, rows integer not null, tally text not null, seconds real not null,
  primary key (key, first_row),
  check (typeof(key) = 'text' and typeof(tally) = 'text' and typeof(seconds) = 'real' and seconds between 0 and 1e12),
  check (typeof(first_row) = 'integer' and first_row >= 0 and typeof(rows) = 'integer' and rows > 0)) without rowid;
create table if not exists run (
  number integer primary key, recipe text not null, origin text not null, code text not null, engine text not null,
  began real not null, last real not null, running integer not null default 0,
  check (typeof(recipe) = 'text' and typeof(code) = 'text' and typeof(running) = 'integer'),
  check (typeof(began) = 'real' and typeof(last) = 'real' and began between 0 and 1e12 and last between 0 and 1e12));
"""


def connect(directory: Path, make: bool = False) -> sqlite3.Connection | None:
    """The database of a store, None where there is none; `make` creates it, also where a kill or a full disk has left
    a part of it. Where nothing may be written, this is a copy in memory."""
    path = directory / FILE
    for suffix in SUFFIXES:
        if os.path.lexists(f"{path}{suffix}"):
            check_own(Path(f"{path}{suffix}"))
    if not os.path.lexists(path) and not make:
        return None
    if os.path.lexists(path) and not _check_head(directory) and not make:
        return None
    connection = None
    try:
        if all(os.access(place, os.W_OK) for place in (directory, path) if os.path.exists(place)):
            connection = _opened(path, "rwc" if make else "rw")
            connection.execute("pragma journal_mode = wal")
            connection.execute("pragma synchronous = full")
        else:
            connection = _copied(path)
        if _version(connection) == 0 and not _schema(connection):
            if not make:
                connection.close()
                return None
            connection.executescript(f"begin immediate; {TABLES} pragma user_version = {VERSION}; commit;")
            connection.execute("pragma wal_checkpoint(truncate)")  # so that the file's own head has the version
        _check(directory, connection)
        return connection
    except BaseException as error:
        if connection is not None:
            connection.close()
        if isinstance(error, sqlite3.Error | UnicodeDecodeError):  # the latter where a message quotes damaged text
            raise explained(directory, error) from error
        raise


def check_own(path: Path) -> None:
    """An error where a file of a store is no regular file, or is a link: a store writes only in its own directory."""
    check_file(path)
    if path.is_symlink():
        raise UnmaskError(f"cannot use {cut(str(path))}: it is a link to elsewhere; expected a file of the store's own")


def none_in(directory: Path) -> UnmaskError:
    what = f"there is no sweep in {cut(str(directory))}"
    return UnmaskError(f"{what}; `unmask sweep run RECIPE --store {cut(str(directory))}` makes one")


def damaged(directory: Path, what: str) -> UnmaskError:
    help = f"`sqlite3 {cut(str(directory / FILE))} .recover` prints what can still be read"
    return UnmaskError(f"the store {cut(str(directory))} is damaged: {what}. {help}; nothing was changed")


def explained(directory: Path, error: sqlite3.Error | UnicodeDecodeError) -> UnmaskError:
    """An error of SQLite in words: a full disk, another program, or damage."""
    text = "a name in it is not Unicode" if isinstance(error, UnicodeDecodeError) else str(error)
    place = cut(str(directory))
    if "full" in text or "disk I/O" in text:
        what = f"finished cells are kept. Make space, then run `unmask sweep resume {place}`"
        return UnmaskError(f"cannot write the store {place}: {text}, is there space left? {what}")
    if isinstance(error, sqlite3.OperationalError) and any(w in text for w in ("lock", "unable to open", "readonly")):
        return UnmaskError(f"cannot use the store {place}: {text}; does another program use it?")
    return damaged(directory, text)


def _opened(path: Path, mode: str) -> sqlite3.Connection:
    connection = sqlite3.connect(f"{path.absolute().as_uri()}?mode={mode}", BUSY, isolation_level=None, uri=True)
    connection.execute("pragma trusted_schema = off")
    return connection


def _copied(path: Path) -> sqlite3.Connection:
    """A copy in memory with the content of the journal, which SQLite does not read where it may not write."""
    with TemporaryDirectory() as spare:
        for name in (FILE, f"{FILE}-wal"):
            if os.path.exists(path.with_name(name)):
                with opened(path.with_name(name)) as file, open(Path(spare) / name, "wb") as copy:
                    shutil.copyfileobj(file, copy)
        source, connection = _opened(Path(spare) / FILE, "rw"), sqlite3.connect(":memory:", isolation_level=None)
        source.backup(connection)
        source.close()
    connection.execute("pragma query_only = on")
    return connection


def _version(connection: sqlite3.Connection) -> int:
    return int(connection.execute("pragma user_version").fetchone()[0])


def _schema(connection: sqlite3.Connection) -> set[tuple[str, ...]]:
    return set(connection.execute("select type, name, coalesce(sql, '') from sqlite_schema"))


def _check_head(directory: Path) -> bool:
    """Whether the file has content; an error where it is no database of this version. Opening it could change it."""
    with opened(directory / FILE) as file:
        head = file.read(VERSION_AT + 4)
    if not head:
        return False
    if not head.startswith(MAGIC):
        raise damaged(directory, f"{FILE} does not begin as an SQLite database does")
    version = int.from_bytes(head[VERSION_AT:], "big")
    if version not in (0, VERSION):  # 0 where a kill has stopped its making
        age, what = ("a newer", "update unmask, or choose") if version > VERSION else ("an older", "choose")
        raise UnmaskError(f"the store {cut(str(directory))} is from {age} version of unmask; {what} another store")
    return True


def _check(directory: Path, connection: sqlite3.Connection) -> None:
    expected = sqlite3.connect(":memory:")
    expected.executescript(TABLES)
    if other := _schema(connection) ^ _schema(expected):
        kind, name, _ = min(other)
        raise damaged(directory, f"its {kind} {cut(str(name))!r} is missing or unknown")
    expected.close()
    if (found := connection.execute("pragma quick_check(1)").fetchone()[0]) != "ok":
        raise damaged(directory, cut(str(found).splitlines()[-1]))


class Holder(msgspec.Struct):
    """The process that writes a store, as its lock file names it."""

    pid: Annotated[int, msgspec.Meta(gt=0)]
    host: Annotated[str, msgspec.Meta(max_length=255)]
    since: Annotated[float, msgspec.Meta(ge=0, le=1e11)]

    def __str__(self) -> str:
        since = datetime.fromtimestamp(self.since).isoformat(" ", "seconds")
        return f"process {self.pid} on {self.host} since {since}"


@contextmanager
def hold(directory: Path) -> Iterator[Holder | None]:
    """Be the one process that writes a store, or say which one is. Yields the one before if it was killed.

    The system drops the lock of a process that dies. The file stays, empty after an ordinary end: if it were removed,
    two processes could lock two files of one name.
    """
    handle = _lock_file(directory, os.O_RDWR | os.O_CREAT)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = _read(handle) or "another process"
            what = "wait for it, or stop it there with Ctrl-C"
            raise UnmaskError(f"{cut(str(directory))} is being driven by {holder}; {what}") from None
        before = _read(handle)
        me = Holder(os.getpid(), socket.gethostname(), time.time())
        os.ftruncate(handle, 0)
        with suppress(OSError):  # on a full disk the lock holds without a name
            os.pwrite(handle, msgspec.json.encode(me), 0)
        try:
            yield before
        finally:
            os.ftruncate(handle, 0)
    finally:
        os.close(handle)


def holder(directory: Path) -> dict[str, Any] | None:
    """The process that writes a store now, None if none does."""
    if not os.path.lexists(directory / LOCK):
        return None
    handle = _lock_file(directory, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        found = _read(handle)
        return {"pid": None, "host": None, "since": None} if found is None else msgspec.structs.asdict(found)
    finally:
        os.close(handle)
    return None


def _lock_file(directory: Path, how: int) -> int:
    path = directory / LOCK
    if os.path.lexists(path):
        check_file(path)
    try:
        return os.open(path, how | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o666)
    except OSError as error:
        raise UnmaskError(f"cannot lock the store {cut(str(directory))}: {error.strerror}") from error


def _read(handle: int) -> Holder | None:
    with suppress(msgspec.DecodeError, UnicodeError):
        return msgspec.json.decode(os.pread(handle, 4096, 0), type=Holder)
    return None
