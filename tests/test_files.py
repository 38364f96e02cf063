"""Files that are written whole or not at all, and read with errors that name them."""

from __future__ import annotations

import json
import os
import stat

import pytest

from unmask.core.errors import UnmaskError, unknown
from unmask.core.files import atomic, check_writable, origin, write_json
from unmask.core.reading import read_json, read_text

ROOT = hasattr(os, "geteuid") and os.geteuid() == 0


@pytest.fixture
def path(tmp_path):
    return tmp_path / "result.json"


@pytest.fixture(params=[False, True], ids=["new", "old"])
def perhaps_old(request, path):
    """A path that does not exist, and one with content; either must be untouched by a failure."""
    if request.param:
        path.write_text("old")
    return path, ["result.json"] if request.param else []


def test_content_appears_at_the_end(perhaps_old):
    path, before = perhaps_old
    with atomic(path) as file:
        file.write(b"new")
        assert path.exists() == bool(before)
    assert path.read_bytes() == b"new"
    assert os.listdir(path.parent) == ["result.json"]


@pytest.mark.parametrize("error", [ValueError("no"), KeyboardInterrupt(), SystemExit(1), UnmaskError("no")])
def test_nothing_is_left_after_an_error(perhaps_old, error):
    """The error passes unchanged, whatever it is."""
    path, before = perhaps_old

    def fail():
        with atomic(path) as file:
            file.write(b"half")
            raise error

    with pytest.raises(type(error)) as caught:
        fail()
    assert caught.value is error
    assert os.listdir(path.parent) == before
    assert not before or path.read_text() == "old"


def test_a_full_disk_is_an_error_with_the_name(perhaps_old):
    path, before = perhaps_old
    with pytest.raises(UnmaskError, match=f"cannot write {path}: No space left"), atomic(path):
        raise OSError(28, "No space left on device")
    assert os.listdir(path.parent) == before


def test_what_json_cannot_say_is_not_written(perhaps_old):
    path, before = perhaps_old
    for content in ({"ser": float("nan")}, {"ser": {1, 2}}):
        with pytest.raises((ValueError, TypeError)):
            write_json(path, content)
    assert os.listdir(path.parent) == before
    assert not before or path.read_text() == "old"


def test_permissions_are_those_of_any_new_file(path):
    mask = os.umask(0o027)
    try:
        write_json(path, {})
    finally:
        os.umask(mask)
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert os.umask(mask) == mask


def test_no_place_to_write(tmp_path):
    """A missing directory, a file instead of one, and a directory instead of a file."""
    (tmp_path / "file").touch()
    for path in (tmp_path / "nowhere" / "a.json", tmp_path / "file" / "a.json", tmp_path):
        for attempt in (lambda path=path: write_json(path, {}), lambda path=path: check_writable(path)):
            with pytest.raises(UnmaskError, match=f"cannot write {path}: "):
                attempt()
    assert os.listdir(tmp_path) == ["file"]
    assert os.listdir(tmp_path.parent).count(tmp_path.name) == 1


@pytest.mark.skipif(ROOT, reason="root may write everywhere")
def test_no_right_to_write(tmp_path):
    tmp_path.chmod(0o500)
    for attempt in (lambda: write_json(tmp_path / "a.json", {}), lambda: check_writable(tmp_path / "a.json")):
        with pytest.raises(UnmaskError, match="Permission denied"):
            attempt()


def test_check_writable_leaves_nothing(path):
    check_writable(path)
    assert os.listdir(path.parent) == []
    path.write_text("old")
    check_writable(path)
    assert path.read_text() == "old"


def test_json_round_trip(path):
    content = {"a": [1, 0.1, None, True], "b": {"c": "text"}}
    write_json(path, content)
    assert read_json(path) == content
    assert path.read_bytes().endswith(b"}\n")


def test_errors_of_reading(tmp_path):
    with pytest.raises(UnmaskError, match=r"cannot read .*missing\.txt: No such file"):
        read_text(tmp_path / "missing.txt")
    (tmp_path / "binary").write_bytes(b"ab\xff\xfe")
    with pytest.raises(UnmaskError, match=r"cannot read .*binary: byte 2 is not UTF-8 text"):
        read_text(tmp_path / "binary")


def test_origin_says_how_a_file_came_to_be():
    content = origin(seed=3)
    assert content["configuration"] == {"seed": 3}
    assert {"unmask", "torch", "numpy", "numba"} == set(content["versions"])
    assert json.loads(json.dumps(content)) == content


def test_unknown_names_come_with_the_nearest():
    known = ["confidence", "random", "strided"]
    assert str(unknown("order", "randon", known)) == "unknown order 'randon'; did you mean random?"
    assert str(unknown("order", "Strided", known)) == "unknown order 'Strided'; did you mean strided?"
    assert str(unknown("order", "xyz", known)) == "unknown order 'xyz'; known: confidence, random, strided"
