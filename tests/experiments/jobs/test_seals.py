"""A store names code only where it was made here: by this user, whose secret seals the cells that do."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import stat
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import pytest

from unmask import UnmaskError, sweep
from unmask.experiments.jobs import seals
from unmask.experiments.jobs.cells import Cell
from unmask.experiments.jobs.opening import FILE
from unmask.experiments.jobs.run import resume
from unmask.experiments.jobs.store import Store
from unmask.experiments.measures import catalogue

CODE = """
import pathlib
pathlib.Path("was-imported").touch()

def double(*, x: int) -> list[dict[str, object]]:
    pathlib.Path(f"was-called-{x}").touch()
    return [{"measure": "double", "value": 2.0 * x}]
"""
RECIPE = {"name": "r", "metrics": ["guest:double"], "grid": {"x": [1, 2]}}
PLAIN = {"name": "r", "metrics": ["samples"], "fixed": {"language": "interval-5", "length": 8}, "rows": 4}
AGAIN = "update cell set state = 'todo', records = null"
ALLOWED = {"engine": "here", "allow_imports": ["guest"]}


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A working directory with somebody's module, and a user whose state is in `state`."""
    (tmp_path / "guest.py").write_text(CODE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    forget(tmp_path)
    yield tmp_path
    forget(tmp_path)


def again(place, store="s"):
    """Everything is to do once more."""
    with sqlite3.connect(place / store / FILE) as connection:
        connection.execute(AGAIN)
    connection.close()
    forget(place)


def forget(place):
    """Nothing was imported or called yet."""
    sys.modules.pop("guest", None)
    catalogue._found.cache_clear()
    for mark in place.glob("was-*"):
        mark.unlink()


def refused(store, *said):
    with pytest.raises(UnmaskError) as caught:
        resume(store, **ALLOWED)
    text = str(caught.value)
    assert "was not made here" in text
    assert text.endswith("unmask sweep run RECIPE --store NEW --allow-imports guest")
    for words in said:
        assert words in text
    assert not list(store.parent.glob("was-*"))


@pytest.mark.parametrize("engine", ["here", "local"])
def test_a_store_of_ones_own_goes_on(place, engine):
    sweep(RECIPE, store=place / "s", engine="here")
    again(place)
    with pytest.raises(UnmaskError, match="stands in a file, which may be anybody's; where you trust it, say"):
        resume(place / "s", engine=engine)
    assert not list(place.glob("was-*"))
    assert {row["value"] for row in resume(place / "s", engine=engine, allow_imports=["guest"]).rows()} == {2.0, 4.0}
    assert (place / "was-called-2").exists()
    shutil.move(place / "s", place / "moved")
    again(place, "moved")
    assert len(resume(place / "moved", **ALLOWED).rows()) == 2


def test_a_cell_that_somebody_has_changed(place):
    sweep(RECIPE, store=place / "s", engine="here")
    shutil.copytree(place / "s", place / "theirs")
    again(place, "theirs")
    with sqlite3.connect(place / "theirs" / FILE) as connection:
        number, spec = connection.execute("select number, spec from cell").fetchone()
        other = json.loads(spec) | {"x": 7}
        row = json.dumps(other), Cell(other).key, number
        connection.execute("update cell set spec = ?, key = ? where number = ?", row)
    connection.close()
    refused(place / "theirs", "has cells that were not sealed by", str(place / "state"))
    again(place)
    assert len(resume(place / "s", **ALLOWED).rows()) == 2


def test_a_cell_that_somebody_has_added(place):
    """To a store of ours, of which all else is sealed; and our recipe measures what it says itself there."""
    sweep(RECIPE, store=place / "s", engine="here")
    again(place)
    with Store.open(place / "s") as store:
        store.connection.execute("delete from cell where number = 2")
        store.add([Cell({"metric": "guest:double", "x": 7})])
    again(place)
    refused(place / "s")
    assert len(sweep(RECIPE, store=place / "s", engine="here").rows()) == 2
    assert not (place / "was-called-7").exists()
    forget(place)
    refused(place / "s")  # which our recipe has not made ours


def test_a_store_of_another_user(place, monkeypatch):
    sweep(RECIPE, store=place / "s", engine="here")
    again(place)
    monkeypatch.setenv("XDG_STATE_HOME", str(place / "mine"))
    refused(place / "s", "cannot read", "No such file")
    sweep(RECIPE, store=place / "own", engine="here")  # which makes a secret
    again(place)
    refused(place / "s", "has cells that were not sealed by")
    monkeypatch.setenv("XDG_STATE_HOME", str(place / "state"))
    assert len(resume(place / "s", **ALLOWED).rows()) == 2


def test_a_seal_is_of_one_cell(place):
    sweep(RECIPE | {"grid": {"x": [1]}}, store=place / "s", engine="here")
    sweep(RECIPE | {"grid": {"x": [3]}}, store=place / "t", engine="here")
    shutil.copy(place / "s" / seals.FILE, place / "t" / seals.FILE)
    again(place, "t")
    refused(place / "t")


def test_a_store_without_names_of_code_needs_nothing(place):
    sweep(PLAIN, store=place / "s", engine="here")
    again(place)
    resume(place / "s", **ALLOWED)
    assert not (place / "s" / seals.FILE).exists()
    assert not (place / "state").exists()


def test_where_no_secret_can_be_kept_the_recipe_goes_on(place, monkeypatch):
    (place / "state").write_text("no directory")
    assert len(sweep(RECIPE, store=place / "s", engine="here").rows()) == 2
    again(place)
    refused(place / "s", "cannot be known as yours: cannot read", "Not a directory")
    assert len(sweep(RECIPE, store=place / "s", engine="here").rows()) == 2
    monkeypatch.delenv("XDG_STATE_HOME")
    monkeypatch.setattr(seals.Path, "home", lambda: _raise(RuntimeError))
    again(place)
    refused(place / "s", "there is no home directory")


def _raise(kind):
    raise kind


@pytest.mark.parametrize(("mode", "content"), [(0o644, b"x" * 32), (0o600, b"x" * 31), (0o600, b"")])
def test_a_secret_that_is_none(place, mode, content):
    sweep(RECIPE, store=place / "s", engine="here")
    again(place)
    seals.place().write_bytes(content)
    seals.place().chmod(mode)
    refused(place / "s", "32 bytes that nobody but you may read")


def test_the_secret_is_made_once_and_for_its_user_alone(place):
    def make(_):
        with suppress(FileExistsError):
            seals._make_secret()
        return seals.place().read_bytes()

    with ThreadPoolExecutor(8) as threads:
        assert len(set(threads.map(make, range(64)))) == 1
    assert len(seals.place().read_bytes()) == 32
    assert stat.S_IMODE(seals.place().stat().st_mode) == 0o600
    assert stat.S_IMODE(seals.place().parent.stat().st_mode) == 0o700
    assert [path.name for path in seals.place().parent.iterdir()] == ["secret"]


@pytest.mark.parametrize("how", ["link", "pipe", "rubbish"])
def test_a_file_of_seals_that_is_none(place, how):
    sweep(PLAIN, store=place / "s", engine="here")
    (place / "precious").write_text("precious")
    match how:
        case "link":
            (place / "s" / seals.FILE).symlink_to(place / "precious")
        case "pipe":
            os.mkfifo(place / "s" / seals.FILE)
        case "rubbish":
            (place / "s" / seals.FILE).write_bytes(b"\xff" * 100)
    sweep(RECIPE, store=place / "s", engine="here")
    assert (place / "precious").read_text() == "precious"
    again(place)
    if how == "rubbish":
        assert len(resume(place / "s", **ALLOWED).rows()) > 2
    else:
        refused(place / "s", "cannot be known as yours", "expected a file")
