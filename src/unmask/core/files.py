"""Files: written whole or not at all, read with errors that say where. No pickle."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import IO, Any

from unmask.core.errors import UnmaskError


@contextmanager
def atomic(path: str | Path) -> Iterator[IO[bytes]]:
    """A binary file that takes its name only when it is complete; after any error nothing is left."""
    path = Path(path)
    try:
        handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    except OSError as error:
        what = f"{error.strerror}; choose a directory that exists and is writable"
        raise UnmaskError(f"cannot write {path}: {what}") from error
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.chmod(name, 0o666 & ~_umask())
        os.replace(name, path)
    except BaseException as error:
        with suppress(FileNotFoundError):
            os.unlink(name)
        if isinstance(error, OSError):
            raise UnmaskError(f"cannot write {path}: {error.strerror or error}") from error
        raise


def check_writable(path: str | Path) -> None:
    """Fail before the work is done, not after it."""
    path = Path(path)
    if path.is_dir():
        raise UnmaskError(f"cannot write {path}: it is a directory; name a file in it")
    if not path.parent.is_dir():
        raise UnmaskError(f"cannot write {path}: there is no directory {path.parent}; create it first")
    try:
        with tempfile.TemporaryFile(dir=path.parent):
            pass
    except OSError as error:
        what = f"{error.strerror} in {path.parent}; choose another directory"
        raise UnmaskError(f"cannot write {path}: {what}") from error


def write_json(path: str | Path, content: Any) -> None:
    with atomic(path) as file:
        file.write(json.dumps(content, indent=1, allow_nan=False).encode() + b"\n")


def read_text(path: str | Path) -> str:
    path = Path(path)
    try:
        return path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise UnmaskError(f"cannot read {path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise UnmaskError(f"cannot read {path}: byte {error.start} is not UTF-8 text") from error


def read_json(path: str | Path) -> Any:
    text = read_text(path)
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        where = f"line {error.lineno}, column {error.colno}"
        cut = " (the file ends there: is it truncated?)" if error.pos >= len(text.rstrip()) else ""
        raise UnmaskError(f"{path} is not JSON: {error.msg} at {where}{cut}") from error
    except (ValueError, RecursionError) as error:  # endless digits, or brackets
        raise UnmaskError(f"cannot read {path}: {error}") from error


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


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
