"""What a jail's processes use, counted from outside, and how all of them end, also those that ignore signals."""

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
PIPE = 16 * PAGE  # bytes that a pipe holds, where F_SETPIPE_SZ is refused
SOCKETS = "/proc/sys/net/core/wmem_default"
DEEP, MANY = 500, 1 << 40  # characters of a path within a scratch directory; entries
PATIENCE = 10.0  # seconds in which a killed process ends


class Process(NamedTuple):
    """`place` is its directory of /proc, or a thread's: the first thread may have ended before the others."""

    parent: int
    memory: int
    state: str
    threads: int
    place: str


def _processes() -> dict[int, Process]:
    found = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            with suppress(OSError):  # it has ended
                one = _process(f"/proc/{name}")
                if one.state == "Z" and one.threads > 1:
                    threads = (_process(f"/proc/{name}/task/{thread}") for thread in os.listdir(f"/proc/{name}/task"))
                    one = next((thread for thread in threads if thread.state not in "ZX"), one)
                found[int(name)] = one
    return found


def _process(place: str) -> Process:
    with open(f"{place}/stat", "rb") as file:
        fields = file.read().rpartition(b")")[2].split()
    return Process(int(fields[1]), int(fields[21]) * PAGE, fields[0].decode(), int(fields[17]), place)


def below(ancestor: int) -> dict[int, Process]:
    """Living processes that descend from one; orphans descend from the process that adopts them: the keeper."""
    every = _processes()
    children: dict[int, list[int]] = {}
    for number, process in every.items():
        children.setdefault(process.parent, []).append(number)
    found, waiting = [], [ancestor]
    while waiting:
        mine = children.get(waiting.pop(), [])
        found += mine
        waiting += mine
    return {number: every[number] for number in found if every[number].state != "Z" or every[number].threads > 1}


class Held(NamedTuple):
    """What open descriptors keep: bytes of buffers and of files without a name; and processes that cannot be read."""

    buffers: int
    unnamed: int
    hidden: int


def held(processes: Iterable[Process], largest: int) -> Held:
    """`largest`: bytes of a file. A file that is only mapped counts as one of these, because its size is not known."""
    with open(SOCKETS) as file:
        socket = int(file.read())
    buffers: dict[int, int] = {}
    files: dict[int, int] = {}
    mapped: set[int] = set()
    hidden = 0
    for process in processes:
        try:
            for one in _opened(process.place):
                if stat.S_ISSOCK(one.st_mode) or stat.S_ISFIFO(one.st_mode):
                    buffers[one.st_ino] = socket if stat.S_ISSOCK(one.st_mode) else PIPE
                elif not one.st_nlink:
                    files[one.st_ino] = one.st_blocks * 512
            with open(f"{process.place}/maps", errors="replace") as lines:
                mapped |= {int(line.split()[4]) for line in lines if line.endswith(" (deleted)\n")}
        except PermissionError:
            with suppress(OSError):
                hidden += _process(process.place).memory > 0  # one that ends has no memory, and belongs to root
        except OSError:
            continue  # it has ended
    return Held(sum(buffers.values()), sum(files.values()) + largest * len(mapped - files.keys()), hidden)


def _opened(place: str) -> Iterator[os.stat_result]:
    for name in os.listdir(f"{place}/fd"):
        with suppress(FileNotFoundError):  # it has been closed
            yield os.stat(f"{place}/fd/{name}")


def entries(processes: Iterable[Process], directories: Iterable[str]) -> int:
    """Files in the directories in memory of a process whose root is not ours, if there is one."""
    outside = os.stat("/")
    for process in processes:
        with suppress(OSError):
            if not os.path.samestat(os.stat(f"{process.place}/root"), outside):
                found = [os.statvfs(f"{process.place}/root{path}") for path in directories]
                return sum(one.f_files - one.f_ffree for one in found)
    return 0


def tasks(user: int) -> int:
    """Threads of a user, as limits count them."""
    total = 0
    for number, process in _processes().items():
        with suppress(OSError):
            total += process.threads if os.stat(f"/proc/{number}").st_uid == user else 0
    return total


def sweep() -> bool:
    """Kills all descendants, until there are none. False: some are left."""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            return True  # an orphan becomes a child of this process: without children there are no descendants
        for process in below(os.getpid()):
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        time.sleep(0.001)
    return False


def occupied(directory: str) -> tuple[int, int]:
    """Bytes and entries of a directory that others write to; one too deep, or closed to us, has too many."""
    total, entries, waiting = 0, 0, [directory]
    while waiting:
        place = waiting.pop()
        if len(place) > len(directory) + DEEP:
            return total, MANY
        try:
            with os.scandir(place) as listed:
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
    """A directory, however deep and whatever its modes: what lies deep is moved up, and no path grows long."""
    waiting, number = [directory], itertools.count()
    while waiting:
        place = waiting.pop()
        os.chmod(place, 0o700)
        with os.scandir(place) as listed:
            entries = list(listed)
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                os.chmod(entry.path, 0o700)
                raised = f"{directory}.{next(number)}"
                os.rename(entry.path, raised)
                waiting.append(raised)
            else:
                os.unlink(entry.path)
        os.rmdir(place)
