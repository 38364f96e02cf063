"""Files are written completely or not at all, and record their origin. core/reading.py reads files."""

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

from unmask.core.entries import mapped
from unmask.core.errors import UnmaskError, cut
from unmask.core.reading import KINDS, OTHER

TEMPORARY = (".unmask-", ".tmp")  # how the names of unfinished files begin and end
USED = ("unmask", "torch", "numpy", "numba")  # packages whose versions an origin has
OLD = 3600.0  # seconds after which an unlocked temporary file is deleted
# numpy does not tell why a write was short
PART = "only a part could be written; is the disk full? Free some space, or choose another disk"
LONGEST = 239  # bytes of a file name: file systems take 255, and names of accompanying files are up to 16 longer


@contextmanager
def atomic(path: str | Path) -> Iterator[IO[bytes]]:
    """A binary file that gets its name only when it is complete; an error leaves nothing behind.

    A link is followed. An incomplete file is a locked temporary file in the same directory. If a process is killed, its
    lock becomes free, so the next write to that directory can delete the file.
    """
    target = destination(path)
    _clear(target.parent)
    name = None

    try:
        handle, name = tempfile.mkstemp(TEMPORARY[1], TEMPORARY[0], target.parent)
        with os.fdopen(handle, "wb") as file:
            with suppress(OSError):  # a file system without locks: then a killed write leaves its file behind
                fcntl.flock(handle, fcntl.LOCK_EX)
            yield file
            file.flush()
            os.fsync(handle)
            mask = os.umask(0)
            os.umask(mask)
            os.chmod(name, 0o666 & ~mask)
            os.replace(name, target)
    except BaseException as error:
        if name is not None:
            with suppress(FileNotFoundError):
                os.unlink(name)
        if not isinstance(error, OSError):
            raise

        reason = error.strerror or str(error)
        if error.strerror is None and "written" in reason:
            reason = PART
        if name is None:
            reason += ". Choose a directory that exists and is writable."
        raise UnmaskError(f"cannot write {cut(str(path))}: {reason}") from error


def check_writable(path: str | Path) -> None:
    """Raise an error before the work starts, rather than after it."""
    parent = destination(path).parent
    if not os.path.isdir(parent):
        directory = cut(str(Path(path).parent))
        raise UnmaskError(f"cannot write {cut(str(path))}: there is no directory {directory}; create it first")
    try:
        with tempfile.TemporaryFile(dir=parent):
            pass
    except OSError as error:
        reason = f"{error.strerror} in {cut(str(parent))}; choose another directory"
        raise UnmaskError(f"cannot write {cut(str(path))}: {reason}") from error


def make_directory(directory: Path) -> Path:
    """Create the directory and its parents if they do not exist."""
    existing = [parent for parent in (directory, *directory.parents) if os.path.lexists(parent)]
    if existing and not os.path.isdir(existing[0]):
        reason = f"{cut(str(existing[0]))} is not a directory"
    else:
        try:
            directory.mkdir(parents=True, exist_ok=True)
            return directory
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or "no directory can have that name"
    raise UnmaskError(f"cannot create the directory {cut(str(directory))}: {reason}. Choose another.")


def destination(path: str | Path) -> Path:
    """The regular file at the end of all links; it need not exist. A pipe, device or directory is an error."""
    try:
        target = Path(os.path.realpath(path))
        mode = os.lstat(target).st_mode
    except FileNotFoundError:
        mode = None
    except OSError as error:
        raise UnmaskError(f"cannot write {cut(str(path))}: {error.strerror}; choose another name") from error
    except ValueError as error:  # a NUL, or half of a pair of surrogates
        raise UnmaskError(f"cannot write {cut(str(path))}: no file can have that name") from error

    if mode is not None and (kind := KINDS.get(stat.S_IFMT(mode), OTHER)):
        raise UnmaskError(f"cannot write {cut(str(path))}: it is {kind}; expected a file")

    size = len(os.fsencode(target.name))
    if size > LONGEST:
        raise UnmaskError(f"cannot write {cut(str(path))}: its name has {size} bytes; expected at most {LONGEST}")
    return target


@cache
def _clear(directory: Path) -> None:
    """Delete, once per process, old unlocked temporary files, which killed writes have left behind."""
    with suppress(OSError), os.scandir(directory) as entries:
        left = [e.path for e in entries if e.name.startswith(TEMPORARY[0]) and e.name.endswith(TEMPORARY[1])]
        for name in left:
            with suppress(OSError), open(os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb") as file:
                status = os.fstat(file.fileno())
                if stat.S_ISREG(status.st_mode) and time.time() - status.st_mtime > OLD:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    os.unlink(name)


def write_json(path: str | Path, content: Any) -> None:
    with atomic(path) as file:
        file.write(json.dumps(content, indent=1, allow_nan=False).encode() + b"\n")


def finite(value: Any) -> Any:
    """The value with None in place of infinities, which JSON lacks: the open end of an interval is null."""
    if value is None or isinstance(value, str | int):  # most values, and a mapping is slow to tell
        return value
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, list | tuple):
        return list(map(finite, value))
    if isinstance(value, Mapping):
        return mapped(finite, value)
    return value


def origin(**configuration: Any) -> dict[str, Any]:
    """The origin of a file: everything needed to produce it again."""
    program = Path(sys.argv[0]).name  # another machine does not have its directory
    if program == "__main__.py":
        program = "unmask"

    return {
        "command": [program, *sys.argv[1:]],
        "configuration": configuration,
        "versions": {package: version(package) or "not installed" for package in USED},
        "code": code(),
        "python": platform.python_version(),
        "machine": f"{platform.system()} {platform.machine()}",
    }


@cache
def code() -> str:
    """A digest of the sources of this package: results of different sources are not comparable."""
    whole = hashlib.sha256()
    package = Path(__file__).parents[1]
    for path in sorted(package.rglob("*.py")):
        whole.update(f"{path.relative_to(package)}\0".encode() + hashlib.sha256(path.read_bytes()).digest())
    return whole.hexdigest()[:16]


@cache
def version(package: str) -> str | None:
    """The version of an installed package, else None."""
    from importlib import metadata  # here, because a worker writes no file

    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None
