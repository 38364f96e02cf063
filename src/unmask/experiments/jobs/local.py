"""The local engine: a few processes of this machine, each at one job, started afresh where one dies or hangs.

They are programs of their own and not forks, which would inherit the locks of threads that they do not have.
"""

from __future__ import annotations

import base64
import json
import math
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
from typing import Literal

import msgspec

from unmask.core.errors import UnmaskError
from unmask.experiments.jobs.attempt import LARGEST, LARGEST_FILES, ordered
from unmask.experiments.jobs.cells import Block
from unmask.experiments.jobs.engines import Kind, Outcome, Tell, cores, environment, nobody
from unmask.experiments.jobs.opening import check_own
from unmask.experiments.jobs.store import FILES
from unmask.experiments.jobs.worker import CUT_OFF
from unmask.experiments.measures.catalogue import Plain, Tally

START_ATTEMPTS = 3  # workers in a row that end before they can be told anything
LOG = "workers.log"
TAIL = 400  # characters of the log that an error shows
PIECE, PIECES = 2**20, 64  # bytes that are read at once, and how often before somebody else is heard
LONGEST = 2 * (LARGEST + LARGEST_FILES)  # bytes of an answer
DYING = 1.0  # seconds from the end of what a process says to its own


class Message(msgspec.Struct, forbid_unknown_fields=True):
    """What a worker says (worker.py)."""

    ready: int | None = None
    begin: int | None = None
    share: float | None = None
    done: int | None = None
    kind: Literal["records", "tally", "raised"] = "raised"
    found: list[dict[str, Plain]] | Tally | None = None
    files: dict[str, str] = {}
    error: str = ""
    seconds: float = 0.0


class Worker:
    """A process, in a session of its own with all that it starts, and what it is doing."""

    def __init__(self, log: Path, files: Path, threads: int, tell: Tell) -> None:
        self.files, self.tell = files, tell
        self.line, theirs = socket.socketpair()
        with log.open("ab") as out, theirs:
            self.process = subprocess.Popen(
                [sys.executable, "-P", "-m", "unmask.experiments.jobs.worker", str(theirs.fileno())],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                pass_fds=(theirs.fileno(),),
                env=os.environ | environment(threads),
                start_new_session=True,  # a Ctrl-C is for the driver alone
            )
        self.name = f"{socket.gethostname()}/{self.process.pid}"
        self.ready = False
        self.rest = bytearray()
        self.job: list[Block] = []
        self.reported = 0  # blocks of the job that are answered
        self.began: float | None = None  # when the next one was begun, if it has been

    def give(self, job: Sequence[Block]) -> None:
        self.job, self.reported, self.began = list(job), 0, None
        line = json.dumps({"files": str(self.files), "blocks": [ordered(block) for block in job]}).encode() + b"\n"
        with suppress(OSError):  # it has died: the other direction will say so
            self.line.sendall(line)

    def died(self) -> bool:
        """Whether its process has, which what it has forked may hide: that holds its socket open. It is not yet reaped,
        so that nobody else has its number before what is left of its session is ended."""
        return os.waitid(os.P_PID, self.process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None

    @property
    def seconds(self) -> float:
        """Since it has begun the block that it is at."""
        return 0.0 if self.began is None else time.monotonic() - self.began

    def read(self) -> tuple[list[Outcome], bool]:
        """(what it has answered, whether more can come). ValueError: what has come is no answer."""
        found: list[Outcome] = []
        for _ in range(PIECES):
            try:
                piece = self.line.recv(PIECE, socket.MSG_DONTWAIT)
            except BlockingIOError:
                break
            except OSError:
                piece = b""
            if not piece:
                return found, False
            self.rest += piece
            if b"\n" in piece:
                *lines, self.rest = self.rest.split(b"\n")
                found += [outcome for line in lines if (outcome := self._take(bytes(line)))]
            elif len(self.rest) > LONGEST:
                raise ValueError
        return found, True

    def _take(self, line: bytes) -> Outcome | None:
        message = msgspec.json.decode(line, type=Message)
        if message.ready is not None:
            self.ready = True
        elif self.reported == len(self.job):
            raise ValueError  # it was not asked
        elif message.begin is not None:
            self.began = time.monotonic()
        elif message.share is not None:
            self.tell(self.job[self.reported], min(max(message.share, 0.0), 1.0))
        elif message.done == self.reported:
            block = self.job[self.reported]
            self.reported, self.began = self.reported + 1, None
            if self.reported == len(self.job):
                self.job, self.reported = [], 0
            files = {name: base64.b64decode(content) for name, content in message.files.items()}
            return Outcome(block, message.kind, message.found, message.error, message.seconds, files)
        else:
            raise ValueError
        return None

    def end(self, kind: Kind = "killed", error: str = "") -> list[Outcome]:
        """End what is left of it; the outcomes of what it had not answered, the one it was at being `kind`. Without an
        error it is ending by itself, and says why."""
        end = time.monotonic() + (0.0 if error else DYING)
        while not self.died() and time.monotonic() < end:
            time.sleep(0.01)
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process.pid, signal.SIGKILL)
        code = self.process.wait()
        self.line.close()
        left = self.job[self.reported :]
        seconds = self.seconds
        found = [Outcome(block, "unbegun") for block in left]
        if left and self.began is not None:
            found[0] = Outcome(left[0], kind, error=error or _death(code), seconds=seconds)
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
        if os.path.lexists(self.log):
            check_own(self.log)  # a pipe would wait for a reader
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
        said = {key.data for key, _ in self.selector.select(timeout)}
        for worker in list(self.workers.values()):
            died = worker.died()
            if worker in said or died:
                found += self._heard(worker, died)
            if worker.name in self.workers and worker.seconds > (self.limit or math.inf):
                self._forget(worker)
                found += worker.end("hung", f"it took more than the limit of {self.limit:g} s and was stopped")
        return found

    def _heard(self, worker: Worker, died: bool) -> list[Outcome]:
        """What has come of a worker that has said something, or has died."""
        try:
            found, more = worker.read()
        except (ValueError, msgspec.DecodeError):  # binascii.Error is a ValueError, too
            self._forget(worker)
            return worker.end("raised", f"something else than its answer has come from its process; see {LOG}")
        if died or not more:
            self._forget(worker)
            found += worker.end()
            self._count(worker)
        return found

    def stop(self) -> None:
        for worker in list(self.workers.values()):
            self._forget(worker)
            worker.end(error="the driver has ended")
        self.selector.close()

    def _start(self) -> str:
        worker = Worker(self.log, self.files, self.threads, self.tell)
        self.workers[worker.name] = worker
        self.selector.register(worker.line, selectors.EVENT_READ, worker)
        return worker.name

    def _forget(self, worker: Worker) -> None:
        self.selector.unregister(worker.line)
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
    if code == CUT_OFF:
        return "it has closed the socket of its process, and cannot answer"
    return f"its process ended with exit code {code}; see {LOG}"
