"""The database file of a store, looked at before anything in it is believed: it may be damaged, or somebody else's.

It is a regular file that begins as SQLite's do, of our schema and of no other, in which SQLite finds nothing wrong and
every value is of the kind that its column has. JSON in it is held against its schema where it is read (store.py).
Where nothing may be written, a copy is read.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
from pathlib import Path
from tempfile import TemporaryDirectory

from unmask.core.errors import UnmaskError, cut
from unmask.core.reading import check_file, opened
from unmask.experiments.jobs.cells import SCHEMA

FILE = "sweep.sqlite"
BESIDE = ("", "-wal", "-shm", "-journal")  # what SQLite may open with it
MAGIC = b"SQLite format 3\0"
USER_VERSION_AT = 60  # bytes into an SQLite file
BUSY = 10.0  # seconds that another process may hold it
TABLES = """
create table cell (
  number integer primary key, key text not null unique, metric text not null, spec text not null, cost real not null,
  state text not null default 'todo', attempts integer not null default 0, error text, records text, seconds real,
  run integer);
create index cell_state on cell (state, run, metric, cost, seconds);
create table block (
  key text not null, first_row integer not null, rows integer not null, tally text not null, seconds real not null,
  primary key (key, first_row)) without rowid;
create table run (
  number integer primary key, recipe text not null, origin text not null, engine text not null,
  began real not null, heartbeat real not null, ended real);
"""
NAMES = "length(key) = 64 and key not glob '*[^0-9a-f]*'"
LASTED = "typeof(seconds) = 'real' and seconds between 0 and 1e12"
RIGHT = {
    "run": """typeof(began) = 'real' and typeof(heartbeat) = 'real' and typeof(ended) in ('real', 'null')
        and case when json_valid(recipe) and json_valid(origin) then json_type(recipe) = 'object'
            and coalesce(json_type(origin, '$.code'), 'text') in ('text', 'null') end""",
    "cell": f"""{NAMES} and typeof(cost) = 'real' and cost between 0 and 1e12
        and typeof(attempts) = 'integer' and attempts between 0 and 1e9
        and case when json_valid(spec) then json_extract(spec, '$.metric') is metric end
        and case state when 'done' then typeof(records) = 'text' and {LASTED} and run in (select number from run)
            when 'failed' then typeof(error) = 'text' else state in ('todo', 'running') end""",
    "block": f"""{NAMES} and typeof(first_row) = 'integer' and first_row >= 0
        and typeof(rows) = 'integer' and rows > 0 and typeof(tally) = 'text' and {LASTED}""",
}
"""What holds of every row of a table; SQLite itself would let any value stand in any column."""


def connect(directory: Path, make: bool) -> sqlite3.Connection:
    """The database of a store; make: also where there is none yet, or one that was killed while it was made."""
    path = directory / FILE
    for name in BESIDE:
        if os.path.lexists(f"{path}{name}"):
            check_own(Path(f"{path}{name}"))
    if os.path.lexists(path):
        _check_head(directory, make)
    elif not make:
        raise none_in(directory)
    try:
        if all(os.access(place, os.W_OK) for place in (directory, path) if os.path.exists(place)):
            connection = _opened(path, "rwc" if make else "rw")
            connection.execute("pragma journal_mode = wal")
            connection.execute("pragma synchronous = full")
        else:
            connection = _copied(path)
        if make and _version(connection) == 0:
            _make(connection)
        _check(directory, connection)
    except (sqlite3.Error, UnicodeDecodeError) as error:  # the other where a message quotes damage
        raise explained(directory, error) from error
    return connection


def check_own(path: Path) -> None:
    """An error where a file of a store is no regular file, or is a link: what is elsewhere is nobody's to write."""
    check_file(path)
    if path.is_symlink():
        raise UnmaskError(f"cannot use {cut(str(path))}: it is a link to elsewhere; expected a file of the store's own")


def none_in(directory: Path) -> UnmaskError:
    what = f"there is no sweep in {cut(str(directory))}"
    return UnmaskError(f"{what}; `unmask sweep run RECIPE --store {cut(str(directory))}` makes one")


def damaged(directory: Path, what: str) -> UnmaskError:
    """What is said of a store in which something is not what it should be."""
    place = cut(str(directory))
    help = f"`unmask sweep rescue {place} --out FILE` writes what can still be read"
    return UnmaskError(f"the store {place} cannot be used, it is damaged: {what}; {help}")


def explained(directory: Path, error: sqlite3.Error | UnicodeDecodeError) -> UnmaskError:
    text = "what it names is no text" if isinstance(error, UnicodeDecodeError) else str(error)
    place = cut(str(directory))
    if "full" in text or "disk I/O" in text:
        what = "is there space left? What was finished before is kept"
        return UnmaskError(f"cannot write the store {place}: {text}; {what}: `unmask sweep resume {place}`")
    if isinstance(error, sqlite3.OperationalError) and ("lock" in text or "unable to open" in text):
        return UnmaskError(f"the store {place} cannot be used: {text}; is another program at it?")
    return damaged(directory, text)


def _opened(path: Path, mode: str) -> sqlite3.Connection:
    connection = sqlite3.connect(f"{path.absolute().as_uri()}?mode={mode}", BUSY, isolation_level=None, uri=True)
    connection.execute("pragma trusted_schema = off")  # nothing that a schema says is run
    return connection


def _copied(path: Path) -> sqlite3.Connection:
    """In memory, with what is not yet in the file itself: SQLite reads no journal where it may not write."""
    with TemporaryDirectory() as spare:
        for name in ("", "-wal"):
            if os.path.exists(f"{path}{name}"):
                with opened(f"{path}{name}") as file, open(f"{spare}/{FILE}{name}", "wb") as copy:
                    shutil.copyfileobj(file, copy)
        source, connection = _opened(Path(spare) / FILE, "rw"), sqlite3.connect(":memory:", isolation_level=None)
        source.backup(connection)
        source.close()
    connection.execute("pragma query_only = on")
    return connection


def _version(connection: sqlite3.Connection) -> int:
    return int(connection.execute("pragma user_version").fetchone()[0])


def _make(connection: sqlite3.Connection) -> None:
    connection.execute("begin immediate")
    if _version(connection) == 0 and not _schema(connection):
        for statement in TABLES.split(";\n"):
            connection.execute(statement)
        connection.execute(f"pragma user_version = {SCHEMA}")
    connection.execute("commit")
    connection.execute("pragma wal_checkpoint(truncate)")  # so that the file itself tells its version


def _schema(connection: sqlite3.Connection) -> set[tuple[str, ...]]:
    return set(connection.execute("select type, name, coalesce(sql, '') from sqlite_schema"))


def _check_head(directory: Path, make: bool) -> None:
    """From the bytes of the file: opening it would already touch it."""
    with opened(directory / FILE) as file:
        head = file.read(USER_VERSION_AT + 4)
    if not head:  # killed while it was made
        if not make:
            raise none_in(directory)
        return
    if not head.startswith(MAGIC):
        raise damaged(directory, f"{FILE} does not begin as an SQLite database does")
    version = int.from_bytes(head[USER_VERSION_AT:], "big")
    if version not in (0, SCHEMA):  # 0: killed while it was made
        age, what = ("newer", "update unmask, or name") if version > SCHEMA else ("older", "its cells are others; name")
        made = f"{directory} was made by a {age} unmask: its schema is {version}, and this one knows {SCHEMA}"
        raise UnmaskError(f"{made}; {what} another store. Nothing was touched")


def _check(directory: Path, connection: sqlite3.Connection) -> None:
    found, model = _schema(connection), sqlite3.connect(":memory:")
    if not found and _version(connection) == 0:
        raise none_in(directory)
    model.executescript(TABLES)
    if other := found ^ _schema(model):
        kind, name, _ = min(other)
        raise damaged(directory, f"its {kind} {cut(str(name))!r} is missing, or not as this unmask makes it")
    model.close()
    if (said := connection.execute("pragma quick_check(1)").fetchone()[0]) != "ok":
        raise damaged(directory, cut(str(said).splitlines()[-1]))
    for table, right in RIGHT.items():
        label = "number" if table == "run" else "key"
        query = f"select {label} from {table} where not coalesce({right}, 0) limit 1"
        if wrong := connection.execute(query).fetchone():
            raise damaged(directory, f"a value of the {table} {cut(str(wrong[0]))} is not of the kind of its column")
