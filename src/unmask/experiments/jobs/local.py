"""The local engine: a few processes of this machine, each at one job, started afresh where one dies or hangs.

They are programs of their own and not forks, which would inherit the locks of threads that they do not have.
"""

from __future__ import annotations

import json
import os
import selectors
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Collection, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from unmask.core.errors import UnmaskError
from unmask.experiments.jobs.attempt import ordered
from unmask.experiments.jobs.cells import Block
from unmask.experiments.jobs.engines import Outcome, Tell, cores, environment, nobody
from unmask.experiments.jobs.store import FILES

START_ATTEMPTS = 3  # workers in a row that end before they can be told anything
LOG = "workers.log"
TAIL = 400  # characters of the log that an error shows


class Worker:
    """A process and what it is doing."""

    def __init__(self, log: Path, files: Path, threads: int, tell: Tell) -> None:
        self.files, self.tell = files, tell
        self.answers, theirs = os.pipe()
        os.set_blocking(self.answers, False)
        try:
            with log.open("ab") as out:
                self.process = subprocess.Popen(
                    [sys.executable, "-m", "unmask.experiments.jobs.worker", str(theirs)],
                    stdin=subprocess.PIPE,
                    stdout=out,
                    stderr=out,
                    pass_fds=(theirs,),
                    env=os.environ | environment(threads),
                    start_new_session=True,  # a Ctrl-C is for the driver alone
                )
        finally:
            os.close(theirs)
        self.name = f"{socket.gethostname()}/{self.process.pid}"
        self.ready = False
        self.rest = b""
        self.job: list[Block] = []
        self.reported = 0  # blocks of the job that are answered
        self.began: float | None = None  # when the next one was begun, if it has been

    def give(self, job: Sequence[Block]) -> None:
        self.job, self.reported, self.began = list(job), 0, None
        line = json.dumps({"files": str(self.files), "blocks": [ordered(block) for block in job]}).encode() + b"\n"
        assert self.process.stdin is not None
        with suppress(BrokenPipeError):  # it has died: its other pipe will say so
            self.process.stdin.write(line)
            self.process.stdin.flush()

    def read(self) -> tuple[list[Outcome], bool]:
        """(what it has answered, whether it is still there)."""
        alive = True
        while True:
            try:
                piece = os.read(self.answers, 1 << 16)
            except BlockingIOError:
                break
            if not piece:
                alive = False
                break
            self.rest += piece
        *lines, self.rest = self.rest.split(b"\n")
        return [outcome for line in lines if (outcome := self._take(json.loads(line)))], alive

    def _take(self, message: dict[str, Any]) -> Outcome | None:
        if "ready" in message:
            self.ready = True
        elif "begin" in message:
            self.began = time.monotonic()
        elif "share" in message:
            self.tell(self.job[self.reported], message["share"])
        else:
            block = self.job[message["done"]]
            self.reported, self.began = message["done"] + 1, None
            if self.reported == len(self.job):
                self.job, self.reported = [], 0
            return Outcome.of(block, message)
        return None

    def end(self, kind: str | None = None, error: str = "") -> list[Outcome]:
        """Kill what is left of it; the outcomes of what it had not answered, the one it was at being `kind`."""
        with suppress(ProcessLookupError):
            self.process.kill()
        code = self.process.wait()
        os.close(self.answers)
        assert self.process.stdin is not None
        with suppress(BrokenPipeError):
            self.process.stdin.close()
        left = self.job[self.reported :]
        seconds = 0.0 if self.began is None else time.monotonic() - self.began
        found = [Outcome(block, "unbegun") for block in left]
        if left and self.began is not None:
            said = error or _death(code)
            found[0] = Outcome(left[0], "hung" if kind == "hung" else "killed", error=said, seconds=seconds)
        return found


class Local:
    """workers: how many processes; threads: of each; limit: seconds that a block may take."""

    name = "local"
    reports_each = True

    def __init__(
        self, directory: Path, workers: int | None = None, threads: int | None = None, limit: float | None = None
    ) -> None:
        self.seats = cores() if workers is None else workers
        self.threads = threads or max(cores() // self.seats, 1)
        self.limit = limit
        self.log = directory / LOG
        self.files = directory.resolve() / FILES
        self.tell: Tell = nobody
        self.workers: dict[str, Worker] = {}
        self.selector = selectors.DefaultSelector()
        self.stillborn = 0

    def seat(self, taken: Collection[str] = ()) -> str | None:
        for name, worker in self.workers.items():
            if not worker.job and name not in taken:
                return name
        return self._start() if len(self.workers) < self.seats else None

    def give(self, seat: str, job: Sequence[Block]) -> None:
        self.workers[seat].give(job)

    def wait(self, timeout: float) -> list[Outcome]:
        found: list[Outcome] = []
        if self.limit is not None:
            ends = [worker.began + self.limit for worker in self.workers.values() if worker.began is not None]
            timeout = max(min([timeout, *(end - time.monotonic() for end in ends)]), 0.0)
        for key, _ in self.selector.select(timeout):
            worker: Worker = key.data
            answered, alive = worker.read()
            found += answered
            if not alive:
                self._forget(worker)
                found += worker.end()
                self._count(worker)
        if self.limit is not None:
            for worker in list(self.workers.values()):
                if worker.began is not None and time.monotonic() - worker.began >= self.limit:
                    self._forget(worker)
                    found += worker.end("hung", f"it took more than the limit of {self.limit:g} s and was stopped")
        return found

    def stop(self) -> None:
        for worker in list(self.workers.values()):
            self._forget(worker)
            worker.end()
        self.selector.close()

    def _start(self) -> str:
        worker = Worker(self.log, self.files, self.threads, self.tell)
        self.workers[worker.name] = worker
        self.selector.register(worker.answers, selectors.EVENT_READ, worker)
        return worker.name

    def _forget(self, worker: Worker) -> None:
        self.selector.unregister(worker.answers)
        del self.workers[worker.name]

    def _count(self, worker: Worker) -> None:
        """A program that cannot even start will not the next time."""
        self.stillborn = 0 if worker.ready else self.stillborn + 1
        if self.stillborn >= START_ATTEMPTS:
            said = self.log.read_text(errors="replace")[-TAIL:].strip()
            raise UnmaskError(f"{self.stillborn} workers ended before they had begun; {self.log} ends with: {said}")


def _death(code: int) -> str:
    if code == -signal.SIGKILL:
        return "its process was killed (SIGKILL): most often because memory had run out"
    if code < 0:
        return f"its process was ended by {signal.Signals(-code).name}; see {LOG}"
    return f"its process ended with exit code {code}; see {LOG}"
