"""Namespaces made by bubblewrap: a program has separate files, processes, network and queues."""

from __future__ import annotations

import os
from collections.abc import Iterable

SCRATCH = "/scratch"
WRITABLE = (SCRATCH, "/dev/shm")
USER = 1000  # the program's number inside


def arguments(bwrap: str, read: Iterable[str], devices: Iterable[str], disk: int, seccomp: int | None) -> list[str]:
    """The command line before a program. It must not be started by root, since it would keep root's capabilities."""
    command = [bwrap, "--unshare-all", "--unshare-user", "--uid", str(USER), "--gid", str(USER)]
    command += ["--cap-drop", "ALL", "--disable-userns", "--die-with-parent", "--new-session"]
    for path in read:
        command += ["--symlink", os.readlink(path), path] if os.path.islink(path) else ["--ro-bind-try", path, path]
    for path in devices:
        command += ["--dev-bind-try", path, path]
    for path in WRITABLE:
        command += ["--perms", "0777", "--size", str(disk), "--tmpfs", path]
    command += ["--remount-ro", "/", "--chdir", SCRATCH]
    return command + (["--seccomp", str(seccomp)] if seccomp is not None else [])
