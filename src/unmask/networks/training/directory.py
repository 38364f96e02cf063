"""The directory of a training: one process and one network at a time."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from unmask.core.errors import UnmaskError
from unmask.core.files import check_writable, make_directory
from unmask.networks.model import checkpoints


@contextmanager
def alone(directory: Path) -> Iterator[None]:
    """Lock a writable directory, or raise an error if another process trains in it. The lock ends with the process.

    A new directory is removed if it stays empty.
    """
    existed = os.path.isdir(directory)
    handle = os.open(make_directory(directory), os.O_RDONLY)
    try:
        for name in checkpoints.FILES:
            check_writable(directory / name)
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    except BlockingIOError as error:
        raise UnmaskError(f"another process trains in {directory}. Wait for it, or pass another --out") from error
    finally:
        os.close(handle)
        if not existed:
            with suppress(OSError):  # not empty
                directory.rmdir()


def check_unused(directory: Path) -> None:
    for name in (checkpoints.STATE, checkpoints.CONFIG):
        if os.path.exists(directory / name):
            raise UnmaskError(f"{directory} already holds a network ({name}). Pass --resume, or another --out")
