"""A fork server: one process that has imported everything and loaded every kernel, and a child of it for each case.

A child runs one command of `unmask` in a session of its own, with its stdout and stderr in files, bounded in processor
time and in address space, and watched: what it opens to write, renames or removes outside its root, what it starts and
whom it calls is written down, by Python's audit events. The machine that it sees has a gigabyte of memory, so that no
case depends on the real one; the cells of a sweep are measured in the child itself and not in processes of theirs, and
those of the demo and of figure 1, which take minutes, not at all; no picture is drawn of a chart's definition.

Run as a program, `server.py SEEDS`, it makes valid files of every kind in that directory (seeds.py), listens on a
socket in its working directory, and then prints a line. A child of it serves each connection: it answers each line of
JSON by one, until the connection ends. The server itself ends with its stdin.
"""

from __future__ import annotations

import ctypes
import gc
import json
import os
import resource
import select
import signal
import socket
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NoReturn

from tests.hostile import seeds, watching
from tests.hostile.oracle import SOCKET
from unmask.core.errors import UnmaskError

MEMORY = 2**30  # bytes, of the machine that commands see
SECONDS = 20  # of the processor, for a command
WALL = 300.0  # seconds after which a command hangs, however busy the machine is
LONG = (
    ["demo"],
    ["report", "--recipe", "figure-1"],
    ["report", "--recipe", "figure-2"],
    ["report", "--recipe", "reasoning"],
    ["report", "--recipe", "growth"],
    ["report", "--recipe", "gap"],
)
UNMEASURED = "nothing is measured here"
ROOM = 3 * 2**30  # bytes of addresses that a child may take beyond those of the server
PAGE = 2**21  # bytes of a large one
COLLAPSE = 25  # MADV_COLLAPSE, of Linux 6.1


def main() -> None:
    ready = os.dup(1)  # what is printed while it warms up does not count
    os.dup2(2, 1)
    here = os.open(".", os.O_RDONLY)
    _simulate()
    seeds.make(Path(sys.argv[1]))
    gc.collect()
    gc.freeze()
    gc.disable()  # a child that looks through all that there is has copied it
    _join_pages()
    os.fchdir(here)
    Path(SOCKET).unlink(missing_ok=True)
    with socket.socket(socket.AF_UNIX) as door:
        door.bind(SOCKET)
        door.listen()
        os.write(ready, b"ready\n")
        os.close(ready)
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # children that answer are not waited for
        while sys.stdin not in select.select([sys.stdin, door], [], [])[0]:
            asking, _ = door.accept()
            if os.fork() == 0:
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                door.close()
                _answer(asking)
            asking.close()


def _answer(asking: socket.socket) -> NoReturn:
    with asking.makefile("rw") as lines:
        print(json.dumps({"seeds": sys.argv[1]}), file=lines, flush=True)
        for line in lines:
            print(json.dumps(serve(json.loads(line))), file=lines, flush=True)
    os._exit(0)


def _join_pages() -> None:
    """Large pages for all that is private, where the kernel makes them: a fork copies an entry for each page."""
    collapse = ctypes.CDLL(None).madvise
    collapse.argtypes = ctypes.c_size_t, ctypes.c_size_t, ctypes.c_int
    for line in Path("/proc/self/maps").read_text().splitlines():
        span, access, _, _, _, *name = line.split(maxsplit=5)
        begin, end = (int(part, 16) for part in span.split("-"))
        begin, end = -(-begin // PAGE) * PAGE, end // PAGE * PAGE
        if access == "rw-p" and name in ([], ["[heap]"]) and begin < end:
            collapse(begin, end - begin, COLLAPSE)


def _simulate() -> None:
    """A machine with a gigabyte for a command, and sweeps in their own process."""
    import unmask.core.arguments
    from unmask.experiments import pool
    from unmask.report import charts, page

    real = unmask.core.arguments.available
    watching.import_all()
    for module in list(sys.modules.values()):
        if getattr(module, "available", None) is real:
            module.available = lambda: MEMORY  # type: ignore[attr-defined]
    pool.ENGINES["local"] = pool.Here
    charts.svg = lambda definition: f'<svg width="1" height="1">{json.dumps(definition)}</svg>'
    page.svg = charts.svg
    charts.vl_convert = SimpleNamespace(svg_to_png=lambda *_, **options: b"")
    page.library = lambda: ""  # which the real one would keep for the pages of all others


def _unmeasured(*_: Any) -> None:
    raise UnmaskError(UNMEASURED)


def serve(asked: dict[str, Any]) -> dict[str, Any]:
    """What came of a command: its exit code, or the negative number of the signal that ended it."""
    began = time.monotonic()
    pid = os.fork()
    if pid == 0:
        _be_child(asked)
    handle = os.pidfd_open(pid)
    hung = not select.select([handle], [], [], WALL)[0]
    os.close(handle)
    if hung:
        os.kill(pid, signal.SIGKILL)
    _, status, used = os.wait4(pid, 0)
    left = True
    try:
        os.killpg(pid, signal.SIGKILL)
    except ProcessLookupError:
        left = False
    own = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return {
        "code": os.waitstatus_to_exitcode(status),
        "hung": hung,
        "seconds": used.ru_utime + used.ru_stime,
        "wall": time.monotonic() - began,
        "bytes": 1024 * max(used.ru_maxrss - own, 0),
        "left": left,
    }


def _be_child(asked: dict[str, Any]) -> None:
    code = 1
    try:
        os.setsid()
        root = asked["root"]
        os.chdir(f"{root}/work")
        for number, name in enumerate((os.devnull, f"{root}/out", f"{root}/err")):
            handle = os.open(name, os.O_RDONLY if number == 0 else os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o666)
            os.dup2(handle, number)
            os.close(handle)
        told = os.open(f"{root}/told", os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND)
        sys.stdin, sys.stdout, sys.stderr = (os.fdopen(n, "w" if n else "r", closefd=False) for n in range(3))
        sys.stderr.reconfigure(errors="backslashreplace", line_buffering=True)  # as the interpreter's own is
        sys.argv = ["unmask", *asked["words"]]
        os.environ |= {"HOME": f"{root}/home", "TMPDIR": f"{root}/tmp", "COLUMNS": "80"} | asked["environment"]
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))
        taken = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (taken + ROOM, taken + ROOM))
        from unmask.cli.main import main as command
        from unmask.experiments import run

        if any(asked["words"][: len(words)] == words for words in LONG):
            run._driven = _unmeasured
        watching.watch(root, told)
        code = command(asked["words"])
        sys.stdout.flush()
        sys.stderr.flush()
        watching.check_modules(root, told)
    except SystemExit as stop:
        code = stop.code if isinstance(stop.code, int) else 1
    except BaseException:
        import traceback

        traceback.print_exc()
    finally:
        os._exit(code)


if __name__ == "__main__":
    main()
