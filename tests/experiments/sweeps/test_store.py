"""A store is read by its schema or refused in one line; nothing is written where it does not belong."""

from __future__ import annotations

import errno
import json
import os
import random
import re
import shutil
from pathlib import Path

import msgspec
import pytest

from tests.experiments.sweeps.conftest import SQUARE, Bench, results
from tests.experiments.sweeps.test_faults import children_of, gone, until
from unmask.core.errors import UnmaskError
from unmask.experiments import sweep
from unmask.experiments.cell import key_of
from unmask.experiments.run import resume
from unmask.experiments.store import FILE, LOCK, LOG, line_of, records, text_of
from unmask.experiments.tables import status

TOTAL = "tests.experiments.sweeps.trivial:total"
TRUSTED = {"engine": "here", "allow_imports": ["tests.experiments.sweeps.trivial"]}
CELLS = 20
RECIPE = {"name": "t", "jobs": [SQUARE], "grid": {"x": list(range(CELLS))}}


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> Path:
    """A store with a cell that merges."""
    made = tmp_path_factory.mktemp("whole") / "s"
    sweep(RECIPE, store=made, engine="here")
    sweep({"jobs": [TOTAL], "rows": 12}, store=made, engine="here")
    return made


@pytest.fixture
def store(whole, tmp_path) -> Path:
    return Path(shutil.copytree(whole, tmp_path / "s"))


def answers(store: Path) -> list[str]:
    """What each command says of a store, empty where it works."""
    calls = [
        lambda: status(store),
        lambda: list(records(store)),
        lambda: sweep(RECIPE, store=store, engine="here").rows(),
        lambda: resume(store, **TRUSTED, again=True).rows(),
    ]
    found = []
    for call in calls:
        try:
            call()
            found.append("")
        except UnmaskError as error:
            found.append(str(error))
    assert not any("\n" in text or len(text) > 700 for text in found)
    return found


def change(store: Path, number: int, **fields) -> None:
    """Other fields in a line, with its right checksum."""
    lines = (store / FILE).read_bytes().splitlines(keepends=True)
    content = json.loads(lines[number]) | fields
    content.pop("crc")
    lines[number] = text_of(content)
    (store / FILE).write_bytes(b"".join(lines))


PLANNED, LAST, BLOCK = 3, CELLS + 7, -2


@pytest.mark.parametrize(("schema", "age"), [(3, "an older"), (99, "a newer")])
def test_a_store_of_another_version_is_refused(store, schema, age):
    change(store, 0, schema=schema)
    before = (store / FILE).read_bytes()
    assert all(f"is from {age} version of unmask; choose another store" in text for text in answers(store))
    assert (store / FILE).read_bytes() == before


@pytest.mark.parametrize(
    ("line", "fields"),
    [
        (PLANNED, {"type": "celt"}),
        (PLANNED, {"values": {"x": 999}}),
        (PLANNED, {"stem": "../../elsewhere"}),
        (PLANNED, {"job": None}),
        (LAST, {"type": "dome"}),
        (LAST, {"records": None}),
        (LAST, {"records": [{"measure": ["a"]}]}),
        (LAST, {"records": [{"value": 1.0}]}),
        (LAST, {"records": [{"measure": "a", "value": "b"}]}),
        (LAST, {"seconds": -1.0}),
        (LAST, {"records": [{"measure": "a", "\udcff": 1}]}),
        (BLOCK, {"first": -4}),
        (BLOCK, {"tally": {"sum": 1.5}}),
        (0, {"began": "x"}),
    ],
)
def test_a_line_of_another_shape_is_left_out_by_name_and_measured_again(store, whole, line, fields, capsys):
    change(store, line, **fields)
    number = range(len((store / FILE).read_bytes().splitlines()))[line] + 1
    assert answers(store) == [""] * 4
    told = [text for text in capsys.readouterr().err.splitlines() if "damaged" in text]
    assert told == [
        f"{store / FILE}: line {number} damaged, so left out. Run the recipe again to measure the missing cells."
    ]
    sweep({"jobs": [TOTAL], "rows": 12}, store=store, engine="here")
    assert results(store) == results(whole)


def test_without_the_line_of_the_recipe_the_cells_are_kept(store):
    """One changed digit in the line of each run; the recipe alone, given again, is a store of the same cells."""
    damaged = (store / FILE).read_bytes().replace(b'"schema":', b'"schema":1')
    (store / FILE).write_bytes(damaged)
    said = (
        f"the line with the recipe is damaged in {store / FILE}; other lines are whole. Give the recipe again, which "
    )
    said += f"keeps the finished cells: `unmask sweep run RECIPE --store {store}`"
    with pytest.raises(UnmaskError, match=f"^{re.escape(said)}$"):
        resume(store, **TRUSTED)
    assert answers(store) == [said, said, "", ""]

    new = (store / FILE).read_bytes().removeprefix(damaged).splitlines()
    assert [json.loads(line)["type"] for line in new] == ["run"]  # no cell is measured again


def test_a_digit_that_has_changed_is_noticed(store, whole):
    """Any other bit in a line is, too: its checksum is another."""
    lines = (whole / FILE).read_bytes().splitlines(keepends=True)
    for seed in range(200):
        g = random.Random(seed)
        number, bit = g.randrange(len(lines)), 2 ** g.randrange(8)
        spoiled = bytearray(lines[number])
        spoiled[g.randrange(len(spoiled) - 11 - len("crc"))] ^= bit
        with pytest.raises((msgspec.MsgspecError, ValueError)):
            line_of(bytes(spoiled).rstrip(b"\n"))
    (store / FILE).write_bytes(
        b"".join([*lines[:LAST], lines[LAST].replace(b'"value":', b'"value":1'), *lines[LAST + 1 :]])
    )
    assert answers(store) == [""] * 4
    assert results(store) == results(whole)


def test_a_line_longer_than_any_is_left_out(store, whole, monkeypatch):
    lines = (whole / FILE).read_bytes().splitlines(keepends=True)
    monkeypatch.setattr("unmask.experiments.store.LONGEST", max(map(len, lines)) + 1)
    (store / FILE).write_bytes(b"".join([lines[0], b"x" * 10**5 + b"}\n", *lines[1:]]))
    assert answers(store) == [""] * 4
    assert results(store) == results(whole)


def test_a_line_that_is_no_json_is_measured_again(store, whole):
    """Whatever a kill, a full disk or a flipped byte has left: each line of the store in turn."""
    lines = (whole / FILE).read_bytes().splitlines(keepends=True)
    for number in range(1, len(lines), 3):
        spoiled = random.Random(number).randbytes(len(lines[number]) // 2).replace(b"\n", b"")
        (store / FILE).write_bytes(b"".join([*lines[:number], spoiled, b"\n", *lines[number + 1 :]]))
        sweep(RECIPE, store=store, engine="here")
        sweep({"jobs": [TOTAL], "rows": 12}, store=store, engine="here")
        assert results(store) == results(whole), number
    for end in (1, 100, len(lines[-1]) - 1):
        (store / FILE).write_bytes(b"".join(lines)[:-end])
        sweep({"jobs": [TOTAL], "rows": 12}, store=store, engine="here")
        assert results(store) == results(whole)
    for content in (b"", b"junk" * 2000, b"\0" * 5000):
        (store / FILE).write_bytes(content)
        assert all("there is no sweep in" in text for text in answers(store)[:2])


def test_whole_numbers_of_any_size_are_exact(store):
    """Those of a tally have more than 64 bits."""
    lines = [json.loads(line) for line in (store / FILE).read_text().splitlines()]
    (block, *_) = [line for line in lines if line["type"] == "block"]
    huge = [block | {"first": 0, "rows": 12, "tally": {"sum": 10**29, "rows": 12}}]
    for line in lines:
        line.pop("crc")
    huge[0].pop("crc")
    (store / FILE).write_bytes(b"".join(map(text_of, [*lines[:-1], *huge])))
    (row,) = [row for row in resume(store, **TRUSTED).rows() if row["measure"] == "total"]
    assert row["value"] == 1e29


@pytest.mark.parametrize(
    ("new", "expected"),
    [({"seed": "a"}, "seed of job .* is 'a'; expected a whole number"), ({"y": 1}, "unknown parameter")],
)
def test_a_cell_that_its_job_does_not_take(store, new, expected):
    line = json.loads((store / FILE).read_text().splitlines()[PLANNED])
    values = line["values"] | new
    key = key_of(line["job"], values)
    change(store, PLANNED, values=values, key=key, stem=key)
    with pytest.raises(UnmaskError, match=expected):
        resume(store, **TRUSTED)
    sweep(RECIPE, store=store, engine="here")  # the cells of a recipe are its own


@pytest.mark.parametrize("name", [FILE, LOCK, LOG])
@pytest.mark.parametrize("how", ["pipe", "directory", "loop", "device"])
def test_what_is_no_file_is_not_opened(store, name, how):
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
    found = answers(store)
    for text in (found[0], found[2], found[3]) if name == LOCK else found:  # reading records asks for no lock
        assert name in text
        assert "expected a file" in text or "Too many levels" in text


@pytest.mark.parametrize("name", [FILE, LOCK, LOG, "files"])
def test_nothing_is_written_where_a_link_leads(store, tmp_path, name):
    elsewhere = tmp_path / "elsewhere"
    if name == "files":
        elsewhere.mkdir()
    else:
        elsewhere.write_bytes((store / FILE).read_bytes() if name == FILE else b"")
    before = [] if name == "files" else elsewhere.read_bytes()
    (store / name).unlink(missing_ok=True)
    (store / name).symlink_to(elsewhere)
    recipe = {"jobs": ["tests.experiments.sweeps.trivial:sown"], "grid": {"x": [1, 2]}}
    with pytest.raises(UnmaskError, match="is a link to elsewhere"):
        sweep(recipe, store=store, workers=1).whole()
    assert before == (list(elsewhere.iterdir()) if name == "files" else elsewhere.read_bytes())


@pytest.mark.long
def test_a_store_that_is_deleted_while_it_is_used_is_gone(bench: Bench):
    driver = bench.drive({"jobs": [SQUARE], "grid": {"x": list(range(40))}, "fixed": {"seconds": 0.3}})
    until(lambda: len(bench.measured()) >= 3)
    workers = children_of(driver)
    shutil.rmtree(bench.store)
    _, words = driver.communicate(timeout=120)
    assert f"the store {bench.store} is gone: it was deleted" in words.splitlines()[-1]
    assert gone(workers)
    assert not bench.store.exists()


def test_a_command_with_names_that_are_not_unicode_is_read_again(tmp_path, monkeypatch):
    """Names of files are bytes: the store keeps a command as Python has it."""
    monkeypatch.setattr("sys.argv", ["unmask", "sweep", "run", "--store", os.fsdecode(b"s\xff")])
    made = sweep(RECIPE, store=tmp_path / "s", engine="here")
    assert r"s\udcff" in (tmp_path / "s" / FILE).read_text()
    assert sum(1 for _ in records(tmp_path / "s")) == sum(1 for _ in made.rows())


@pytest.mark.parametrize(("where", "number"), [("write", errno.EIO), ("fsync", errno.EIO), ("write", errno.ENOSPC)])
def test_a_disk_that_fails_keeps_what_was_written(tmp_path, monkeypatch, where, number):
    """Also where the beginning of a line cannot be removed again."""
    sweep(RECIPE, store=tmp_path / "s", engine="here")
    real = os.write

    def fail(handle, *content):
        if where == "write" and isinstance(content[0], memoryview):
            real(handle, content[0][:20])
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr("unmask.experiments.store.SYNC", -1.0)
    monkeypatch.setattr(f"unmask.experiments.store.os.{where}", fail)
    monkeypatch.setattr("unmask.experiments.store.os.ftruncate", fail)
    with pytest.raises(UnmaskError, match=f"cannot write the store .*: {os.strerror(number)}"):
        sweep(RECIPE | {"grid": {"x": [99]}}, store=tmp_path / "s", engine="here")
    monkeypatch.undo()
    assert len({row["key"] for row in records(tmp_path / "s")}) >= CELLS
    sweep(RECIPE | {"grid": {"x": [99]}}, store=tmp_path / "s", engine="here")
    assert len({row["key"] for row in records(tmp_path / "s")}) == CELLS + 1


def test_a_file_system_without_locks_is_named(store, monkeypatch):
    def fail(file, how):
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr("unmask.experiments.store.fcntl.flock", fail)
    with pytest.raises(UnmaskError, match=r"cannot lock the store .*: No locks available; expected a file system with"):
        sweep(RECIPE, store=store, engine="here")
    assert status(store)["done"] == CELLS + 1
