"""A worker: a process that measures what it is told, one JSON line a job, and answers on a pipe of its own.

    in     {"files": directory, "blocks": [[key, spec, whole, needed], ...]}
    out    {"ready": pid}, then for each block {"begin": number}, {"share": done of it} now and then, and
           {"done": number, "kind": .., "found": ..}

It ends with its driver: where the pipe that it is told by closes, it stops in the middle of whatever it does. What it
prints goes to a log file, and its results nowhere else, so that a chatty metric spoils nothing.
"""

from __future__ import annotations

import json
import os
import queue
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

from unmask.experiments.jobs.attempt import attempt


def serve(orders: BinaryIO, answers: int) -> None:
    def answer(**content: Any) -> None:
        rest = memoryview(json.dumps(content).encode() + b"\n")
        while rest:
            rest = rest[os.write(answers, rest) :]

    answer(ready=os.getpid())
    for job in _lines(orders):
        files = Path(job["files"])
        for number, given in enumerate(job["blocks"]):
            answer(begin=number)
            answer(done=number, **attempt(given, files, lambda share: answer(share=share)))


def _lines(orders: BinaryIO) -> Iterator[Any]:
    """Jobs as they come; a thread reads them, so that the end of the driver is noticed during a job."""
    waiting: queue.SimpleQueue[Any] = queue.SimpleQueue()

    def read() -> None:
        for line in orders:
            waiting.put(json.loads(line))
        os._exit(0)

    threading.Thread(target=read, daemon=True).start()
    while True:
        yield waiting.get()


if __name__ == "__main__":
    serve(sys.stdin.buffer, int(sys.argv[1]))
