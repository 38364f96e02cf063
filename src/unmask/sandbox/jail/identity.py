"""Who a program is: an ordinary user whom nobody else is, and how much of a machine is that user's."""

from __future__ import annotations

import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from math import ceil

OURS = 1_900_000_000  # users from here on, above those that systemd hands out; the process that keeps a jail is added
STACK = 8 << 20
FILES = 64  # descriptors of a process, which bound what sockets, pipes and open files keep


def stranger() -> int | None:
    """A user for this run alone, if we are root: limits of processes bind every user but root, each by itself.

    Where a container knows fewer users, one of the last that it knows.
    """
    if os.geteuid() != 0:
        return None
    known = [(first, first + count) for first, _, count in _map("uid")]
    own = OURS + os.getpid()
    if any(first <= own < last for first, last in known):
        return own
    first, last = max(known, key=lambda one: one[1] - one[0])
    return last - 1 - os.getpid() % max((last - first) // 2, 1)


def _map(kind: str) -> list[tuple[int, ...]]:
    with open(f"/proc/self/{kind}_map") as lines:
        return [tuple(map(int, line.split())) for line in lines]


def become(user: int | None) -> None:
    """That user, without any group or capability of ours; where we are no root, nobody becomes anybody else."""
    if user is not None and os.geteuid() == 0:
        os.setgroups([])
        os.setresgid(user, user, user)
        os.setresuid(user, user, user)


@contextmanager
def seeing_as(user: int | None) -> Iterator[None]:
    """With that user's eyes: a root without CAP_SYS_PTRACE, as in a container, sees no descriptors of others."""
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
    """Limits of the kernel's, a process each, but for the number of processes: `others` are the user's already.

    That number has room: the keeper counts, and ends who has too many; so parallel jails of one user do not starve.
    """
    cpu = ceil(limits["cpu"])
    wanted = {
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
    for what, most in wanted.items():
        soft, hard = most if isinstance(most, tuple) else (most, most)
        allowed = resource.getrlimit(what)[1]
        if allowed != resource.RLIM_INFINITY:
            soft, hard = min(soft, allowed), min(hard, allowed)
        resource.setrlimit(what, (soft, hard))
