"""The memory and the cores of this machine. Work that does not fit into memory is refused before it starts.

This module imports no torch, because every command needs it at its start.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from unmask.core.arguments import MOST_THREADS, whole
from unmask.core.errors import UnmaskError

SMALL = 2**27  # bytes that are not checked
PLACE_BYTES = 56  # of a generated position, by benchmarks/scaling.py: token, step and probability, in blocks and joined
UNITS = ("bytes", "kB", "MB", "GB", "TB", "PB", "EB")
GROUP = Path("/sys/fs/cgroup")
DIGITS = 19  # of an environment variable that is read as a number


def available() -> int:
    """Bytes that the process may still allocate, on the machine and in its container."""
    limits = []
    with suppress(OSError, ValueError, StopIteration):
        lines = Path("/proc/meminfo").read_text().splitlines()
        limits.append(1024 * int(next(line.split()[1] for line in lines if line.startswith("MemAvailable:"))))
    with suppress(OSError, ValueError):  # "max" means that there is no limit
        limits.append(int((GROUP / "memory.max").read_text()) - int((GROUP / "memory.current").read_text()))
    if not limits:
        with suppress(OSError, ValueError, AttributeError):
            limits.append(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    return max(min(limits, default=2**63), 0)


def fits(count: int, unit: str, each: int, lower: str = "rows or length", free: int | None = None) -> None:
    """Raise an error if `count` units of `each` bytes do not fit into memory. free: bytes of a device."""
    if count * each <= SMALL:
        return
    if free is None:
        free = available()
    if count * each > free:
        raise UnmaskError(
            f"{counted(count)} {unit} need {size(count * each)}",
            f"expected at most {counted(free // each)}, which fit into the {size(free)} available",
            f"Lower {lower}",
        )


def size(count: int) -> str:
    """A number of bytes in a readable unit: "160 TB"."""
    number, unit = float(min(count, 10**300)), 0
    while number >= 1000 and unit < len(UNITS) - 1:
        number, unit = number / 1000, unit + 1
    return f"{number:.3g} {UNITS[unit]}"


def counted(number: int) -> str:
    if number >= 10**300:
        return "more than 1e300"
    return f"{number:,}" if number < 10**9 else f"{float(number):.3g}"


def cores() -> int:
    """Number of threads: UNMASK_THREADS, or the number of cores that this process may use."""
    text = os.environ.get("UNMASK_THREADS")
    if text is None:
        if hasattr(os, "sched_getaffinity"):
            return len(os.sched_getaffinity(0))
        return os.cpu_count() or 1
    given = int(text) if text.isdecimal() and len(text) <= DIGITS else text
    return whole("UNMASK_THREADS", given, 1, MOST_THREADS)
