"""Who drives a store: one process at a time, told apart by a lock that the system itself drops when its holder dies."""

from __future__ import annotations

import fcntl
import json
import os
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path
from typing import Any

from unmask.core.errors import UnmaskError

FILE = "driver.lock"


@contextmanager
def hold(directory: Path) -> Iterator[str | None]:
    """Be the one driver of a store, or say who is. Yields what is to be said of a holder that has died, if one has.

    The file stays, empty after an orderly end: were it removed, two could lock two files of one name.
    """
    handle = os.open(directory / FILE, os.O_RDWR | os.O_CREAT, 0o666)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise UnmaskError(
                f"{directory} is being driven by {_said(_read(handle))}; wait for it, or stop it with Ctrl-C there"
            ) from None
        before = _read(handle)
        me = {"pid": os.getpid(), "host": socket.gethostname(), "since": time.time()}
        os.ftruncate(handle, 0)
        with suppress(OSError):  # a disk that is full: the lock holds without its words
            os.pwrite(handle, json.dumps(me).encode(), 0)
        try:
            yield f"the driver before, {_said(before)}, was killed" if before else None
        finally:
            os.ftruncate(handle, 0)
    finally:
        os.close(handle)


def holder(directory: Path) -> dict[str, Any] | None:
    """Who drives a store now, if anybody does; asks without disturbing."""
    try:
        handle = os.open(directory / FILE, os.O_RDONLY)
    except OSError:
        return None
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return _read(handle) or {"pid": None, "host": None, "since": None}
    finally:
        os.close(handle)
    return None


def _read(handle: int) -> dict[str, Any]:
    try:
        content = json.loads(os.pread(handle, 4096, 0))
    except ValueError:
        return {}
    return content if isinstance(content, dict) else {}


def _said(who: dict[str, Any]) -> str:
    if not who.get("pid"):
        return "another process"
    since = datetime.fromtimestamp(who["since"]).isoformat(" ", "seconds")
    return f"process {who['pid']} on {who['host']} since {since}"
