"""Count the resources of a jail's processes from outside, and kill all of them, also those that ignore signals."""

from __future__ import annotations

import itertools
import os
import signal
import stat
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import NamedTuple

PAGE = os.sysconf("SC_PAGE_SIZE")
PIPE = 16 * PAGE  # bytes of a pipe; F_SETPIPE_SZ is refused
SOCKETS = "/proc/sys/net/core/wmem_default"
DEEP, MANY = 500, 1 << 40  # characters of a path within a scratch directory; entries
PATIENCE = 10.0  # seconds for killed processes to end


class Process(NamedTuple):
    """path: its directory in /proc, or that of a thread, since the first thread may end before the others."""

    parent: int
    memory: int
    state: str
    threads: int
    path: str


def _processes() -> dict[int, Process]:
    processes = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            with suppress(OSError):  # it has ended
                one = _process(f"/proc/{name}")
                if one.state == "Z" and one.threads > 1:
                    threads = (_process(f"/proc/{name}/task/{thread}") for thread in os.listdir(f"/proc/{name}/task"))
                    one = next((thread for thread in threads if thread.state not in "ZX"), one)
                processes[int(name)] = one
    return processes


def _process(path: str) -> Process:
    with open(f"{path}/stat", "rb") as file:
        fields = file.read().rpartition(b")")[2].split()
    return Process(int(fields[1]), int(fields[21]) * PAGE, fields[0].decode(), int(fields[17]), path)


def below(ancestor: int) -> dict[int, Process]:
    """Living descendants of a process. Orphans descend from the process that adopts them, the keeper."""
    every = _processes()
    children: dict[int, list[int]] = {}
    for number, process in every.items():
        children.setdefault(process.parent, []).append(number)
    descendants, waiting = [], [ancestor]
    while waiting:
        own = children.get(waiting.pop(), [])
        descendants += own
        waiting += own
    return {number: every[number] for number in descendants if every[number].state != "Z" or every[number].threads > 1}


class Held(NamedTuple):
    """Bytes of buffers and of deleted files that open descriptors hold, and the number of unreadable processes."""

    buffers: int
    unnamed: int
    hidden: int


def held(processes: Iterable[Process], largest: int) -> Held:
    """Resources that processes hold. A file that is only mapped counts `largest` bytes, since its size is unknown."""
    with open(SOCKETS) as file:
        socket = int(file.read())
    buffers: dict[int, int] = {}
    files: dict[int, int] = {}
    mapped: set[int] = set()
    hidden = 0
    for process in processes:
        try:
            for one in _opened(process.path):
                if stat.S_ISSOCK(one.st_mode) or stat.S_ISFIFO(one.st_mode):
                    buffers[one.st_ino] = socket if stat.S_ISSOCK(one.st_mode) else PIPE
                elif not one.st_nlink:
                    files[one.st_ino] = one.st_blocks * 512
            with open(f"{process.path}/maps", errors="replace") as lines:
                mapped |= {int(line.split()[4]) for line in lines if line.endswith(" (deleted)\n")}
        except PermissionError:
            with suppress(OSError):
                hidden += (
                    _process(process.path).memory > 0
                )  # a process that is ending has no memory, and belongs to root
        except OSError:
            continue  # it has ended
    return Held(sum(buffers.values()), sum(files.values()) + largest * len(mapped - files.keys()), hidden)


def _opened(path: str) -> Iterator[os.stat_result]:
    for name in os.listdir(f"{path}/fd"):
        with suppress(FileNotFoundError):  # it has been closed
            yield os.stat(f"{path}/fd/{name}")


def entries(processes: Iterable[Process], directories: Iterable[str]) -> int:
    """Number of files in these in-memory directories, in the first process with another root directory."""
    outside = os.stat("/")
    for process in processes:
        with suppress(OSError):
            if not os.path.samestat(os.stat(f"{process.path}/root"), outside):
                systems = [os.statvfs(f"{process.path}/root{path}") for path in directories]
                return sum(system.f_files - system.f_ffree for system in systems)
    return 0


def tasks(user: int) -> int:
    """Number of threads of a user, as the kernel's limit counts them."""
    total = 0
    for number, process in _processes().items():
        with suppress(OSError):
            total += process.threads if os.stat(f"/proc/{number}").st_uid == user else 0
    return total


def sweep() -> bool:
    """Kill all descendants; False if some are left."""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            return True  # orphans become children of this process, so no descendants are left
        for process in below(os.getpid()):
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        time.sleep(0.001)
    return False


def occupied(directory: str) -> tuple[int, int]:
    """(bytes, entries) of a directory that a program writes to; a too deep or unreadable one counts `MANY` entries."""
    total, entries, waiting = 0, 0, [directory]
    while waiting:
        path = waiting.pop()
        if len(path) > len(directory) + DEEP:
            return total, MANY
        try:
            with os.scandir(path) as listed:
                for entry in listed:
                    entries += 1
                    with suppress(OSError):  # it has been removed
                        total += entry.stat(follow_symlinks=False).st_blocks * 512
                        if entry.is_dir(follow_symlinks=False):
                            waiting.append(entry.path)
        except PermissionError:
            return total, MANY
        except OSError:
            continue  # it has been removed
    return total, entries


def remove(directory: str) -> None:
    """Remove a directory of any depth and modes. Subdirectories are moved up first, so paths stay short."""
    waiting, number = [directory], itertools.count()
    while waiting:
        path = waiting.pop()
        os.chmod(path, 0o700)
        with os.scandir(path) as listed:
            entries = list(listed)
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                os.chmod(entry.path, 0o700)
                raised = f"{directory}.{next(number)}"
                os.rename(entry.path, raised)
                waiting.append(raised)
            else:
                os.unlink(entry.path)
        os.rmdir(path)
