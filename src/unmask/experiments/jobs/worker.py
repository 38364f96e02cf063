"""A worker: a process that measures what it is told, one JSON line a job, and answers by the same socket.

    in     {"files": directory, "blocks": [task, ...]}, tasks as attempt.py has them
    out    {"ready": pid}, then for each block {"begin": number}, {"share": done of it} now and then, and
           {"done": number, "kind": .., "found": ..}

It ends with its driver, and all that it has started with it: where the socket closes, it stops in the middle of
whatever it does; Linux wakes it for that if it is stopped. What is printed in it goes to a log file, nothing is to be
read on its stdin, and the socket has a number that nobody else comes to have: a chatty metric spoils nothing.
"""

from __future__ import annotations

import fcntl
import json
import os
import queue
import signal
import socket
import sys
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn

from unmask.experiments.jobs.attempt import attempt

ASIDE = 200  # the least number of the socket, where files that a metric opens and closes do not come to stand
CUT_OFF = 70  # the exit code of a worker whose metric has closed its socket
PR_SET_PDEATHSIG = 1  # of prctl(2)


def serve(line: socket.socket) -> None:
    me = os.getpid()

    def answer(**content: Any) -> None:
        if os.getpid() != me:  # what a metric has forked has come back from it
            os._exit(0)
        try:
            line.sendall(json.dumps(content).encode() + b"\n")
        except ConnectionError:
            _end()
        except OSError:  # the driver lives, and sees that
            os._exit(CUT_OFF)

    answer(ready=me)
    for job in _lines(line):
        files = Path(job["files"])
        for number, given in enumerate(job["blocks"]):
            answer(begin=number)
            try:
                came = attempt(given, files, lambda share: answer(share=share))
            except BaseException as error:  # a KeyboardInterrupt that nobody but the metric has made
                came = {"kind": "raised", "error": f"it has raised {type(error).__name__}", "seconds": 0.0}
            answer(done=number, **came)


def _lines(line: socket.socket) -> Iterator[Any]:
    """Jobs as they come; a thread reads them, so that the end of the driver is noticed during a job."""
    waiting: queue.SimpleQueue[Any] = queue.SimpleQueue()

    def read() -> None:
        with suppress(OSError):
            for text in line.makefile("rb"):
                waiting.put(json.loads(text))
        _end()

    threading.Thread(target=read, daemon=True).start()
    while True:
        yield waiting.get()


def _end() -> NoReturn:
    """The driver is gone: this process goes, with all that a metric has started here."""
    os.killpg(os.getpgid(0), signal.SIGKILL)
    os._exit(CUT_OFF)


def _woken_where_the_driver_dies() -> None:
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGCONT)


if __name__ == "__main__":
    _woken_where_the_driver_dies()
    given = int(sys.argv[1])
    aside = fcntl.fcntl(given, fcntl.F_DUPFD_CLOEXEC, ASIDE)
    os.close(given)
    serve(socket.socket(fileno=aside))
