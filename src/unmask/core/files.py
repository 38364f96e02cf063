"""Files are written whole or not at all, and say where they came from. How they are read: core/reading.py."""

from __future__ import annotations

import fcntl
import hashlib
import json
import math
import os
import platform
import stat
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import IO, Any

from unmask.core.errors import UnmaskError, cut
from unmask.core.reading import no_file

TEMPORARY = (".unmask-", ".tmp")  # how the names of unfinished files begin and end
OLD = 3600.0  # seconds, after which one that nobody has locked is nobody's
LONGEST = 239  # bytes of a file's name: file systems take 255, and files beside it have names that are longer by 16


@contextmanager
def atomic(path: str | Path) -> Iterator[IO[bytes]]:
    """A binary file that takes its name only when it is complete; after any error nothing is left.

    Where the name is a link, what it leads to is written. While it grows it is a locked file beside its place, so that
    one that a kill has left is known by its lock being free; the next write there clears it away.
    """
    target = destination(path)
    _clear(target.parent)
    name = None
    try:
        handle, name = tempfile.mkstemp(TEMPORARY[1], TEMPORARY[0], target.parent)
        with os.fdopen(handle, "wb") as file:
            with suppress(OSError):  # a file system without locks: then nobody clears it away
                fcntl.flock(handle, fcntl.LOCK_EX)
            yield file
            file.flush()
            os.fsync(handle)
            os.chmod(name, 0o666 & ~_umask())
            os.replace(name, target)
    except BaseException as error:
        if name is not None:
            with suppress(FileNotFoundError):
                os.unlink(name)
        if isinstance(error, OSError):
            what = error.strerror or str(error)
            what += "" if name is not None else "; choose a directory that exists and is writable"
            raise UnmaskError(f"cannot write {cut(str(path))}: {what}") from error
        raise


def check_writable(path: str | Path) -> None:
    """Fail before the work is done, not after it."""
    parent = destination(path).parent
    if not os.path.isdir(parent):
        where = cut(str(Path(path).parent))
        raise UnmaskError(f"cannot write {cut(str(path))}: there is no directory {where}; create it first")
    try:
        with tempfile.TemporaryFile(dir=parent):
            pass
    except OSError as error:
        what = f"{error.strerror} in {cut(str(parent))}; choose another directory"
        raise UnmaskError(f"cannot write {cut(str(path))}: {what}") from error


def make_directory(directory: Path) -> Path:
    """It, and those above it, where they are not there."""
    above = [place for place in (directory, *directory.parents) if os.path.lexists(place)]
    if above and not os.path.isdir(above[0]):
        what = f"{cut(str(above[0]))} is no directory"
    else:
        try:
            directory.mkdir(parents=True, exist_ok=True)
            return directory
        except (OSError, ValueError) as error:
            what = getattr(error, "strerror", None) or "no directory can have that name"
    raise UnmaskError(f"cannot make the directory {cut(str(directory))}: {what}; name another")


def destination(path: str | Path) -> Path:
    """The file that a name leads to, which need not be there: behind all links, and a regular one, or an error.

    A pipe, a device or a directory is never replaced, and names keep room for those of the files beside them.
    """
    try:
        target = Path(os.path.realpath(path))
        mode = os.lstat(target).st_mode
    except FileNotFoundError:
        mode = None
    except OSError as error:
        raise UnmaskError(f"cannot write {cut(str(path))}: {error.strerror}; choose another name") from error
    except ValueError as error:  # a NUL, or half of a pair of surrogates
        raise UnmaskError(f"cannot write {cut(str(path))}: no file can have that name") from error
    if mode is not None and (what := no_file(mode)):
        raise UnmaskError(f"cannot write {cut(str(path))}: it is {what}; name a file")
    size = len(os.fsencode(target.name))
    if size > LONGEST:
        what = f"its name has {size} bytes; take at most {LONGEST}, or there is no room for those of files beside it"
        raise UnmaskError(f"cannot write {cut(str(path))}: {what}")
    return target


@cache
def _clear(directory: Path) -> None:
    """Take away, once a process, what writes that were killed have left: old temporary files that nobody has locked."""
    with suppress(OSError), os.scandir(directory) as entries:
        left = [e.path for e in entries if e.name.startswith(TEMPORARY[0]) and e.name.endswith(TEMPORARY[1])]
        for name in left:
            with suppress(OSError), open(os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb") as file:
                found = os.fstat(file.fileno())
                if stat.S_ISREG(found.st_mode) and time.time() - found.st_mtime > OLD:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    os.unlink(name)


def write_json(path: str | Path, content: Any) -> None:
    with atomic(path) as file:
        file.write(json.dumps(content, indent=1, allow_nan=False).encode() + b"\n")


def finite(value: Any) -> Any:
    """As JSON can say it, which has no infinity: the open end of an interval is null."""
    if isinstance(value, Mapping):
        return {name: finite(entry) for name, entry in value.items()}
    if isinstance(value, list | tuple):
        return [finite(entry) for entry in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def origin(**configuration: Any) -> dict[str, Any]:
    """What a file must say about where it came from, so that it can be made again."""
    return {
        "command": sys.argv,
        "configuration": configuration,
        "versions": {package: _version(package) for package in ("unmask", "torch", "numpy", "numba")},
        "code": code(),
        "python": platform.python_version(),
        "machine": f"{platform.system()} {platform.machine()}",
    }


def age(made: Mapping[str, Any]) -> str | None:
    """What is to be said of a file by its `origin`: that another code made it; nothing where it is this one."""
    theirs = made.get("code")
    if theirs == code():
        return None
    return f"it is old: made by the code {theirs or 'of nobody knows when'}, and this is {code()}"


@cache
def code() -> str:
    """A digest of the sources of this package: numbers of one code are of another only by luck."""
    whole = hashlib.sha256()
    room = Path(__file__).parents[1]
    for path in sorted(room.rglob("*.py")):
        whole.update(f"{path.relative_to(room)}\0".encode() + hashlib.sha256(path.read_bytes()).digest())
    return whole.hexdigest()[:16]


@cache
def _version(package: str) -> str:
    from importlib.metadata import PackageNotFoundError, version  # here, since a worker writes nothing

    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
