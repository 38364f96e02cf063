"""The Python interpreter of a jail: its files, and a copy of them if only root may read the originals."""

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
SKIPPED = (
    "site-packages",
    "dist-packages",
    "test",
    "tests",
    "idlelib",
    "ensurepip",
    "tkinter",
    "turtledemo",
    "lib2to3",
)


@dataclass(frozen=True)
class Interpreter:
    """python: its executable; read: readable paths; library: directory of its shared library, for a copy."""

    python: str
    read: tuple[str, ...]
    library: str | None = None


@lru_cache(maxsize=1)
def own() -> Interpreter:
    """The running interpreter, without installed packages."""
    python = os.path.realpath(getattr(sys, "_base_executable", None) or sys.executable)
    library = os.path.join(os.path.realpath(sys.base_prefix), "lib")
    return _reading(python, os.path.realpath(os.path.dirname(os.__file__)), library)


def _reading(python: str, standard: str, library: str, copied: str | None = None) -> Interpreter:
    read = [path for path in SYSTEM if os.path.exists(path)]
    for path in (library, standard, python):
        if os.path.exists(path) and not any(path == other or path.startswith(f"{other}/") for other in read):
            read.append(path)
    return Interpreter(python, tuple(read), copied)


def for_strangers() -> Interpreter:
    """An interpreter that every user may read: the running one, or a copy."""
    running = own()
    paths = [path for path in running.read if path not in SYSTEM]
    paths += [parent for path in running.read for parent in _parents(path)]
    return running if os.geteuid() != 0 or all(map(_open, paths)) else copied()


def _open(path: str) -> bool:
    return bool(os.stat(path).st_mode & stat.S_IXOTH) or not os.path.isdir(path)


def _parents(path: str) -> list[str]:
    parents = []
    while path != "/":
        path = os.path.dirname(path)
        parents.append(path)
    return parents


COPIES: WeakValueDictionary[str, Interpreter] = WeakValueDictionary()


def copied() -> Interpreter:
    """A copy that every user may read; it is removed with the last reference to it."""
    running = own()
    copy = COPIES.get(running.python)
    if copy is None:
        home = tempfile.mkdtemp(prefix="unmask-python-")
        copy = COPIES[running.python] = _copied_to(home, running)
        finalize(copy, shutil.rmtree, home, ignore_errors=True)
    return copy


def _copied_to(home: str, running: Interpreter) -> Interpreter:
    standard = os.path.realpath(os.path.dirname(os.__file__))
    python, library = os.path.join(home, "bin", os.path.basename(running.python)), os.path.join(home, "lib")
    copy = os.path.join(library, os.path.basename(standard))
    os.makedirs(os.path.dirname(python))
    skipped = shutil.ignore_patterns(*SKIPPED, "config-*", "*.opt-*.pyc")
    shutil.copytree(standard, copy, ignore=skipped, copy_function=_link)
    _link(running.python, python)
    for path in glob(os.path.join(os.path.realpath(sys.base_prefix), "lib", "libpython*.so*")):
        _link(path, os.path.join(library, os.path.basename(path)))
    for directory, _, _ in os.walk(home):
        os.chmod(directory, 0o755)
    return _reading(python, copy, library, library)


def _link(path: str, target: str) -> None:
    """A hard link if all users may read the file and it is on the same file system, otherwise a readable copy."""
    mode = os.stat(path).st_mode
    if mode & stat.S_IROTH:
        try:
            return os.link(path, target)
        except OSError:
            pass  # another file system
    shutil.copyfile(path, target)
    os.chmod(target, 0o755 if mode & stat.S_IXUSR else 0o644)
