"""The store: one directory for each sweep, with an SQLite database and the larger outputs as files.

    cell      key, spec, state (todo, done, failed), attempts, error, records
    block     tallies of the measured rows of unfinished cells
    run       recipe, command, versions, machine and last answer of each run

One process at a time writes (database.hold). A cell becomes `done` in the transaction that writes its records. A kill
at any time therefore loses only running cells.
"""

from __future__ import annotations

import json
import os
import sqlite3
import time
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from unmask.core.errors import UnmaskError, cut
from unmask.core.files import atomic, make_directory
from unmask.experiments.jobs.catalogue import Plain, Record, Tally, decoded, read_records
from unmask.experiments.sweeps.cells import Cell, canonical
from unmask.experiments.sweeps.database import FILE, connect, damaged, explained

FILES = "files"  # a directory with one directory for each cell that has files
AGAIN = "update cell set state = 'todo', records = null, attempts = 0, error = null"


class Store:
    """The database of one sweep."""

    def __init__(self, directory: Path, connection: sqlite3.Connection) -> None:
        self.directory = directory
        self.connection = connection
        self.file = _identity(directory / FILE)

    @classmethod
    def create(cls, directory: str | Path) -> Store:
        """Open the store of a directory; create it if it is missing."""
        directory = make_directory(Path(directory))
        connection = connect(directory, make=True)
        assert connection is not None
        return cls(directory, connection)

    @classmethod
    def find(cls, directory: str | Path) -> Store | None:
        """The store of a directory; None if it is missing, or only its beginning exists."""
        connection = connect(Path(directory))
        return None if connection is None else cls(Path(directory), connection)

    @classmethod
    def open(cls, directory: str | Path) -> Store:
        store = cls.find(directory)
        if store is None:
            name = cut(str(directory))
            raise UnmaskError(f"there is no sweep in {name}; `unmask sweep run RECIPE --store {name}` makes one")
        return store

    def __enter__(self) -> Store:
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: object) -> None:
        self.connection.close()
        if isinstance(error, sqlite3.Error | UnicodeDecodeError):
            raise explained(self.directory, error) from error

    def check_there(self) -> None:
        """Refuse to go on if the file was deleted or moved: SQLite would continue to write to the unnamed file."""
        if _identity(self.directory / FILE) != self.file:
            what = "it was deleted, or moved, while it was in use; all later results are lost"
            raise UnmaskError(f"the store {cut(str(self.directory))} is gone: {what}")

    @contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """One transaction, completely or not at all."""
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

    # Before a run.

    def add(self, cells: Sequence[Cell]) -> list[str]:
        """Add missing cells; return the keys of all cells. Only the first cell of a common pass has a cost."""
        known = set(self.keys())
        rows, passes = [], set()
        for cell in cells:
            if cell.key not in known:
                shared = cell.shared if cell.measure.shares else cell.key
                cost = 0.0 if shared in passes else cell.cost
                passes.add(shared)
                rows.append((cell.key, cell.job, json.dumps(cell.spec, allow_nan=False), cost))
        if rows:
            with self.writing() as connection:
                connection.executemany("insert into cell (key, job, spec, cost) values (?, ?, ?, ?)", rows)
        return [cell.key for cell in cells]

    def renew(self, code: str, keys: Iterable[str], lasting: Container[str]) -> None:
        """Measure cells of other code versions again; cells of lasting jobs only if they failed."""
        query = "select cell.key, job, state from cell join run on cell.run = run.number where code <> ?"
        chosen = set(keys)
        stale = [
            (key,)
            for key, job, state in self.connection.execute(query, (code,))
            if key in chosen and state != "todo" and (job not in lasting or state == "failed")
        ]
        if stale:
            with self.writing() as connection:
                connection.executemany(f"{AGAIN} where key = ?", stale)

    def retry(self) -> None:
        """Measure failed cells again, with all their attempts."""
        with self.writing() as connection:
            connection.execute(f"{AGAIN} where state = 'failed'")

    def begin(self, recipe: Mapping[str, Any], origin: Mapping[str, Any], engine: str) -> int:
        """The number of a new run. Blocks of other code versions are dropped: all sums of a cell have one version."""
        now, code = time.time(), origin["code"]
        last = self.connection.execute("select code from run order by number desc limit 1").fetchone()
        with self.writing() as connection:
            if last is not None and last[0] != code:
                connection.execute("delete from block")
            cursor = connection.execute(
                "insert into run (recipe, origin, code, engine, began, last) values (?, ?, ?, ?, ?, ?)",
                (json.dumps(recipe), json.dumps(origin), code, engine, now, now),
            )
        assert cursor.lastrowid is not None
        return cursor.lastrowid

    # During a run, inside `writing`.

    def progress(self, run: int, running: int) -> None:
        """Set the number of running cells of a run."""
        self.connection.execute("update run set last = ?, running = ? where number = ?", (time.time(), running, run))

    def finish(self, key: str, records: list[Record], seconds: float, run: int) -> None:
        """seconds: in addition to the time of its blocks."""
        self.connection.execute(
            "update cell set state = 'done', error = null, records = ?, run = ?, attempts = attempts + 1,"
            " seconds = ? + (select coalesce(sum(block.seconds), 0.0) from block where block.key = cell.key)"
            " where key = ?",
            (canonical(records), run, seconds, key),
        )
        self.connection.execute("delete from block where key = ?", (key,))

    def keep(self, key: str, rows: tuple[int, int], tally: Tally, seconds: float) -> None:
        values = (key, *rows, canonical(tally), seconds)
        self.connection.execute("insert or replace into block values (?, ?, ?, ?, ?)", values)

    def lose(self, key: str, error: str) -> int:
        """Count an attempt without an answer; return the number of such attempts."""
        self.connection.execute("update cell set attempts = attempts + 1, error = ? where key = ?", (error, key))
        return int(self.connection.execute("select attempts from cell where key = ?", (key,)).fetchone()[0])

    def fail(self, key: str, error: str, run: int) -> None:
        query = "update cell set state = 'failed', error = ?, run = ? where key = ?"
        self.connection.execute(query, (error, run, key))

    def write_files(self, key: str, files: Mapping[str, bytes]) -> None:
        """Write each file completely or not at all; a repeated block writes the same content."""
        for name, content in files.items():
            directory = make_directory(directory_of(self.directory / FILES, key))
            with atomic(directory / name) as file:
                file.write(content)

    # Reading.

    def keys(self, *states: str) -> list[str]:
        """The cells in these states (default: all), in the order of their addition."""
        cells = self.connection.execute("select key, state from cell order by number")
        return [key for key, state in cells if not states or state in states]

    def done(self) -> set[str]:
        return set(self.keys("done"))

    def begun(self) -> set[str]:
        """The cells that have blocks."""
        return {key for (key,) in self.connection.execute("select distinct key from block")}

    def failures(self) -> dict[str, str]:
        """The errors of failed cells, by key."""
        return dict(self.connection.execute("select key, error from cell where state = 'failed'"))

    def tallies(self, key: str) -> dict[tuple[int, int], Tally]:
        """The tallies of the blocks of a cell, by (first_row, rows)."""
        blocks = self.connection.execute("select first_row, rows, tally from block where key = ?", (key,))
        return {
            (first, rows): decoded(tally, Tally, self._where(f"block {first} of cell", key))
            for first, rows, tally in blocks
        }

    def spec(self, key: str) -> dict[str, Any]:
        return self._spec(key, self.connection.execute("select spec from cell where key = ?", (key,)).fetchone()[0])

    def records(
        self, keys: Iterable[str] | None = None
    ) -> Iterator[tuple[str, dict[str, Any], list[Record], float, int]]:
        """(key, spec, records, seconds, run) of finished cells."""
        chosen = None if keys is None else set(keys)
        query = "select key, spec, records, seconds, run from cell where state = 'done' order by number"
        for key, spec, records, seconds, run in self.connection.execute(query):
            if chosen is None or key in chosen:
                content = read_records(records, self._where("records of cell", key))
                yield key, self._spec(key, spec), content, seconds, run

    def codes(self) -> dict[int, str]:
        """The code digest of each run."""
        return dict(self.connection.execute("select number, code from run"))

    def last_recipe(self) -> dict[str, Any]:
        """The recipe of the last run; empty before the first."""
        last = self.connection.execute("select number, recipe from run order by number desc limit 1").fetchone()
        return {} if last is None else decoded(last[1], dict[str, Any], self._where("recipe of run", last[0]))

    def _spec(self, key: str, text: str) -> dict[str, Any]:
        cell = Cell(decoded(text, dict[str, Plain], self._where("cell", key)))
        if cell.key != key:
            raise damaged(self.directory, f"the cell {key} has a different key than its content")
        return cell.spec

    def _where(self, what: str, name: object) -> str:
        return f"{self.directory / FILE}, {what} {name}"


def directory_of(files: Path, key: str) -> Path:
    """The directory of a cell's files; it must not be a link."""
    if link := next((path for path in (files, files / key) if path.is_symlink()), None):
        raise UnmaskError(f"{cut(str(link))} is a link to elsewhere; expected a directory in the store")
    return files / key


def _identity(path: Path) -> tuple[int, int] | None:
    with suppress(OSError):
        stat = os.stat(path)
        return stat.st_dev, stat.st_ino
    return None
