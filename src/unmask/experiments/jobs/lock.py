"""Who drives a store: one process at a time, told apart by a lock that the system itself drops when its holder dies."""

from __future__ import annotations

import fcntl
import os
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any

import msgspec

from unmask.core.errors import UnmaskError, cut
from unmask.core.reading import check_file

FILE = "driver.lock"


class Holder(msgspec.Struct):
    """What the file says of who holds it."""

    pid: Annotated[int, msgspec.Meta(gt=0)]
    host: Annotated[str, msgspec.Meta(max_length=255)]
    since: Annotated[float, msgspec.Meta(ge=0, le=1e11)]


@contextmanager
def hold(directory: Path) -> Iterator[str | None]:
    """Be the one driver of a store, or say who is. Yields what is to be said of a holder that has died, if one has.

    The file stays, empty after an orderly end: were it removed, two could lock two files of one name.
    """
    handle = _opened(directory, os.O_RDWR | os.O_CREAT)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise UnmaskError(
                f"{directory} is being driven by {_said(_read(handle))}; wait for it, or stop it with Ctrl-C there"
            ) from None
        before = _read(handle)
        me = Holder(os.getpid(), socket.gethostname(), time.time())
        os.ftruncate(handle, 0)
        with suppress(OSError):  # a disk that is full: the lock holds without its words
            os.pwrite(handle, msgspec.json.encode(me), 0)
        try:
            yield f"the driver before, {_said(before)}, was killed" if before else None
        finally:
            os.ftruncate(handle, 0)
    finally:
        os.close(handle)


def holder(directory: Path) -> dict[str, Any] | None:
    """Who drives a store now, if anybody does; asks without disturbing."""
    if not os.path.lexists(directory / FILE):
        return None
    handle = _opened(directory, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        found = _read(handle)
        return {"pid": None, "host": None, "since": None} if found is None else msgspec.structs.asdict(found)
    finally:
        os.close(handle)
    return None


def _opened(directory: Path, how: int) -> int:
    """A regular file, and no link that leads elsewhere."""
    path = directory / FILE
    if os.path.lexists(path):
        check_file(path)
    try:
        return os.open(path, how | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o666)
    except OSError as error:
        raise UnmaskError(f"cannot lock the store {cut(str(directory))}: {error.strerror}") from error


def _read(handle: int) -> Holder | None:
    with suppress(msgspec.DecodeError, UnicodeError):
        return msgspec.json.decode(os.pread(handle, 4096, 0), type=Holder)
    return None


def _said(who: Holder | None) -> str:
    if who is None:
        return "another process"
    since = datetime.fromtimestamp(who.since).isoformat(" ", "seconds")
    return f"process {who.pid} on {who.host} since {since}"
