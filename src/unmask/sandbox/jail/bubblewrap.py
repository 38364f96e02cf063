"""Namespaces, made by bubblewrap: files, processes, network and queues of a program's own."""

from __future__ import annotations

import os
from collections.abc import Iterable

SCRATCH = "/scratch"
WRITABLE = (SCRATCH, "/dev/shm")
USER = 1000  # the program's number inside


def arguments(bwrap: str, read: Iterable[str], devices: Iterable[str], disk: int, seccomp: int | None) -> list[str]:
    """What stands before a command. Started by root it would keep all of root's capabilities: we are none by then."""
    said = [bwrap, "--unshare-all", "--unshare-user", "--uid", str(USER), "--gid", str(USER)]
    said += ["--cap-drop", "ALL", "--disable-userns", "--die-with-parent", "--new-session"]
    for path in read:
        if os.path.islink(path):
            said += ["--symlink", os.readlink(path), path]
        else:
            said += ["--ro-bind-try", path, path]
    for path in devices:
        said += ["--dev-bind-try", path, path]
    for path in WRITABLE:
        said += ["--perms", "0777", "--size", str(disk), "--tmpfs", path]
    said += ["--remount-ro", "/", "--chdir", SCRATCH]
    return said + (["--seccomp", str(seccomp)] if seccomp is not None else [])
