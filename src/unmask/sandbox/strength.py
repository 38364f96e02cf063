"""How strong a sandbox is, found by trying: a program in it attempts what must fail, against things that are there."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import tempfile
from typing import Protocol

from unmask.core.errors import UnmaskError
from unmask.sandbox import interpreter
from unmask.sandbox.limits import Limits, MiB, Ran

LIMITS = Limits(wall=20, cpu=10, memory=256 * MiB, processes=8, file=MiB, disk=4 * MiB)
REFUSED = "refused"
ATTEMPTS = """
import ctypes, json, os, socket, sys, threading

told, found = json.loads(sys.stdin.read()), {}
libc = ctypes.CDLL(None, use_errno=True)


def attempt(name, act):
    try:
        found[name] = "refused" if act() == -1 else "done"
    except (OSError, MemoryError):
        found[name] = "refused"


def send():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
        one.sendto(b"x", ("127.0.0.1", told["port"]))


def descriptors():
    found = []
    for number in range(3, 256):
        try:
            os.fstat(number)
            found.append(number)
        except OSError:
            pass
    return 0 if found else -1


attempt("read a file", lambda: open(told["file"]).read())
attempt("write to a file", lambda: open(told["file"], "a").close())
attempt("make a file", lambda: open(told["file"] + ".new", "x").close())
attempt("list a directory", lambda: os.listdir(os.path.dirname(told["file"])))
attempt("change a mode", lambda: os.chmod(told["file"], 0o600))
attempt("read a process", lambda: open(f"/proc/{told['process']}/cmdline").read())
attempt("end a process", lambda: os.kill(told["process"], 9))
attempt("connect", lambda: socket.create_connection(("127.0.0.1", told["port"])).close())
attempt("send a datagram", send)
attempt("connect to a path", lambda: socket.socket(socket.AF_UNIX).connect(told["path"]))
attempt("make a namespace", lambda: libc.unshare(0x10000000))
attempt("share memory", lambda: libc.shmctl(libc.shmget(0, 4096, 0o1600), 0, None))
attempt("use memory beyond the limit", lambda: len(bytearray(2 * told["memory"])))
attempt("write beyond the limit", lambda: open("large", "wb").write(bytes(4 * told["size"])))
attempt("use our descriptors", descriptors)
attempt("read our environment", lambda: 0 if told["secret"] in os.environ else -1)

ran = []
thread = threading.Thread(target=lambda: ran.append(1))
thread.start()
thread.join()
with open("mine", "w") as file:
    file.write("something")
assert ran and open("mine").read() == "something" and socket.socketpair()
print(json.dumps(found))
"""
BOMB = """
import os, time
for _ in range(200):
    try:
        if not os.fork():
            time.sleep(60)
    except BlockingIOError:
        pass
time.sleep(60)
"""


class Runner(Protocol):
    """A sandbox."""

    @property
    def name(self) -> str: ...

    def run(self, program: str, limits: Limits | None = None, stdin: str | None = None) -> Ran: ...


def attempted(box: Runner) -> dict[str, str]:
    """ "refused" or "done" of each attempt: against a file, a process and ports that everybody might use."""
    with (
        tempfile.TemporaryDirectory(prefix="unmask-test-") as directory,
        socket.create_server(("127.0.0.1", 0)) as server,
        socket.socket(socket.AF_UNIX) as local,
        subprocess.Popen(
            [interpreter.own().python, "-sSPE", "-c", "import sys; sys.stdin.read()"],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
        ) as process,
    ):
        os.chmod(directory, 0o777)
        file, path = os.path.join(directory, "file"), os.path.join(directory, "socket")
        local.bind(path)
        local.listen()
        with open(file, "w") as made:
            made.write("nobody's")
        os.chmod(file, 0o666)
        os.chmod(path, 0o777)
        told = {"file": file, "path": path, "port": server.getsockname()[1], "process": process.pid}
        told |= {"memory": LIMITS.memory, "size": LIMITS.file, "secret": next(iter(os.environ.keys() - OWN), "")}
        ran = box.run(ATTEMPTS, LIMITS, json.dumps(told))
        if not ran.passed:
            raise UnmaskError(f"{box.name}: a harmless program is {ran.why}")
        found: dict[str, str] = json.loads(ran.stdout)
        happened = {"end a process": process.poll() is not None, "make a file": os.path.exists(f"{file}.new")}
        happened["change a mode"] = os.stat(file).st_mode & 0o777 != 0o666
        if any(happened[name] and found[name] == REFUSED for name in happened):
            raise UnmaskError(f"{box.name}: a program said that it was refused what it has done")
    bomb = box.run(BOMB, LIMITS)
    return found | {"start processes beyond the limit": REFUSED if bomb.outcome == "processes" else "done"}


OWN = {"HOME", "TMPDIR", "PATH", "LANG", "LC_ALL", "LC_CTYPE", "PYTHONHASHSEED", "LD_LIBRARY_PATH", "PWD"}
