"""The database file of a store, and the lock of the one process that writes it.

A file is opened only if it has the schema below and SQLite finds no damage in it: quick_check also verifies the
constraints of the tables. store.py reads JSON in them by its schema.
"""

from __future__ import annotations

import fcntl
import json
import os
import socket
import sqlite3
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from datetime import datetime
from pathlib import Path
from typing import Any

from unmask.core.errors import UnmaskError, cut, plain
from unmask.core.reading import check_file

FILE = "sweep.sqlite"
LOCK = "driver.lock"
SUFFIXES = ("", "-wal", "-shm", "-journal")  # of the files that SQLite opens
VERSION = 5  # of the tables
BUSY = 10.0  # seconds to wait for another process
TABLES = """
create table if not exists cell (
  number integer primary key, key text not null unique, job text not null, spec text not null, cost real not null,
  state text not null default 'todo', attempts integer not null default 0, error text, records text, seconds real,
  run integer,
  check (typeof(key) = 'text' and length(key) = 64 and key not glob '*[^0-9a-f]*' and typeof(spec) = 'text'),
  check (typeof(cost) = 'real' and cost between 0 and 1e12 and typeof(attempts) = 'integer'),
  check (seconds is null or (typeof(seconds) = 'real' and seconds between 0 and 1e12)),
  check (case state when 'todo' then 1 when 'failed' then typeof(error) = 'text'
    when 'done' then typeof(records) = 'text' and seconds is not null and typeof(run) = 'integer' else 0 end));
create index if not exists cell_state on cell (state, run, job, cost, seconds);
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
    """The database of a store, or None. make: create it, also if a kill or a full disk left only its beginning."""
    path = directory / FILE
    for suffix in SUFFIXES:
        if os.path.lexists(f"{path}{suffix}"):
            check_own(Path(f"{path}{suffix}"))
    exists = os.path.lexists(path) and path.stat().st_size > 0
    if not exists and not make:
        return None
    undo = ExitStack()
    try:
        if exists:
            _check_version(directory)
        if all(os.access(name, os.W_OK) for name in (directory, path) if os.path.exists(name)):
            connection = _opened(path, "rwc" if make else "rw")
            undo.callback(connection.close)
            connection.execute("pragma journal_mode = wal")
            connection.execute("pragma synchronous = full")
        else:
            connection = _opened(path, "ro" if os.path.exists(f"{path}-wal") else "ro&immutable=1")
            undo.callback(connection.close)
        if not _schema(connection):
            if not make:
                return None
            connection.executescript(f"begin immediate; {TABLES} pragma user_version = {VERSION}; commit")
            connection.execute("pragma wal_checkpoint(truncate)")  # the file itself then has the version
        _check(directory, connection)
        undo.pop_all()
        return connection
    except (sqlite3.Error, UnicodeDecodeError) as error:  # the second if a message quotes damaged text
        raise explained(directory, error) from error
    finally:
        undo.close()


def check_own(path: Path) -> None:
    """Refuse a link or an irregular file in a store: a store writes only in its own directory."""
    check_file(path)
    if path.is_symlink():
        raise UnmaskError(f"cannot use {cut(str(path))}: it is a link to elsewhere; expected a file in the store")


def damaged(directory: Path, what: str) -> UnmaskError:
    help = f"`sqlite3 {cut(str(directory / FILE))} .recover` prints all readable rows"
    return UnmaskError(f"the store {cut(str(directory))} is damaged: {what}. {help}; nothing was changed")


def explained(directory: Path, error: sqlite3.Error | UnicodeDecodeError) -> UnmaskError:
    """Explain an error of SQLite: a full disk, another program, or damage."""
    text = "a name in it is not Unicode" if isinstance(error, UnicodeDecodeError) else str(error)
    store = cut(str(directory))
    if "full" in text or "disk I/O" in text:
        help = f"Finished cells are kept. Free some space, then run `unmask sweep resume {store}`"
        return UnmaskError(f"cannot write the store {store}: {text}; is there space left? {help}")
    if isinstance(error, sqlite3.OperationalError) and any(w in text for w in ("lock", "unable to open", "readonly")):
        return UnmaskError(f"cannot use the store {store}: {text}; does another program use it?")
    return damaged(directory, text)


def _opened(path: Path, mode: str) -> sqlite3.Connection:
    connection = sqlite3.connect(
        f"{path.absolute().as_uri()}?mode={mode}", timeout=BUSY, isolation_level=None, uri=True
    )
    connection.execute("pragma trusted_schema = off")
    return connection


def _schema(connection: sqlite3.Connection) -> set[tuple[str, ...]]:
    return set(connection.execute("select type, name, coalesce(sql, '') from sqlite_schema"))


def _check_version(directory: Path) -> None:
    """Refuse tables of another version; the file is read without its journal and not changed."""
    connection = _opened(directory / FILE, "ro&immutable=1")
    version = connection.execute("pragma user_version").fetchone()[0]
    connection.close()
    if version not in (0, VERSION):  # 0 if only its beginning exists
        age, help = ("a newer", "update unmask, or choose") if version > VERSION else ("an older", "choose")
        raise UnmaskError(f"the store {cut(str(directory))} is from {age} version of unmask; {help} another store")


def _check(directory: Path, connection: sqlite3.Connection) -> None:
    expected = sqlite3.connect(":memory:")
    expected.executescript(TABLES)
    if other := _schema(connection) ^ _schema(expected):
        kind, name, _ = min(other)
        raise damaged(directory, f"its {kind} {cut(str(name))!r} is missing or unknown")
    expected.close()
    if (result := connection.execute("pragma quick_check(1)").fetchone()[0]) != "ok":
        raise damaged(directory, cut(str(result).splitlines()[-1]))


@contextmanager
def hold(directory: Path) -> Iterator[str]:
    """Lock a store for writing, or name the process that has the lock. Yields the last process if it was killed.

    The system drops the lock of a dead process. The file stays, empty after an ordinary end: if it were removed, two
    processes could lock two files with the same name.
    """
    with _lock_file(directory, os.O_RDWR | os.O_CREAT) as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            help = "wait for it, or stop it there with Ctrl-C"
            raise UnmaskError(f"{cut(str(directory))} is in use by {_words(_read(handle))}; {help}") from None
        before = _read(handle)
        os.ftruncate(handle, 0)
        with suppress(OSError):  # on a full disk the lock has no name
            me = {"pid": os.getpid(), "host": socket.gethostname(), "since": time.time()}
            os.pwrite(handle, json.dumps(me).encode(), 0)
        try:
            yield _words(before) if before["pid"] else ""
        finally:
            os.ftruncate(handle, 0)


def holder(directory: Path) -> dict[str, Any] | None:
    """The process that writes a store now, or None."""
    if not os.path.lexists(directory / LOCK):
        return None
    with _lock_file(directory, os.O_RDONLY) as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return _read(handle)
    return None


@contextmanager
def _lock_file(directory: Path, how: int) -> Iterator[int]:
    path = directory / LOCK
    if os.path.lexists(path):
        check_file(path)
    try:
        handle = os.open(path, how | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o666)
    except OSError as error:
        raise UnmaskError(f"cannot lock the store {cut(str(directory))}: {error.strerror}") from error
    try:
        yield handle
    finally:
        os.close(handle)


def _read(handle: int) -> dict[str, Any]:
    with suppress(ValueError, RecursionError, TypeError, LookupError):  # another program may have written it
        entry = json.loads(os.pread(handle, 4096, 0))
        return {"pid": int(entry["pid"]), "host": str(entry["host"])[:255], "since": float(entry["since"])}
    return {"pid": None, "host": None, "since": None}


def _words(holder: dict[str, Any]) -> str:
    if not holder["pid"]:
        return "another process"
    with suppress(ValueError, OverflowError, OSError):
        since = datetime.fromtimestamp(holder["since"]).isoformat(" ", "seconds")
        return f"process {holder['pid']} on {plain(holder['host'])} since {since}"
    return f"process {holder['pid']}"
