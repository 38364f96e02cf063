"""The directory of a training: of one at a time, and of one network."""

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
    """Be the one that trains in a directory, where all that a network leaves can be written, or say that another does;
    the system ends it with the process. One that was made for it goes again where nothing has come into it."""
    there = os.path.isdir(directory)
    handle = os.open(make_directory(directory), os.O_RDONLY)
    try:
        for name in checkpoints.FILES:
            check_writable(directory / name)
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    except BlockingIOError as error:
        what = "wait for it, or name another directory"
        raise UnmaskError(f"another process trains in {directory}; {what}") from error
    finally:
        os.close(handle)
        if not there:
            with suppress(OSError):  # it is not empty
                directory.rmdir()


def check_unused(directory: Path) -> None:
    for name in (checkpoints.STATE, checkpoints.CONFIG):
        if os.path.exists(directory / name):
            what = "go on with it by --resume, or name another directory"
            raise UnmaskError(f"{directory} holds a network already ({name}); {what}")
