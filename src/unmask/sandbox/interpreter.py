"""The interpreter that a jail has: which files it needs, and a copy of them where only root may read its home."""

from __future__ import annotations

import os
import shutil
import stat
import sys
import tempfile
from dataclasses import dataclass
from functools import lru_cache
from glob import glob
from weakref import WeakValueDictionary, finalize

SYSTEM = ("/lib", "/lib64", "/usr/lib", "/usr/lib64", "/etc/ld.so.cache", "/usr/share/zoneinfo")
DEVICES = ("/dev/null", "/dev/full", "/dev/random", "/dev/urandom")  # /dev/zero would be shared memory
LEFT = ("site-packages", "dist-packages", "test", "tests", "idlelib", "ensurepip", "tkinter", "turtledemo", "lib2to3")


@dataclass(frozen=True)
class Interpreter:
    """`python`, what may be read, and where its library is looked for, if not where it says itself."""

    python: str
    read: tuple[str, ...]
    library: str | None = None


@lru_cache(maxsize=1)
def own() -> Interpreter:
    """The one that runs us, without the packages of an environment."""
    python = os.path.realpath(getattr(sys, "_base_executable", None) or sys.executable)
    library = os.path.join(os.path.realpath(sys.base_prefix), "lib")
    return _reading(python, os.path.realpath(os.path.dirname(os.__file__)), library)


def _reading(python: str, standard: str, library: str, looked: str | None = None) -> Interpreter:
    read = [path for path in SYSTEM if os.path.exists(path)]
    for path in (library, standard, python):
        if os.path.exists(path) and not any(path == other or path.startswith(f"{other}/") for other in read):
            read.append(path)
    return Interpreter(python, tuple(read), looked)


def for_strangers() -> Interpreter:
    """One that every user may read."""
    found = own()
    open_to_all = all(_open(path) for path in found.read if path not in SYSTEM)
    way = all(_open(parent) for path in found.read for parent in _parents(path))
    return found if os.geteuid() != 0 or (open_to_all and way) else copied()


def _open(path: str) -> bool:
    return bool(os.stat(path).st_mode & stat.S_IXOTH) or not os.path.isdir(path)


def _parents(path: str) -> list[str]:
    found = []
    while path != "/":
        path = os.path.dirname(path)
        found.append(path)
    return found


COPIES: WeakValueDictionary[str, Interpreter] = WeakValueDictionary()


def copied() -> Interpreter:
    """A copy that every user may read; it is there as long as somebody holds it."""
    found = own()
    made = COPIES.get(found.python)
    if made is None:
        home = tempfile.mkdtemp(prefix="unmask-python-")
        made = COPIES[found.python] = _copied_to(home, found)
        finalize(made, shutil.rmtree, home, ignore_errors=True)
    return made


def _copied_to(home: str, found: Interpreter) -> Interpreter:
    standard = os.path.realpath(os.path.dirname(os.__file__))
    python, library = os.path.join(home, "bin", os.path.basename(found.python)), os.path.join(home, "lib")
    copy = os.path.join(library, os.path.basename(standard))
    os.makedirs(os.path.dirname(python))
    unwanted = shutil.ignore_patterns(*LEFT, "config-*", "*.opt-*.pyc")
    shutil.copytree(standard, copy, ignore=unwanted, copy_function=_same)
    _same(found.python, python)
    for path in glob(os.path.join(os.path.realpath(sys.base_prefix), "lib", "libpython*.so*")):
        _same(path, os.path.join(library, os.path.basename(path)))
    for directory, _, _ in os.walk(home):
        os.chmod(directory, 0o755)
    return _reading(python, copy, library, library)


def _same(path: str, place: str) -> None:
    """The same file under another name if everybody may read it and that can be, otherwise a copy for everybody."""
    mode = os.stat(path).st_mode
    if mode & stat.S_IROTH:
        try:
            return os.link(path, place)
        except OSError:
            pass  # another file system
    shutil.copyfile(path, place)
    os.chmod(place, 0o755 if mode & stat.S_IXUSR else 0o644)
