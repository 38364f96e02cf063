"""The user of a program, which no other process has, and its resource limits."""

from __future__ import annotations

import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from math import ceil

FIRST_USER = 1_900_000_000  # above those that systemd assigns; the number of the keeper's process is added
STACK = 8 << 20
FILES = 64  # descriptors per process; they bound the memory of sockets, pipes and open files


def stranger() -> int | None:
    """A new user for this run, if the keeper runs as root, which has no limit of processes.

    In a container with fewer users it is one of the last.
    """
    if os.geteuid() != 0:
        return None
    known = [(first, first + count) for first, _, count in _map("uid")]
    own = FIRST_USER + os.getpid()
    if any(first <= own < last for first, last in known):
        return own
    first, last = max(known, key=lambda one: one[1] - one[0])
    return last - 1 - os.getpid() % max((last - first) // 2, 1)


def _map(kind: str) -> list[tuple[int, ...]]:
    with open(f"/proc/self/{kind}_map") as lines:
        return [tuple(map(int, line.split())) for line in lines]


def become(user: int | None) -> None:
    """Switch to this user, without the keeper's groups and capabilities; only root can."""
    if user is not None and os.geteuid() == 0:
        os.setgroups([])
        os.setresgid(user, user, user)
        os.setresuid(user, user, user)


@contextmanager
def seeing_as(user: int | None) -> Iterator[None]:
    """Act as this user: root without CAP_SYS_PTRACE, as in a container, cannot see descriptors of other users."""
    if user is not None:
        os.setegid(user)
        os.seteuid(user)
    try:
        yield
    finally:
        if user is not None:
            os.seteuid(0)
            os.setegid(0)


def bound(limits: dict[str, int | float], others: int) -> None:
    """Set the kernel's limits per process, and that of the user's processes, of which `others` exist already.

    The latter is generous, because parallel jails of one user share it; the keeper itself enforces the exact number.
    """
    cpu = ceil(limits["cpu"])
    values = {
        resource.RLIMIT_CPU: (cpu, cpu + 1),
        resource.RLIMIT_AS: int(limits["memory"]),
        resource.RLIMIT_FSIZE: int(limits["file"]),
        resource.RLIMIT_NPROC: others + 2 * int(limits["processes"]) + 4,
        resource.RLIMIT_STACK: STACK,
        resource.RLIMIT_NOFILE: FILES,
        resource.RLIMIT_CORE: 0,
        resource.RLIMIT_MEMLOCK: 0,
        resource.RLIMIT_MSGQUEUE: 0,
    }
    for limit, most in values.items():
        soft, hard = most if isinstance(most, tuple) else (most, most)
        allowed = resource.getrlimit(limit)[1]
        if allowed != resource.RLIM_INFINITY:
            soft, hard = min(soft, allowed), min(hard, allowed)
        resource.setrlimit(limit, (soft, hard))
