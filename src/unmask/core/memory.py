"""What does not fit into this machine is refused before the work begins, and not by the machine in the midst of it."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from unmask.core.errors import UnmaskError

SMALL = 2**27  # bytes that are not worth a question
UNITS = ("bytes", "kB", "MB", "GB", "TB", "PB", "EB")
GROUP = Path("/sys/fs/cgroup")


def available() -> int:
    """Bytes that a process may still have: of the machine, and of the container that it runs in."""
    found = []
    with suppress(OSError, ValueError, StopIteration):
        lines = Path("/proc/meminfo").read_text().splitlines()
        found.append(1024 * int(next(line.split()[1] for line in lines if line.startswith("MemAvailable:"))))
    with suppress(OSError, ValueError):  # "max" is no number: there is no limit
        found.append(int((GROUP / "memory.max").read_text()) - int((GROUP / "memory.current").read_text()))
    if not found:
        with suppress(OSError, ValueError, AttributeError):
            found.append(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    return max(min(found, default=2**63), 0)


def fits(count: int, unit: str, each: int) -> None:
    """An error where so many of something, each of so many bytes, are more than there is room for."""
    if count * each <= SMALL:
        return
    room = available()
    if count * each > room:
        what = f"{counted(count)} {unit} need {size(count * each)}"
        raise UnmaskError(f"{what}; at most {counted(room // each)} fit here, into {size(room)}")


def size(count: int) -> str:
    """Bytes in a unit that one can read: "160 TB"."""
    number, unit = float(min(count, 10**300)), 0
    while number >= 1000 and unit < len(UNITS) - 1:
        number, unit = number / 1000, unit + 1
    return f"{number:.3g} {UNITS[unit]}"


def counted(number: int) -> str:
    return f"{number:,}" if number < 10**9 else f"{float(number):.3g}" if number < 10**300 else "more than 1e300"
