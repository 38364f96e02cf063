"""System calls without a function in Python."""

from __future__ import annotations

import ctypes
import os

LIBC = ctypes.CDLL(None, use_errno=True)
LIBC.syscall.restype = ctypes.c_long

PR_SET_PDEATHSIG, PR_SET_SECCOMP, PR_SET_CHILD_SUBREAPER, PR_SET_NO_NEW_PRIVS = 1, 22, 36, 38


def checked(result: int, name: str) -> int:
    """The result of a call; raises OSError for a failed one."""
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{name}: {os.strerror(number)}")
    return result


def syscall(name: str, number: int, *arguments: object) -> int:
    """Call by number; integers are passed as 64 bits."""
    given = [ctypes.c_long(a) if isinstance(a, int) else a for a in arguments]
    return checked(LIBC.syscall(ctypes.c_long(number), *given), name)


def prctl(option: int, *arguments: object) -> None:
    given = [ctypes.c_ulong(a) if isinstance(a, int) else a for a in arguments]
    given += [ctypes.c_ulong(0)] * (4 - len(given))
    checked(LIBC.prctl(option, *given), f"prctl {option}")
