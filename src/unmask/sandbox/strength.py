"""Test a sandbox: a program in it attempts forbidden actions on real files, processes and ports."""

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

targets, answers = json.loads(sys.stdin.read()), {}
libc = ctypes.CDLL(None, use_errno=True)


def attempt(name, act):
    try:
        answers[name] = "refused" if act() == -1 else "done"
    except (OSError, MemoryError):
        answers[name] = "refused"


def send():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
        one.sendto(b"x", ("127.0.0.1", targets["port"]))


def descriptors():
    for number in range(3, 256):
        try:
            os.fstat(number)
            return 0
        except OSError:
            pass
    return -1


attempt("read a file", lambda: open(targets["file"]).read())
attempt("write to a file", lambda: open(targets["file"], "a").close())
attempt("make a file", lambda: open(targets["file"] + ".new", "x").close())
attempt("list a directory", lambda: os.listdir(os.path.dirname(targets["file"])))
attempt("change a mode", lambda: os.chmod(targets["file"], 0o600))
attempt("read a process", lambda: open(f"/proc/{targets['process']}/cmdline").read())
attempt("end a process", lambda: os.kill(targets["process"], 9))
attempt("connect", lambda: socket.create_connection(("127.0.0.1", targets["port"])).close())
attempt("send a datagram", send)
attempt("connect to a path", lambda: socket.socket(socket.AF_UNIX).connect(targets["path"]))
attempt("make a namespace", lambda: libc.unshare(0x10000000))
attempt("share memory", lambda: libc.shmctl(libc.shmget(0, 4096, 0o1600), 0, None))
attempt("use memory beyond the limit", lambda: len(bytearray(2 * targets["memory"])))
attempt("write beyond the limit", lambda: open("large", "wb").write(bytes(4 * targets["size"])))
attempt("use our descriptors", descriptors)
attempt("read our environment", lambda: 0 if targets["secret"] in os.environ else -1)

ran = []
thread = threading.Thread(target=lambda: ran.append(1))
thread.start()
thread.join()
with open("mine", "w") as file:
    file.write("something")
assert ran and open("mine").read() == "something" and socket.socketpair()
print(json.dumps(answers))
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
    """ "refused" or "done" for each attempt, on a file, a process and ports that are open to all users."""
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
        with open(file, "w") as writer:
            writer.write("test")
        os.chmod(file, 0o666)
        os.chmod(path, 0o777)
        targets = {"file": file, "path": path, "port": server.getsockname()[1], "process": process.pid}
        targets |= {"memory": LIMITS.memory, "size": LIMITS.file, "secret": next(iter(os.environ.keys() - OWN), "")}
        ran = box.run(ATTEMPTS, LIMITS, json.dumps(targets))
        if not ran.passed:
            raise UnmaskError(f"{box.name}: a harmless program ended with {ran.why}")
        answers: dict[str, str] = json.loads(ran.stdout)
        happened = {"end a process": process.poll() is not None, "make a file": os.path.exists(f"{file}.new")}
        happened["change a mode"] = os.stat(file).st_mode & 0o777 != 0o666
        if any(happened[name] and answers[name] == REFUSED for name in happened):
            raise UnmaskError(f"{box.name}: an attempt succeeded although the program reported a refusal")
    bomb = box.run(BOMB, LIMITS)
    return answers | {"start processes beyond the limit": REFUSED if bomb.outcome == "processes" else "done"}


OWN = {"HOME", "TMPDIR", "PATH", "LANG", "LC_ALL", "LC_CTYPE", "PYTHONHASHSEED", "LD_LIBRARY_PATH", "PWD"}
