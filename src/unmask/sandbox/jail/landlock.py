"""Landlock: a process restricts itself to files below given paths, without TCP and without signals to others.

It does not cover names and sizes of existing files (stat), modes and owners, UDP, unix sockets by path, and, before ABI
6, signals. The filter of system calls refuses all calls that change any of these.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterable

from .calls import PR_SET_NO_NEW_PRIVS, checked, prctl, syscall

CREATE, ADD, RESTRICT = 444, 445, 446
EXECUTE, WRITE, READ, LIST = 1 << 0, 1 << 1, 1 << 2, 1 << 3
FILES = EXECUTE | WRITE | READ | 1 << 14 | 1 << 15  # rights that apply to a file
RIGHTS = {1: 13, 2: 14, 3: 15, 4: 15, 5: 16}  # number of rights by ABI; newer ones use the last


class Ruleset(ctypes.Structure):
    _fields_ = (("files", ctypes.c_uint64), ("net", ctypes.c_uint64), ("scoped", ctypes.c_uint64))


class Beneath(ctypes.Structure):
    _pack_ = 1
    _fields_ = (("allowed", ctypes.c_uint64), ("parent", ctypes.c_int32))


def abi() -> int:
    """The version of Landlock in this kernel; 0 without it."""
    try:
        return syscall("landlock", CREATE, None, 0, 1)
    except OSError:
        return 0


def restrict(version: int, read: Iterable[str], devices: Iterable[str], write: Iterable[str]) -> None:
    """Restrict this process and its children to reading and running below `read`, and all access below `write`."""
    every = (1 << RIGHTS[min(version, 5)]) - 1
    rules = Ruleset(every, 3 if version >= 4 else 0, 3 if version >= 6 else 0)
    size = 24 if version >= 6 else 16 if version >= 4 else 8
    ruleset = syscall("landlock", CREATE, ctypes.byref(rules), size, 0)
    allowed = {path: EXECUTE | READ | LIST for path in read} | {path: READ | WRITE for path in devices}
    for path, rights in (allowed | dict.fromkeys(write, every)).items():
        if not os.path.exists(path):
            continue
        opened = os.open(path, os.O_PATH | os.O_CLOEXEC)
        rights &= every if os.path.isdir(path) else FILES & every
        rule = Beneath(rights, opened)
        syscall(f"landlock {path}", ADD, ruleset, 1, ctypes.byref(rule), 0)
        os.close(opened)
    prctl(PR_SET_NO_NEW_PRIVS, 1)
    checked(syscall("landlock", RESTRICT, ruleset, 0), "landlock")
    os.close(ruleset)
