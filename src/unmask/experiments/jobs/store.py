"""The store: one directory a sweep, an SQLite database with a row a cell, and larger outputs as files beside it.

    cell      key, what it is, its state (todo, running, done, failed), attempts, error, records
    block     what is known of parts of cells that are not done
    run       each time that somebody drove it: recipe, command, versions, machine

Only a driver writes (lock.py). A cell is `running` in the database before anybody begins it, and `done` in the same
transaction as its records, so that whatever is killed, at most the running cells are measured again.
"""

from __future__ import annotations

import json
import os
import sqlite3
import time
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from unmask.core.errors import UnmaskError, cut
from unmask.core.files import atomic, make_directory
from unmask.experiments.jobs.attempt import place_of
from unmask.experiments.jobs.cells import Cell, canonical
from unmask.experiments.jobs.opening import FILE, connect, damaged, explained
from unmask.experiments.measures.catalogue import Plain, Record, Tally, decoded, read_records

FILES = "files"  # a directory, with one for each cell that has any


class Store:
    """The database of one sweep; `Store.open` to read or drive it, inside `hold` where it is driven."""

    def __init__(self, directory: Path, connection: sqlite3.Connection) -> None:
        self.directory = directory
        self.connection = connection
        found = os.stat(directory / FILE)
        self.file = found.st_dev, found.st_ino

    @classmethod
    def create(cls, directory: str | Path) -> Store:
        """The store of a directory, which is made where there is none."""
        directory = make_directory(Path(directory))
        return cls(directory, connect(directory, make=True))

    @classmethod
    def open(cls, directory: str | Path) -> Store:
        directory = Path(directory)
        return cls(directory, connect(directory, make=False))

    def close(self) -> None:
        self.connection.close()

    def __enter__(self) -> Store:
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: object) -> None:
        self.close()
        if isinstance(error, sqlite3.Error | UnicodeDecodeError):
            raise explained(self.directory, error) from error

    def check_there(self) -> None:
        """An error where somebody has taken the store away: SQLite would go on writing into nowhere."""
        try:
            found = os.stat(self.directory / FILE)
        except OSError:
            found = None
        if found is None or (found.st_dev, found.st_ino) != self.file:
            what = "it was deleted, or moved, while it was in use; what was measured since is lost"
            raise UnmaskError(f"the store {cut(str(self.directory))} is gone: {what}")

    @contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """One transaction, whole or not at all."""
        self.check_there()
        try:
            self.connection.execute("begin immediate")
            yield self.connection
            self.connection.execute("commit")
        except BaseException as error:
            if self.connection.in_transaction:
                self.connection.execute("rollback")
            if isinstance(error, sqlite3.Error | UnicodeDecodeError):
                raise explained(self.directory, error) from error
            raise

    def add(self, cells: Sequence[Cell]) -> list[str]:
        """Cells that are not there yet are to do; the keys of all. Cells of one pass are paid for once."""
        keys = [cell.key for cell in cells]
        known = {key for (key,) in self.connection.execute("select key from cell")}
        rows, passes = [], set()
        for key, cell in zip(keys, cells, strict=True):
            if key not in known:
                shared = cell.shared if cell.measure.shares else key
                rows.append(
                    (key, cell.metric, json.dumps(cell.spec, allow_nan=False), 0.0 if shared in passes else cell.cost)
                )
                passes.add(shared)
        if rows:
            with self.writing() as connection:
                connection.executemany("insert into cell (key, metric, spec, cost) values (?, ?, ?, ?)", rows)
        return keys

    def begin(self, recipe: Mapping[str, Any], origin: Mapping[str, Any], engine: str) -> int:
        """The number of a new run."""
        now = time.time()
        with self.writing() as connection:
            made = connection.execute(
                "insert into run (recipe, origin, engine, began, heartbeat) values (?, ?, ?, ?, ?)",
                (json.dumps(recipe), json.dumps(origin), engine, now, now),
            )
        assert made.lastrowid is not None
        return made.lastrowid

    def begin_again(self) -> None:
        """What a driver that is gone had not finished is to do again: nobody else holds the store."""
        if self.connection.execute("select exists (select 1 from cell where state = 'running')").fetchone()[0]:
            with self.writing() as connection:
                release_all(connection)

    def end(self, run: int) -> None:
        with self.writing() as connection:
            connection.execute("update run set ended = ? where number = ?", (time.time(), run))

    def keys(self) -> list[str]:
        """Of all cells, in the order in which they were added."""
        return [key for (key,) in self.connection.execute("select key from cell order by number")]

    def count(self, state: str) -> int:
        return int(self.connection.execute("select count(*) from cell where state = ?", (state,)).fetchone()[0])

    def todo(self, keys: Iterable[str]) -> list[str]:
        """What is to do of these cells, in the order in which they were added."""
        found, wanted = self.connection.execute("select key from cell where state = 'todo' order by number"), set(keys)
        return [key for (key,) in found if key in wanted]

    def parts(self, key: str) -> dict[tuple[int, int], Tally]:
        """(first_row, rows) to tallies of the blocks of a cell that is not done."""
        found = self.connection.execute("select first_row, rows, tally from block where key = ?", (key,))
        return {(first, rows): self._read(tally, Tally, f"block {first} of cell", key) for first, rows, tally in found}

    def spec(self, key: str) -> dict[str, Any]:
        return self._spec(key, self.connection.execute("select spec from cell where key = ?", (key,)).fetchone()[0])

    def attempts(self, key: str) -> int:
        return int(self.connection.execute("select attempts from cell where key = ?", (key,)).fetchone()[0])

    def begun(self) -> set[str]:
        """The cells of which there are blocks."""
        return {key for (key,) in self.connection.execute("select distinct key from block")}

    def done(self) -> set[str]:
        return {key for (key,) in self.connection.execute("select key from cell where state = 'done'")}

    def failures(self) -> dict[str, str]:
        """Keys to errors."""
        return dict(self.connection.execute("select key, error from cell where state = 'failed'"))

    def renew(self, code: str, keys: Sequence[str], lasting: Container[str]) -> int:
        """Cells that other code has measured are to do again, but for those of metrics that last; how many."""
        codes = "select number from run where json_extract(origin, '$.code') is not ?"
        found = self.connection.execute(
            f"select key, metric, state from cell where state in ('done', 'failed') and run in ({codes})", (code,)
        )
        wanted = set(keys)
        stale = [
            (key,) for key, metric, state in found if key in wanted and (metric not in lasting or state == "failed")
        ]
        if stale:
            with self.writing() as connection:
                again = "update cell set state = 'todo', records = null, attempts = 0, error = null where key = ?"
                connection.executemany(again, stale)
        return len(stale)

    def drop_blocks_of_others(self, code: str) -> None:
        """Parts of a cell are of one code, or its sums would be of none."""
        last = self.connection.execute(
            "select json_extract(origin, '$.code') from run order by number desc limit 1"
        ).fetchone()
        if last is not None and last[0] != code:
            with self.writing() as connection:
                connection.execute("delete from block")

    def retry(self) -> int:
        """Failed cells are to do again, with all of their attempts."""
        with self.writing() as connection:
            changed = connection.execute(
                "update cell set state = 'todo', attempts = 0, error = null where state = 'failed'"
            )
        return changed.rowcount

    def records(
        self, keys: Iterable[str] | None = None
    ) -> Iterator[tuple[str, dict[str, Any], list[Record], float, int]]:
        """(key, spec, records, seconds, run) of what is done."""
        wanted = None if keys is None else set(keys)
        query = "select key, spec, records, seconds, run from cell where state = 'done' order by number"
        for key, spec, records, seconds, run in self.connection.execute(query):
            if wanted is None or key in wanted:
                found = read_records(records, self._where("records of cell", key))
                yield key, self._spec(key, spec), found, seconds, run

    def failed(self, most: int) -> Iterator[tuple[str, dict[str, Any], str, int]]:
        """(key, spec, error, attempts) of the first that have failed."""
        query = "select key, spec, error, attempts from cell where state = 'failed' order by number limit ?"
        for key, spec, error, attempts in self.connection.execute(query, (most,)):
            yield key, self._spec(key, spec), error, attempts

    def write_files(self, key: str, files: Mapping[str, bytes]) -> None:
        """Each whole or not at all; a block that is measured again writes the same again."""
        for name, content in files.items():
            if Path(name).name != name:
                raise UnmaskError(f"a metric has made a file {name!r}; expected a name without a directory")
            place = make_directory(place_of(self.directory / FILES, key))
            with atomic(place / name) as file:
                file.write(content)

    def codes(self) -> dict[int, str | None]:
        """Runs to the digests of the code that measured in them."""
        return dict(self.connection.execute("select number, json_extract(origin, '$.code') from run"))

    def last_recipe(self) -> dict[str, Any] | None:
        found = self.connection.execute("select number, recipe from run order by number desc limit 1").fetchone()
        return None if found is None else self._read(found[1], dict[str, Any], "recipe of run", found[0])

    def _spec(self, key: str, text: str) -> dict[str, Any]:
        """What a cell is, which its key is made of."""
        spec = dict(self._read(text, dict[str, Plain], "cell", key))
        if Cell(spec).key != key:
            raise damaged(self.directory, f"the cell {key} is another than its key says")
        return spec

    def _read(self, text: str, schema: Any, what: str, name: object) -> Any:
        return decoded(text, schema, self._where(what, name))

    def _where(self, what: str, name: object) -> str:
        return f"{self.directory / FILE}, {what} {name}"


def claim(connection: sqlite3.Connection, keys: Iterable[str]) -> None:
    connection.executemany("update cell set state = 'running' where key = ?", [(key,) for key in keys])


def beat(connection: sqlite3.Connection, run: int) -> None:
    """The driver is alive: what a run has taken is told by it where its driver was killed."""
    connection.execute("update run set heartbeat = ? where number = ?", (time.time(), run))


def finish(connection: sqlite3.Connection, key: str, records: list[Record], seconds: float, run: int) -> None:
    """seconds: besides those of its blocks."""
    connection.execute(
        "update cell set state = 'done', error = null, records = ?, run = ?,"
        " seconds = ? + (select coalesce(sum(block.seconds), 0.0) from block where block.key = cell.key)"
        " where key = ? and state = 'running'",
        (canonical(records), run, seconds, key),
    )
    connection.execute("delete from block where key = ?", (key,))


def keep(connection: sqlite3.Connection, key: str, rows: tuple[int, int], tally: Tally, seconds: float) -> None:
    connection.execute("insert or replace into block values (?, ?, ?, ?, ?)", (key, *rows, canonical(tally), seconds))


def fail(connection: sqlite3.Connection, key: str, error: str, attempts: int, run: int) -> None:
    connection.execute(
        "update cell set state = 'failed', error = ?, attempts = ?, run = ? where key = ?",
        (error, attempts, run, key),
    )


def release(connection: sqlite3.Connection, key: str, error: str | None = None, attempts: int | None = None) -> None:
    """To do again: not begun, interrupted, or killed and worth another attempt."""
    connection.execute(
        "update cell set state = 'todo', error = coalesce(?, error),"
        " attempts = coalesce(?, attempts) where key = ? and state = 'running'",
        (error, attempts, key),
    )


def release_all(connection: sqlite3.Connection) -> None:
    """The driver ends, and nobody is at anything."""
    connection.execute("update cell set state = 'todo' where state = 'running'")
