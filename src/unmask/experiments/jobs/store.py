"""The store: one directory a sweep, an SQLite database with a row a cell, and larger outputs as files beside it.

    cell      key, spec, state (todo, done, failed), attempts, error, records
    block     tallies of the measured rows of cells that are not done
    run       each run: recipe, command, versions, machine, its last answer

One process at a time writes (database.hold). A cell becomes `done` in the transaction that writes its records, so that
a kill at any time loses only the cells that are being measured.
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
from unmask.experiments.jobs.cells import Cell, canonical
from unmask.experiments.jobs.database import FILE, connect, damaged, explained
from unmask.experiments.measures.catalogue import Plain, Record, Tally, decoded, read_records

FILES = "files"  # a directory, with one directory for each cell that has files
AGAIN = "update cell set state = 'todo', records = null, attempts = 0, error = null"


class Store:
    """The database of one sweep."""

    def __init__(self, directory: Path, connection: sqlite3.Connection) -> None:
        self.directory = directory
        self.connection = connection
        found = os.stat(directory / FILE)
        self.file = found.st_dev, found.st_ino

    @classmethod
    def create(cls, directory: str | Path) -> Store:
        """The store of a directory, which is made where there is none."""
        directory = make_directory(Path(directory))
        connection = connect(directory, make=True)
        assert connection is not None
        return cls(directory, connection)

    @classmethod
    def find(cls, directory: str | Path) -> Store | None:
        """The store of a directory, None where there is none, or only the beginning of one."""
        connection = connect(Path(directory))
        return None if connection is None else cls(Path(directory), connection)

    @classmethod
    def open(cls, directory: str | Path) -> Store:
        """The store of a directory, or an error."""
        found = cls.find(directory)
        if found is None:
            place = cut(str(directory))
            help = f"`unmask sweep run RECIPE --store {place}` makes one"
            raise UnmaskError(f"there is no sweep in {place}; {help}")
        return found

    def __enter__(self) -> Store:
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: object) -> None:
        self.connection.close()
        if isinstance(error, sqlite3.Error | UnicodeDecodeError):
            raise explained(self.directory, error) from error

    def check_there(self) -> None:
        """An error where the file was deleted or moved: SQLite would write on into a file without a name."""
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

    # Before a run.

    def add(self, cells: Sequence[Cell]) -> list[str]:
        """Add the cells that are missing; the keys of all. Only the first cell of a shared pass has a cost."""
        known = set(self.keys())
        rows, passes = [], set()
        for cell in cells:
            if cell.key not in known:
                shared = cell.shared if cell.measure.shares else cell.key
                cost = 0.0 if shared in passes else cell.cost
                rows.append((cell.key, cell.metric, json.dumps(cell.spec, allow_nan=False), cost))
                passes.add(shared)
        if rows:
            with self.writing() as connection:
                connection.executemany("insert into cell (key, metric, spec, cost) values (?, ?, ?, ?)", rows)
        return [cell.key for cell in cells]

    def renew(self, code: str, keys: Iterable[str], lasting: Container[str]) -> None:
        """Measure again what a different code has measured or failed at; of lasting metrics only what has failed."""
        query = "select cell.key, metric, state from cell join run on cell.run = run.number where code <> ?"
        wanted = set(keys)
        stale = [
            (key,)
            for key, metric, state in self.connection.execute(query, (code,))
            if key in wanted and state != "todo" and (metric not in lasting or state == "failed")
        ]
        if stale:
            with self.writing() as connection:
                connection.executemany(f"{AGAIN} where key = ?", stale)

    def retry(self) -> None:
        """Measure failed cells again, with all of their attempts."""
        with self.writing() as connection:
            connection.execute(f"{AGAIN} where state = 'failed'")

    def begin(self, recipe: Mapping[str, Any], origin: Mapping[str, Any], engine: str) -> int:
        """The number of a new run. Blocks of a different code are dropped: a cell's sums are of one code."""
        now, code = time.time(), origin["code"]
        last = self.connection.execute("select code from run order by number desc limit 1").fetchone()
        with self.writing() as connection:
            if last is not None and last[0] != code:
                connection.execute("delete from block")
            made = connection.execute(
                "insert into run (recipe, origin, code, engine, began, last) values (?, ?, ?, ?, ?, ?)",
                (json.dumps(recipe), json.dumps(origin), code, engine, now, now),
            )
        assert made.lastrowid is not None
        return made.lastrowid

    # During a run, inside `writing`.

    def progress(self, run: int, running: int) -> None:
        """A run has so many cells under way, since now."""
        self.connection.execute("update run set last = ?, running = ? where number = ?", (time.time(), running, run))

    def finish(self, key: str, records: list[Record], seconds: float, run: int) -> None:
        """seconds: besides those of its blocks."""
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
        """An attempt has ended without an answer; how many have."""
        self.connection.execute("update cell set attempts = attempts + 1, error = ? where key = ?", (error, key))
        return int(self.connection.execute("select attempts from cell where key = ?", (key,)).fetchone()[0])

    def fail(self, key: str, error: str, run: int) -> None:
        query = "update cell set state = 'failed', error = ?, run = ? where key = ?"
        self.connection.execute(query, (error, run, key))

    def write_files(self, key: str, files: Mapping[str, bytes]) -> None:
        """Each whole or not at all; a block that is measured again writes the same content."""
        for name, content in files.items():
            place = make_directory(place_of(self.directory / FILES, key))
            with atomic(place / name) as file:
                file.write(content)

    # Reading.

    def keys(self, *states: str) -> list[str]:
        """The cells in these states, or all, in the order in which they were added."""
        found = self.connection.execute("select key, state from cell order by number")
        return [key for key, state in found if not states or state in states]

    def done(self) -> set[str]:
        return set(self.keys("done"))

    def begun(self) -> set[str]:
        """The cells that have blocks."""
        return {key for (key,) in self.connection.execute("select distinct key from block")}

    def failures(self) -> dict[str, str]:
        """Keys to errors."""
        return dict(self.connection.execute("select key, error from cell where state = 'failed'"))

    def tallies(self, key: str) -> dict[tuple[int, int], Tally]:
        """(first_row, rows) to tallies of the blocks of a cell."""
        found = self.connection.execute("select first_row, rows, tally from block where key = ?", (key,))
        return {
            (first, rows): decoded(tally, Tally, self._where(f"block {first} of cell", key))
            for first, rows, tally in found
        }

    def spec(self, key: str) -> dict[str, Any]:
        return self._spec(key, self.connection.execute("select spec from cell where key = ?", (key,)).fetchone()[0])

    def records(
        self, keys: Iterable[str] | None = None
    ) -> Iterator[tuple[str, dict[str, Any], list[Record], float, int]]:
        """(key, spec, records, seconds, run) of the cells that are done."""
        wanted = None if keys is None else set(keys)
        query = "select key, spec, records, seconds, run from cell where state = 'done' order by number"
        for key, spec, records, seconds, run in self.connection.execute(query):
            if wanted is None or key in wanted:
                yield (
                    key,
                    self._spec(key, spec),
                    read_records(records, self._where("records of cell", key)),
                    seconds,
                    run,
                )

    def codes(self) -> dict[int, str]:
        """Runs to the digests of the code that measured in them."""
        return dict(self.connection.execute("select number, code from run"))

    def last_recipe(self) -> dict[str, Any]:
        """The recipe of the last run, empty where there was none."""
        found = self.connection.execute("select number, recipe from run order by number desc limit 1").fetchone()
        return {} if found is None else decoded(found[1], dict[str, Any], self._where("recipe of run", found[0]))

    def _spec(self, key: str, text: str) -> dict[str, Any]:
        cell = Cell(decoded(text, dict[str, Plain], self._where("cell", key)))
        if cell.key != key:
            raise damaged(self.directory, f"the cell {key} has a different key than its content")
        return cell.spec

    def _where(self, what: str, name: object) -> str:
        return f"{self.directory / FILE}, {what} {name}"


def place_of(files: Path, key: str) -> Path:
    """The directory of a cell's files; an error where it is a link."""
    if link := next((path for path in (files, files / key) if path.is_symlink()), None):
        raise UnmaskError(f"{cut(str(link))} is a link to elsewhere, where a store does not write")
    return files / key
