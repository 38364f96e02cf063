"""Stores that are damaged, or somebody else's: each command says in one line what is wrong, or does its work."""

from __future__ import annotations

import csv
import json
import os
import random
import shutil
import sqlite3
from pathlib import Path

import pytest

from tests.experiments.jobs.conftest import SQUARE, Bench
from unmask.cli.main import main
from unmask.core.errors import UnmaskError
from unmask.experiments.jobs import lock, opening, rescue, seals, sweep
from unmask.experiments.jobs.cells import Cell
from unmask.experiments.jobs.local import LOG
from unmask.experiments.jobs.opening import FILE
from unmask.experiments.jobs.run import resume
from unmask.experiments.jobs.status import status
from unmask.experiments.jobs.store import Store
from unmask.experiments.jobs.tables import compare

TOTAL = "tests.experiments.jobs.trivial:total"
CELLS = 120
RECIPE = {"name": "t", "metrics": [SQUARE], "grid": {"x": list(range(CELLS))}, "parts": [{}]}
AGAIN = "update cell set state = 'todo', records = null"


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> Path:
    """A store of several pages, and of a cell that merges."""
    made = tmp_path_factory.mktemp("whole") / "s"
    sweep(RECIPE, store=made, engine="here")
    sweep({"metrics": [TOTAL], "rows": 12}, store=made, engine="here")
    return made


@pytest.fixture
def store(whole, tmp_path) -> Path:
    return Path(shutil.copytree(whole, tmp_path / "s"))


def commands(store: Path, whole: Path) -> list[str]:
    """What each command says, nothing where it works; anything but an UnmaskError of one line is an error here."""
    calls = [
        lambda: status(store),
        lambda: compare(whole, store),
        lambda: sweep(RECIPE, store=store, engine="here").rows(),
        lambda: resume(store, engine="here", allow_imports=["tests.experiments.jobs.trivial"], again=True).rows(),
    ]
    said, spoilt = [], store.parent / "spoilt"
    shutil.copytree(store, spoilt, symlinks=True, copy_function=same)
    for call in calls:
        shutil.rmtree(store)
        shutil.copytree(spoilt, store, symlinks=True, copy_function=same)
        try:
            call()
            said.append("")
        except UnmaskError as error:
            said.append(str(error))
    shutil.rmtree(spoilt)
    assert not any("\n" in words or len(words) > 700 for words in said)
    return said


def same(source: str, target: str) -> None:
    """A copy also of what is no file."""
    if Path(source).is_fifo():
        os.mkfifo(target)
    else:
        shutil.copy(source, target, follow_symlinks=False)


def spoil(store: Path, *queries: str) -> None:
    connection = sqlite3.connect(store / FILE)
    with connection:
        for query in queries:
            connection.execute(query)
    connection.close()


@pytest.mark.parametrize(
    ("queries", "said"),
    [
        (["drop table cell"], "its (index|table) 'cell.*' is missing"),
        (["drop table run"], "its table 'run' is missing"),
        (["create trigger t after update on cell begin delete from run; end"], "its trigger 't' is missing, or not as"),
        (["alter table cell add column more"], "its table 'cell' is missing, or not as"),
        (["update cell set spec = '{x'"], "a value of the cell .* is not of the kind of its column"),
        (["update cell set spec = '[1]'"], "a value of the cell"),
        (["update cell set spec = 'null'"], "a value of the cell"),
        (["update cell set spec = '" + "[" * 5000 + "'"], "a value of the cell"),
        (["update cell set records = null"], "a value of the cell"),
        (["update cell set records = x'ff00fe'"], "a value of the cell"),
        (["update cell set cost = 'x'"], "a value of the cell"),
        (["update cell set cost = 9e999"], "a value of the cell"),
        (["update cell set attempts = 'x'"], "a value of the cell"),
        (["update cell set state = 'x'"], "a value of the cell"),
        (["update cell set run = 77"], "a value of the cell"),
        (["update cell set seconds = 'x'"], "a value of the cell"),
        (["update cell set key = '../../' || substr(key, 7)"], "a value of the cell"),
        (["update run set began = 'x'"], "a value of the run 1"),
        (["update run set origin = '{x'"], "a value of the run 1"),
        (["update run set origin = '{\"code\": [1]}'"], "a value of the run 1"),
        (["update run set recipe = '[1]'"], "a value of the run 1"),
        ([AGAIN, "insert into block select key, 'x', 4, '{}', 1.0 from cell"], "a value of the block"),
    ],
)
def test_what_is_of_another_kind_is_found_before_anything_is_done(store, whole, queries, said):
    spoil(store, *queries)
    for words in commands(store, whole):
        with pytest.raises(UnmaskError, match=f"the store .* cannot be used, it is damaged: {said}"):
            raise UnmaskError(words)
        assert f"`unmask sweep rescue {store} --out FILE`" in words


@pytest.mark.parametrize(
    ("records", "said"),
    [
        ("{x", "is not JSON: Expecting property name"),
        ("null", "it is None; expected a list"),
        ("3", "it is 3; expected a list"),
        ('["a"]', "it[0] is 'a'; expected a mapping"),
        ("[{}]", "it[0] has no 'measure'"),
        ('[{"measure": "a", "value": "b"}]', "it[0].value is 'b'; expected a number or null"),
        ('[{"measure": "a", "value": true}]', "it[0].value is True; expected a number or null"),
        ('[{"measure": "a", "value": NaN}]', "NaN is not a finite number"),
        ('[{"measure": "a", "value": 1e999}]', "a number is too large"),
        ('[{"measure": "a", "value": 1, "more": {"b": 1}}]', "expected true or false, a whole number"),
        ('[{"measure": "\\udcff", "value": 1}]', "is not Unicode"),
        ("[" * 5000, "more than 64 deep"),
        ("[" + "1" * 5000 + "]", "thousands of digits"),
    ],
)
def test_records_are_read_by_their_schema(store, whole, records, said):
    key = sqlite3.connect(store / FILE).execute("select key from cell where number = 7").fetchone()[0]
    spoil(store, f"update cell set records = '{records}' where number = 7")
    works, *fails = commands(store, whole)
    assert works == ""  # status reads no records
    for words in fails:
        assert said in words
        assert f"{FILE}, records of cell {key}" in words


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("json_set(spec, '$.x', json('[1]'))", "expected true or false, a whole number"),
        ("json_remove(spec, '$.x')", "needs x"),
        ("json_set(spec, '$.seed', 'a')", "seed of metric .* is 'a'; expected a whole number"),
        ("json_set(spec, '$.y', 1)", "unknown parameter"),
    ],
)
def test_a_cell_that_its_metric_does_not_take(store, whole, change, said):
    """Where its key is that of what it says; else it is known by that alone."""
    spoil(store, AGAIN, f"update cell set spec = {change} where number = 7")
    with pytest.raises(UnmaskError, match=r"damaged: the cell .* is another than its key says|expected true or false"):
        resume(store, engine="here", allow_imports=["tests.experiments.jobs.trivial"])
    (spec,) = sqlite3.connect(store / FILE).execute("select spec from cell where number = 7").fetchone()
    cell = Cell(json.loads(spec))
    spoil(store, f"update cell set key = '{cell.key}' where number = 7")
    seals.seal(store, {cell.key: cell.spec})  # as if it had been put there here
    with pytest.raises(UnmaskError, match=said):
        resume(store, engine="here", allow_imports=["tests.experiments.jobs.trivial"])
    sweep(RECIPE, store=store, engine="here")  # whose cells are its own


@pytest.mark.parametrize(
    ("blocks", "said"),
    [
        ("0, 1000", "overlap, or are of rows that it does not have: 0, 1000"),
        ("8, 8", "overlap, or are of rows that it does not have"),
        ("40, 4", "overlap, or are of rows that it does not have"),
    ],
)
def test_blocks_that_are_none_of_a_cell(store, blocks, said):
    insert = f"insert into block select key, {blocks}, '{{\"sum\": 1}}', 1.0 from cell where number = {CELLS + 1}"
    spoil(store, AGAIN, insert)
    with pytest.raises(UnmaskError, match=said):
        resume(store, engine="here", allow_imports=["tests.experiments.jobs.trivial"])


def test_a_tally_that_is_none(store):
    spoil(
        store, AGAIN, f"insert into block select key, 0, 4, '{{\"a\": 1.5}}', 1.0 from cell where number = {CELLS + 1}"
    )
    with pytest.raises(UnmaskError, match=r"a is 1\.5; expected a whole number"):
        resume(store, engine="here", allow_imports=["tests.experiments.jobs.trivial"])


def test_a_cell_of_which_all_blocks_are_known_is_done_by_merging_them(store):
    tally = '{"sum": 100000000000000000000000000000, "rows": 12}'
    spoil(store, AGAIN, f"insert into block select key, 0, 12, '{tally}', 3.0 from cell where number = {CELLS + 1}")
    made = resume(store, engine="here", allow_imports=["tests.experiments.jobs.trivial"])
    (row,) = [row for row in made.rows() if row["measure"] == "total"]
    assert row["value"] == 1e29
    assert row["seconds"] >= 3.0


@pytest.mark.parametrize("name", [FILE, f"{FILE}-wal", f"{FILE}-shm", lock.FILE])
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
    said = commands(store, whole)
    if name == lock.FILE:
        assert said.pop(1) == ""  # comparing asks nobody
    for words in said:
        assert name in words
        assert "expected a file" in words or "Too many levels" in words


def test_a_log_that_is_a_pipe(store):
    (store / LOG).unlink(missing_ok=True)
    os.mkfifo(store / LOG)
    spoil(store, AGAIN)
    with pytest.raises(UnmaskError, match="it is a pipe; expected a file"):
        resume(store, workers=1, allow_imports=["tests.experiments.jobs.trivial"])


@pytest.mark.parametrize("name", [FILE, f"{FILE}-wal", LOG, "files"])
def test_nothing_is_written_where_a_link_leads(store, tmp_path, name):
    """A log is appended to, a database changed, and a cell's files made: each elsewhere, if they could be links."""
    elsewhere = tmp_path / "elsewhere"
    if name == FILE:
        shutil.copy(store / FILE, elsewhere)
    elif name == "files":
        elsewhere.mkdir()
    else:
        elsewhere.touch()
    spoil(store, AGAIN)
    before = [] if name == "files" else elsewhere.read_bytes()
    (store / name).unlink(missing_ok=True)
    (store / name).symlink_to(elsewhere)
    recipe = {"metrics": ["tests.experiments.jobs.trivial:sown"], "grid": {"x": [1, 2]}}
    with pytest.raises(UnmaskError, match="is a link to elsewhere"):
        sweep(recipe, store=store, workers=1).whole()
    assert before == (list(elsewhere.iterdir()) if name == "files" else elsewhere.read_bytes())


@pytest.mark.parametrize(
    "content", [b'{"pid": "x"}', b'{"pid": 3}', b"\xff\xfe", b"[" * 10**5, b"null", b'{"since": 1e300}']
)
def test_a_lock_with_other_words_in_it_is_a_lock(store, whole, content):
    (store / lock.FILE).write_bytes(content)
    assert commands(store, whole) == [""] * 4


def test_what_is_no_database(store, whole):
    for content, said in (
        (b"", "there is no sweep in"),
        (b"junk" * 2000, "does not begin as an SQLite database does"),
        ((store / FILE).read_bytes()[:5000], "is damaged"),
    ):
        (store / FILE).write_bytes(content)
        found = commands(store, whole)
        assert all(said in words for words in found[:2] + found[3:])
        (store / FILE).write_bytes((whole / FILE).read_bytes())


def test_a_store_that_was_killed_while_it_was_made(tmp_path):
    for content in (None, "pragma journal_mode = wal"):
        store = tmp_path / str(content)
        store.mkdir()
        connection = sqlite3.connect(store / FILE)
        if content:
            connection.execute(content)
        connection.close()
        (store / FILE).touch()
        with pytest.raises(UnmaskError, match="there is no sweep in"):
            status(store)
        assert len(sweep(RECIPE, store=store, engine="here").keys) == CELLS


def page_size(store: Path) -> int:
    return int.from_bytes((store / FILE).read_bytes()[16:18])


def test_every_page_in_turn(whole, tmp_path, capsys):
    """All say so or work, and what stood on other pages is rescued, with the numbers that it had."""
    size = page_size(whole)
    count = (whole / FILE).stat().st_size // size
    assert count > 20
    with Store.open(whole) as opened:
        expected = {key: [record["value"] for record in found] for key, _, found, _, _ in opened.records()}
    for page in range(count):
        store = Path(shutil.copytree(whole, tmp_path / f"{page}"))
        content = bytearray((store / FILE).read_bytes())
        content[page * size : (page + 1) * size] = random.Random(page).randbytes(size)
        (store / FILE).write_bytes(content)
        said = commands(store, whole)[:2] if page % 5 == 0 else [""]
        assert all(words == "" or "is damaged" in words for words in said)
        assert main(["sweep", "rescue", str(store), "--out", str(tmp_path / "r.csv")]) == 0
        saved = rescue.rescue(store)
        assert f"cells lost    {saved.cells_lost}\n" in capsys.readouterr().out
        assert CELLS - 7 <= saved.cells + saved.cells_lost <= CELLS + 1  # the last page takes its numbers with it
        assert saved.cells_lost <= 8
        found: dict[str, list[float]] = {}
        for row in csv.DictReader((tmp_path / "r.csv").read_text().splitlines()):
            found.setdefault(row["key"], []).append(float(row["value"]))
        assert len(found) == saved.cells
        assert found.items() <= expected.items()


def test_what_is_rescued_of_a_whole_store_is_all_of_it(store):
    """Also rows that are longer than a page, and those that are only in the journal."""
    long = "x" * 20_000
    opened = Store.open(store)
    with opened.writing() as connection:
        connection.execute("update cell set records = json_set(records, '$[0].method', ?) where number = 3", (long,))
    with Store.open(store) as other:
        from unmask.experiments.jobs import tables

        expected = tables.rows(other)
    found = rescue.rescue(store)
    opened.close()
    assert found.rows == expected
    assert (found.cells, found.cells_lost, found.records_lost) == (CELLS + 1, 0, 0)
    assert any(row["method"] == long for row in found.rows)


def test_what_cannot_be_rescued_is_counted(store):
    spoil(store, "update cell set records = '[3]' where number = 3", "update cell set spec = '{x' where number = 9")
    spoil(store, "update cell set records = cast(x'5bff' as text) where number = 5")
    found = rescue.rescue(store)
    assert (found.cells, found.cells_lost, found.records_lost) == (CELLS, 1, 2)
    assert len({row["key"] for row in found.rows}) == CELLS - 2


def test_nothing_to_rescue(tmp_path):
    with pytest.raises(UnmaskError, match="there is no sweep in"):
        rescue.rescue(tmp_path)
    (tmp_path / FILE).write_bytes(b"\r" * 10**5)
    with pytest.raises(UnmaskError, match=r"nothing in the store .* can be read"):
        rescue.rescue(tmp_path)


def test_what_may_only_be_read_can_be_read(store, whole, monkeypatch):
    """With what is only in its journal."""
    opened = Store.open(store)
    with opened.writing() as connection:
        connection.execute("update cell set attempts = 7 where number = 1")
    monkeypatch.setattr(opening.os, "access", lambda path, mode: False)
    before = {entry.name: entry.read_bytes() for entry in store.iterdir()}
    assert status(store)["done"] == CELLS + 1
    assert compare(whole, store).equal
    with Store.open(store) as again:
        assert again.connection.execute("select attempts from cell where number = 1").fetchone() == (7,)
        with pytest.raises(UnmaskError, match="readonly"), again.writing() as connection:
            connection.execute("delete from cell")
    assert {entry.name: entry.read_bytes() for entry in store.iterdir()} == before
    opened.close()


def test_a_store_writes_nowhere_else(store, tmp_path):
    (tmp_path / "elsewhere").mkdir()
    (store / "files").symlink_to(tmp_path / "elsewhere")
    with Store.open(store) as opened, pytest.raises(UnmaskError, match="is a link to elsewhere"):
        opened.write_files("a" * 64, {"name": b"content"})


def test_a_store_that_is_deleted_while_it_is_used_is_said_to_be_gone(bench: Bench):
    from tests.experiments.jobs.test_faults import gone, until, workers_of

    driver = bench.drive({"metrics": [SQUARE], "grid": {"x": list(range(40))}, "fixed": {"seconds": 0.3}})
    until(lambda: len(bench.measured()) >= 3)
    workers = workers_of(driver)
    shutil.rmtree(bench.store)
    _, said = driver.communicate(timeout=20)
    assert f"the store {bench.store} is gone: it was deleted" in said.splitlines()[-1]
    assert gone(workers)
    assert not bench.store.exists()
