"""Files that are written whole or not at all, and read with errors that name them."""

from __future__ import annotations

import fcntl
import json
import os
import stat
import time

import pytest

from unmask.core.errors import UnmaskError, unknown
from unmask.core.files import atomic, check_writable, origin, write_json
from unmask.core.reading import read_json, read_text


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


def test_no_right_to_write(tmp_path, ordinary):
    tmp_path.chmod(0o500)
    ordinary()
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


def refuses(path, words):
    """Neither the check before the work nor the write after it does anything there."""
    for attempt in (lambda: check_writable(path), lambda: write_json(path, {})):
        with pytest.raises(UnmaskError, match=r"^cannot write ") as caught:
            attempt()
        assert words in str(caught.value)
        assert str(caught.value).isprintable()


def test_what_is_no_file_is_not_replaced(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "directory").mkdir()
    (tmp_path / "to-pipe").symlink_to("pipe")
    (tmp_path / "loop").symlink_to("loop")
    before = {path.name: path.lstat().st_ino for path in tmp_path.iterdir()}
    refuses(tmp_path / "pipe", "it is a pipe; expected a file")
    refuses(tmp_path / "to-pipe", "it is a pipe; expected a file")
    refuses(tmp_path / "directory", "it is a directory; expected a file")
    refuses(tmp_path / "loop", "it is a link that leads to itself")
    refuses("/dev/null", "it is a device; expected a file")
    assert {path.name: path.lstat().st_ino for path in tmp_path.iterdir()} == before


@pytest.mark.parametrize("there", [False, True])
def test_behind_a_link_its_target_is_written(tmp_path, there):
    (tmp_path / "elsewhere").mkdir()
    target, link = tmp_path / "elsewhere" / "target.json", tmp_path / "link.json"
    if there:
        target.write_text("old")
    link.symlink_to("elsewhere/target.json")
    check_writable(link)
    write_json(link, [1])
    assert link.is_symlink()
    assert read_json(target) == read_json(link) == [1]
    assert os.listdir(tmp_path / "elsewhere") == ["target.json"]


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("x" * 240, "its name has 240 bytes; expected at most 239"),
        ("\u00e9" * 120, "its name has 240 bytes"),
        ("x" * 300, "File name too long"),
        ("a\0b.json", "no file can have that name"),
        ("a\ud800.json", "no file can have that name"),
    ],
)
def test_names_that_would_fail_after_the_work(tmp_path, name, words):
    refuses(tmp_path / name, words)
    assert os.listdir(tmp_path) == []


def test_the_longest_name_is_written(tmp_path):
    path = tmp_path / ("x" * 239)
    check_writable(path)
    write_json(path, [1])
    assert os.listdir(tmp_path) == [path.name]


def left_behind(directory, name, age, content=b"half"):
    path = directory / name
    path.write_bytes(content)
    os.utime(path, (time.time() - age,) * 2)
    return path


def test_what_killed_writes_have_left_is_cleared_away(tmp_path):
    """Old, and nobody's: not what is new, what is being written, or what has another name."""
    left_behind(tmp_path, ".unmask-a1.tmp", 7200)
    kept = [left_behind(tmp_path, name, age) for name, age in ((".unmask-b.tmp", 60), (".other-b.tmp", 7200))]
    kept += [left_behind(tmp_path, ".unmask-b.npy", 7200), left_behind(tmp_path, ".unmask-c.tmp", 7200)]
    os.mkfifo(tmp_path / ".unmask-pipe.tmp")
    with open(kept[-1], "rb") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        write_json(tmp_path / "a.json", [])
    assert set(os.listdir(tmp_path)) == {path.name for path in kept} | {"a.json", ".unmask-pipe.tmp"}


def test_a_write_is_locked_while_it_lasts(tmp_path):
    with atomic(tmp_path / "a.json") as file:
        (half,) = tmp_path.iterdir()
        assert half.name.startswith(".unmask-")
        assert half.name.endswith(".tmp")
        with open(half, "rb") as other, pytest.raises(BlockingIOError):
            fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
        file.write(b"[]")
    assert os.listdir(tmp_path) == ["a.json"]
