"""A damaged store is refused in one line, or read; nothing is written where it does not belong."""

from __future__ import annotations

import json
import os
import random
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tests.experiments.sweeps.conftest import SQUARE, Bench
from tests.experiments.sweeps.test_faults import gone, until, workers_of
from unmask.core.errors import UnmaskError
from unmask.experiments.sweeps import database, sweep
from unmask.experiments.sweeps.cells import Cell
from unmask.experiments.sweeps.database import FILE, LOCK
from unmask.experiments.sweeps.pools import LOG
from unmask.experiments.sweeps.run import resume
from unmask.experiments.sweeps.status import status
from unmask.experiments.sweeps.store import Store
from unmask.experiments.sweeps.tables import compare

TOTAL = "tests.experiments.sweeps.trivial:total"
TRUSTED = {"engine": "here", "allow_imports": ["tests.experiments.sweeps.trivial"]}
CELLS = 120
RECIPE = {"name": "t", "jobs": [SQUARE], "grid": {"x": list(range(CELLS))}}
AGAIN = "update cell set state = 'todo', records = null"


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> Path:
    """A store of several pages, with a cell that merges."""
    made = tmp_path_factory.mktemp("whole") / "s"
    sweep(RECIPE, store=made, engine="here")
    sweep({"jobs": [TOTAL], "rows": 12}, store=made, engine="here")
    return made


@pytest.fixture
def store(whole, tmp_path) -> Path:
    return Path(shutil.copytree(whole, tmp_path / "s"))


def answers(store: Path, whole: Path) -> list[str]:
    """What each command says of a store as it is, empty where it works."""
    calls = [
        lambda: status(store),
        lambda: compare(whole, store),
        lambda: sweep(RECIPE, store=store, engine="here").rows(),
        lambda: resume(store, **TRUSTED, again=True).rows(),
    ]
    found, kept = [], store.parent / "kept"
    shutil.copytree(store, kept, symlinks=True, copy_function=same)
    for call in calls:
        shutil.rmtree(store)
        shutil.copytree(kept, store, symlinks=True, copy_function=same)
        try:
            call()
            found.append("")
        except UnmaskError as error:
            found.append(str(error))
    shutil.rmtree(kept)
    assert not any("\n" in text or len(text) > 700 for text in found)
    return found


def same(source: str, target: str) -> None:
    """A copy also of a pipe."""
    if Path(source).is_fifo():
        os.mkfifo(target)
    else:
        shutil.copy(source, target, follow_symlinks=False)


def change(store: Path, *queries: str) -> None:
    """As a program that heeds no constraint would."""
    with closing(sqlite3.connect(store / FILE)) as connection, connection:
        connection.execute("pragma ignore_check_constraints = on")
        for query in queries:
            connection.execute(query)


@pytest.mark.parametrize(
    "query",
    [
        "drop table run",
        "create trigger t after update on cell begin delete from run; end",
        "alter table cell add column more",
        "update cell set records = null",
        "update cell set records = x'ff00fe'",
        "update cell set cost = 'x'",
        "update cell set cost = 9e999",
        "update cell set attempts = 'x'",
        "update cell set state = 'x'",
        "update cell set seconds = 'x'",
        "update cell set key = '../../' || substr(key, 7)",
        "update run set began = 'x'",
        "insert into block select key, 'x', 4, '{}', 1.0 from cell",
    ],
)
def test_what_the_tables_do_not_allow_is_damage(store, whole, query):
    """It is found before anything is done, and nothing is changed."""
    change(store, query)
    before = (store / FILE).read_bytes()
    for text in answers(store, whole):
        assert f"the store {store} is damaged: " in text
        assert f"`sqlite3 {store / FILE} .recover`" in text
    with pytest.raises(UnmaskError, match="is damaged"):
        sweep(RECIPE, store=store, engine="here")
    assert (store / FILE).read_bytes() == before


@pytest.mark.parametrize(
    ("records", "expected"),
    [
        ("{x", "is not JSON: Expecting property name"),
        ("null", "it is None; expected a list"),
        ("[{}]", "it[0] has no 'measure'"),
        ('[{"measure": "a", "value": "b"}]', "it[0].value is 'b'; expected a number or null"),
        ('[{"measure": "a", "value": NaN}]', "NaN is not a finite number"),
        ("[" * 5000, "more than 64 deep"),
    ],
)
def test_records_are_read_by_their_schema(store, whole, records, expected):
    change(store, f"update cell set records = '{records}' where number = 7")
    works, *fails = answers(store, whole)
    assert works == ""  # status reads no records
    for text in fails:
        assert expected in text
        assert f"{FILE}, records of cell " in text


@pytest.mark.parametrize(
    ("new", "expected"),
    [({"seed": "a"}, "seed of job .* is 'a'; expected a whole number"), ({"y": 1}, "unknown parameter")],
)
def test_a_cell_that_its_metric_does_not_take(store, new, expected):
    with Store.open(store) as opened:
        cell = Cell(opened.spec(opened.keys()[6]) | new)
    with closing(sqlite3.connect(store / FILE)) as connection, connection:
        connection.execute(AGAIN)
        connection.execute("update cell set spec = ? where number = 7", (json.dumps(cell.spec),))
    with pytest.raises(UnmaskError, match=r"damaged: the cell .* has a different key than its content"):
        resume(store, **TRUSTED)
    change(store, f"update cell set key = '{cell.key}' where number = 7")
    with pytest.raises(UnmaskError, match=expected):
        resume(store, **TRUSTED)
    sweep(RECIPE, store=store, engine="here")  # the cells of a recipe are its own


@pytest.mark.parametrize("rows", ["0, 1000", "8, 8", "40, 4"])
def test_blocks_of_rows_that_a_cell_does_not_have(store, rows):
    insert = f"insert into block select key, {rows}, '{{\"sum\": 1}}', 1.0 from cell where number = {CELLS + 1}"
    change(store, AGAIN, insert)
    with pytest.raises(UnmaskError, match="overlap, or have rows beyond its own"):
        resume(store, **TRUSTED)


def test_a_cell_with_all_of_its_blocks_is_done_by_merging_them(store):
    tally = '{"sum": 100000000000000000000000000000, "rows": 12}'
    change(store, AGAIN, f"insert into block select key, 0, 12, '{tally}', 3.0 from cell where number = {CELLS + 1}")
    (row,) = [row for row in resume(store, **TRUSTED).rows() if row["measure"] == "total"]
    assert row["value"] == 1e29
    assert row["seconds"] >= 3.0


@pytest.mark.parametrize("name", [FILE, f"{FILE}-wal", LOCK, LOG])
@pytest.mark.parametrize("how", ["pipe", "directory", "loop", "device"])
def test_what_is_no_file_is_not_opened(store, whole, name, how):
    (store / name).unlink(missing_ok=True)
    match how:
        case "pipe":
            os.mkfifo(store / name)
        case "directory":
            (store / name).mkdir()
        case "loop":
            (store / name).symlink_to(store / name)
        case "device":
            (store / name).symlink_to("/dev/zero")
    if name == LOG:
        with pytest.raises(UnmaskError, match=rf"{LOG}.*(expected a file|Too many levels)"):
            sweep({"jobs": [SQUARE], "grid": {"x": [-1]}}, store=store, workers=1)
        return
    found = answers(store, whole)
    if name == LOCK:
        assert found.pop(1) == ""  # comparing asks for no lock
    for text in found:
        assert name in text
        assert "expected a file" in text or "Too many levels" in text


@pytest.mark.parametrize("name", [FILE, f"{FILE}-wal", LOG, "files"])
def test_nothing_is_written_where_a_link_leads(store, tmp_path, name):
    elsewhere = tmp_path / "elsewhere"
    if name == FILE:
        shutil.copy(store / FILE, elsewhere)
    elif name == "files":
        elsewhere.mkdir()
    else:
        elsewhere.touch()
    before = [] if name == "files" else elsewhere.read_bytes()
    (store / name).unlink(missing_ok=True)
    (store / name).symlink_to(elsewhere)
    recipe = {"jobs": ["tests.experiments.sweeps.trivial:sown"], "grid": {"x": [1, 2]}}
    with pytest.raises(UnmaskError, match="is a link to elsewhere"):
        sweep(recipe, store=store, workers=1).whole()
    assert before == (list(elsewhere.iterdir()) if name == "files" else elsewhere.read_bytes())


def test_what_is_no_database(store, whole):
    for content, expected in ((b"", "there is no sweep in"), (b"junk" * 2000, "is damaged"), (None, "is damaged")):
        (store / FILE).write_bytes((whole / FILE).read_bytes()[:5000] if content is None else content)
        found = answers(store, whole)
        assert all(expected in text for text in found[:2] + found[3:])


def test_every_page_in_turn(whole, tmp_path):
    """Random bytes in place of any page are found to be damage."""
    size = int.from_bytes((whole / FILE).read_bytes()[16:18], "big")
    count = (whole / FILE).stat().st_size // size
    assert count > 20
    for page in range(count):
        store = Path(shutil.copytree(whole, tmp_path / f"{page}"))
        content = bytearray((store / FILE).read_bytes())
        content[page * size : (page + 1) * size] = random.Random(page).randbytes(size)
        (store / FILE).write_bytes(content)
        for text in answers(store, whole)[: 4 if page % 5 == 0 else 1]:
            assert "is damaged" in text


def test_what_may_only_be_read_can_be_read(store, whole, monkeypatch):
    """With what is only in its journal."""
    with Store.open(store) as opened:
        with opened.writing() as connection:
            connection.execute("update cell set attempts = 7 where number = 1")
        monkeypatch.setattr(database.os, "access", lambda path, mode: False)
        before = (store / FILE).read_bytes()
        assert status(store)["done"] == CELLS + 1
        assert compare(whole, store).equal
        with Store.open(store) as again:
            assert again.connection.execute("select attempts from cell where number = 1").fetchone() == (7,)
            with pytest.raises(UnmaskError, match="readonly"), again.writing() as connection:
                connection.execute("delete from cell")
        assert (store / FILE).read_bytes() == before


def test_a_store_that_is_deleted_while_it_is_used_is_gone(bench: Bench):
    driver = bench.drive({"jobs": [SQUARE], "grid": {"x": list(range(40))}, "fixed": {"seconds": 0.3}})
    until(lambda: len(bench.measured()) >= 3)
    workers = workers_of(driver)
    shutil.rmtree(bench.store)
    _, words = driver.communicate(timeout=120)
    assert f"the store {bench.store} is gone: it was deleted" in words.splitlines()[-1]
    assert gone(workers)
    assert not bench.store.exists()
