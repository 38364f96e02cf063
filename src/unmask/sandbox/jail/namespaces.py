"""A world of its own for one program: files, processes, network, queues, names of the machine; and its first process.

    we -> middle -> first (process 1 of the new world) -> program

As root the world is made with root's rights and the program is a stranger in it; otherwise, and for a root who may not,
a user namespace is made first. When the first process ends, the kernel kills all others of its world.
"""

from __future__ import annotations

import ctypes
import os
import signal
import struct
from collections.abc import Iterable

from .calls import MOUNT_SETATTR, PIVOT_ROOT, PR_SET_PDEATHSIG, detach, mount, prctl, syscall, unshare
from .identity import become

FILES, NAMES, QUEUES, USERS, PROCESSES, NETWORK = 0x20000, 0x4000000, 0x8000000, 0x10000000, 0x20000000, 0x40000000
WORLD = FILES | NAMES | QUEUES | PROCESSES | NETWORK
BIND, RECURSIVE, PRIVATE, NO_SETUID, NO_DEVICES = 0x1000, 0x4000, 0x40000, 2, 4
HERE, BELOW = -100, 0x8000  # AT_FDCWD, AT_RECURSIVE
SCRATCH = "/scratch"
INSIDE = 1000  # what a user is called inside
ENTRIES = 4096  # files and directories of a scratch directory in memory
STATUS = struct.Struct("=id")  # how a program has ended, and its CPU seconds


def enter(root: str, read: Iterable[str], devices: Iterable[str], disk: int, user: int | None, told: list[int]) -> None:
    """Returns in a process of the new world, `root` being its files; the processes before it wait, and end.

    `told` are the descriptors of what is said of the setup, which is closed where it is over, and of the status.
    """
    setup, status = told
    _leave(user)
    middle = os.fork()
    if middle:
        os.close(setup)
        os.waitpid(middle, 0)
        os._exit(0)
    prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    _furnish(root, read, devices, disk)
    program = os.fork()
    if not program:
        return
    os.close(setup)
    while True:
        ended, how, used = os.wait4(-1, 0)
        if ended == program:
            os.write(status, STATUS.pack(how, used.ru_utime + used.ru_stime))
            os._exit(0)


def _leave(user: int | None) -> None:
    if user is not None:
        try:
            return unshare(WORLD)
        except PermissionError:
            become(user)
    own = os.getuid(), os.getgid()
    unshare(WORLD | USERS)
    for name, text in (("setgroups", "deny"), ("uid_map", f"{INSIDE} {own[0]} 1"), ("gid_map", f"{INSIDE} {own[1]} 1")):
        with open(f"/proc/self/{name}", "w") as file:
            file.write(text)


def _furnish(root: str, read: Iterable[str], devices: Iterable[str], disk: int) -> None:
    mount(None, "/", None, RECURSIVE | PRIVATE)
    mount("tmpfs", root, "tmpfs", NO_SETUID | NO_DEVICES, "mode=0755,size=1m")
    for path in (*read, *devices):
        place = root + path
        os.makedirs(os.path.dirname(place), exist_ok=True)
        if os.path.islink(path):
            os.symlink(os.readlink(path), place)
            continue
        if os.path.isdir(path):
            os.makedirs(place, exist_ok=True)
        else:
            os.close(os.open(place, os.O_CREAT, 0o600))
        mount(path, place, None, BIND | RECURSIVE)
        _freeze(place, BELOW)
    for path in (SCRATCH, "/dev/shm"):
        os.makedirs(root + path, exist_ok=True)
        mount("tmpfs", root + path, "tmpfs", NO_SETUID | NO_DEVICES, f"mode=0777,size={disk},nr_inodes={ENTRIES}")
    os.chdir(root)
    syscall("pivot_root", PIVOT_ROOT[os.uname().machine], b".", b".")
    detach(".")
    os.chdir("/")
    _freeze("/", 0)


def _freeze(place: str, how: int) -> None:
    """A mount that nobody writes to, and in which no program has its owner's rights."""
    wanted = (ctypes.c_uint64 * 4)(1 | NO_SETUID, 0, 0, 0)
    syscall(f"mount_setattr {place}", MOUNT_SETATTR, HERE, os.fsencode(place), how, ctypes.byref(wanted), 32)
