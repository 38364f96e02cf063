"""Memory and disk that a program takes, measured from outside, where each limit is a fraction of what it tries to take.

Other programs of the machine disturb each measurement, so that the smallest of several counts.
"""

from __future__ import annotations

import os
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.sandbox.attacks import ATTACKS
from unmask.sandbox import Limits, Sandbox
from unmask.sandbox.limits import MiB

LIMITS = Limits(wall=3, cpu=20, memory=160 * MiB, processes=40, file=16 * MiB, disk=16 * MiB, output=MiB)
TRIES = 12
PROGRAMS = {attack.name: attack.program for attack in ATTACKS}


def memory() -> int:
    """Bytes that are free, or kept for files alone."""
    (line,) = [line for line in Path("/proc/meminfo").read_text().splitlines() if line.startswith("MemAvailable")]
    return int(line.split()[1]) * 1024


def disk() -> int:
    found = os.statvfs(tempfile.gettempdir())
    return found.f_bfree * found.f_frsize


class Lowest(threading.Thread):
    """The smallest of what `free` says until it ends."""

    def __init__(self, free: Callable[[], int]) -> None:
        super().__init__()
        self.free, self.ended = free, threading.Event()
        self.before = self.least = free()

    def run(self) -> None:
        while not self.ended.wait(0.005):
            self.least = min(self.least, self.free())


def taken(box: Sandbox, program: str, free: Callable[[], int], enough: int) -> int:
    """The largest drop of free bytes while a program runs; of several runs the smallest, or one below `enough`."""
    found = []
    while len(found) < TRIES and min(found, default=enough) >= enough:
        lowest = Lowest(free)
        lowest.start()
        box.run(program, LIMITS)
        lowest.ended.set()
        lowest.join()
        found.append(lowest.before - lowest.least)
    return min(found)


@pytest.mark.rotates(4)
@pytest.mark.parametrize("kind", ["bubblewrap", "landlock"])
@pytest.mark.parametrize(
    "name",
    [
        "memory in the buffers of sockets",
        "memory in the buffers of large pipes",
        "memory that is shared, and no longer mapped",
        "memory of processes whose first thread has ended",
    ],
)
def test_memory_of_all_processes_has_a_limit(name, kind, box):
    assert taken(box(kind), PROGRAMS[name], memory, 3 * LIMITS.memory) < 3 * LIMITS.memory


@pytest.mark.rotates(3)
@pytest.mark.parametrize("kind", ["bubblewrap", "landlock"])
@pytest.mark.parametrize("name", ["files without a name", "files without a name that are mapped alone"])
def test_disk_of_all_processes_has_a_limit(name, kind, box):
    assert taken(box(kind), PROGRAMS[name], disk, 12 * LIMITS.disk) < 12 * LIMITS.disk
