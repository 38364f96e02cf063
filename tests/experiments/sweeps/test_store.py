"""A store is read by its schema or refused in one line; nothing is written where it does not belong."""

from __future__ import annotations

import json
import os
import random
import shutil
from pathlib import Path

import pytest

from tests.experiments.sweeps.conftest import SQUARE, Bench, results
from tests.experiments.sweeps.test_faults import children_of, gone, until
from unmask.core.errors import UnmaskError
from unmask.experiments import sweep
from unmask.experiments.cell import key_of
from unmask.experiments.run import resume
from unmask.experiments.store import FILE, LOCK, LOG, records
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
    """Other fields in a line."""
    lines = (store / FILE).read_text().splitlines()
    lines[number] = json.dumps(json.loads(lines[number]) | fields)
    (store / FILE).write_text("\n".join(lines) + "\n")


PLANNED, LAST, BLOCK = 3, CELLS + 7, -2


@pytest.mark.parametrize(
    ("line", "fields", "expected"),
    [
        (0, {"schema": 3}, "is from an older version of unmask; choose another store"),
        (0, {"schema": 99}, "is from a newer version of unmask; choose another store"),
        (0, {"began": "x"}, "began is a text; expected a number"),
        (PLANNED, {"type": "celt"}, "Invalid value 'celt'"),
        (PLANNED, {"values": {"x": 999}}, "has another key than its content"),
        (PLANNED, {"stem": "../../elsewhere"}, "stem "),
        (LAST, {"records": None}, "records "),
        (LAST, {"records": [{"measure": ["a"]}]}, "records[0]"),
        (LAST, {"records": [{"value": 1.0}]}, "records of cell"),
        (LAST, {"records": [{"measure": "a", "value": "b"}]}, "[0].value is a text; expected a number or null"),
        (LAST, {"seconds": -1.0}, "seconds "),
        (BLOCK, {"first": -4}, "first "),
        (BLOCK, {"tally": {"sum": 1.5}}, "tally.sum "),
    ],
)
def test_lines_are_read_by_their_schema(store, line, fields, expected):
    change(store, line, **fields)
    before = (store / FILE).read_bytes()
    found = answers(store)
    for text in found[1:2] if "records of cell" in expected or expected.startswith("[0]") else found:
        assert expected in text
        assert "version" in expected or FILE in text
    assert (store / FILE).read_bytes() == before


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
    (store / FILE).write_text("".join(f"{json.dumps(line)}\n" for line in [*lines[:-1], *huge]))
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
