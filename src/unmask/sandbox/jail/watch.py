"""What a jail's processes use, counted from outside, and how all of them end: daemons, and who ignores signals."""

from __future__ import annotations

import itertools
import os
import signal
import time

PAGE = os.sysconf("SC_PAGE_SIZE")
DEEP, MANY = 500, 1 << 40  # characters of a path within a scratch directory; entries
PATIENCE = 10.0  # seconds in which whatever we kill is dead


def _processes() -> dict[int, tuple[int, int, str, int]]:
    """Of each process its parent, its bytes in memory, its state and its threads."""
    found = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open(f"/proc/{name}/stat", "rb") as file:
                    said = file.read().rpartition(b")")[2].split()
            except OSError:
                continue  # it has ended
            found[int(name)] = int(said[1]), int(said[21]) * PAGE, said[0].decode(), int(said[17])
    return found


def below(ancestor: int) -> tuple[list[int], int]:
    """Processes that descend from one, and their bytes in memory; orphans descend from who adopts them: the keeper."""
    every = _processes()
    children: dict[int, list[int]] = {}
    for process, (parent, *_) in every.items():
        children.setdefault(parent, []).append(process)
    found, waiting = [], [ancestor]
    while waiting:
        mine = children.get(waiting.pop(), [])
        found += mine
        waiting += mine
    return [process for process in found if every[process][2] != "Z"], sum(every[process][1] for process in found)


def tasks(user: int) -> int:
    """Threads of a user's, as limits count them."""
    number = 0
    for process, (*_, threads) in _processes().items():
        try:
            number += threads if os.stat(f"/proc/{process}").st_uid == user else 0
        except OSError:
            continue
    return number


def sweep() -> bool:
    """Kills all that descend from us, until nobody does. False: somebody still does."""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            return True  # whoever is orphaned becomes our child: without children, nobody descends from us
        for process in below(os.getpid())[0]:
            try:
                os.kill(process, signal.SIGKILL)
            except ProcessLookupError:
                continue
        time.sleep(0.001)
    return False


def occupied(directory: str) -> tuple[int, int]:
    """Bytes and entries of a directory that others write to; one too deep to be looked through has too many."""
    total, entries, waiting = 0, 0, [directory]
    while waiting:
        place = waiting.pop()
        if len(place) > len(directory) + DEEP:
            return total, MANY
        try:
            with os.scandir(place) as listed:
                for entry in listed:
                    entries += 1
                    total += entry.stat(follow_symlinks=False).st_blocks * 512
                    if entry.is_dir(follow_symlinks=False):
                        waiting.append(entry.path)
        except OSError:
            continue
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
