"""Where blocks are measured: in this process, or in worker processes that may die and hang.

Each worker is a pool of one process of its own (pebble). A pool of several would share one pipe and its locks among
them: a worker that is killed while it holds these stops all. It leads a session in which all of its children are; a
guard, which is one of them, ends that session once the worker or the driver is gone.
"""

from __future__ import annotations

import os
import select
import signal
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, CancelledError, Future, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from multiprocessing import parent_process, resource_tracker
from multiprocessing.context import SpawnContext, SpawnProcess
from pathlib import Path
from time import monotonic
from types import ModuleType
from typing import Any, Protocol

from pebble import ProcessExpired, ProcessPool

from unmask.core.errors import UnmaskError
from unmask.core.registry import Allowed, imports_allowed
from unmask.experiments.jobs.cells import Block
from unmask.experiments.jobs.database import check_own
from unmask.experiments.jobs.store import FILES
from unmask.experiments.jobs.work import Answer, attempt

LOG = "workers.log"
TAIL = 400  # characters of the log in an error
FAILED_STARTS = 3  # workers in a row that end before their first block
HERE_SECONDS = 0.05  # answers of so many seconds come together from this process
LOOK = 0.1  # seconds between two looks of a guard at its worker
_starting = threading.Lock()

Answers = list[tuple[Block, Answer]]


class Pool(Protocol):
    """Takes jobs of one or several blocks, and answers each block once, in any order."""

    slots: int  # jobs at a time
    show: Callable[[], None]  # is called where progress comes while `wait` waits

    def free(self) -> int:
        """How many jobs may be started now."""

    def start(self, job: Sequence[Block]) -> None:
        """Measure blocks one after another."""

    def wait(self, timeout: float) -> Answers:
        """The answers since then, after at most so many seconds."""

    def progress(self) -> float:
        """The cost of what is done of the jobs under way."""

    def stop(self) -> None:
        """End at once."""


class Here:
    """Measures in this process, which knows the samplers that a notebook has registered; nothing protects it."""

    slots = 1

    def __init__(self, directory: Path) -> None:
        self.files = directory.resolve() / FILES
        self.job: deque[Block] = deque()
        self.done = 0.0
        self.show: Callable[[], None] = lambda: None

    def free(self) -> int:
        return 0 if self.job else 1

    def start(self, job: Sequence[Block]) -> None:
        self.job.extend(job)

    def wait(self, timeout: float) -> Answers:
        from unmask.core.threads import torch_threads  # here, since no worker needs it

        answers: Answers = []
        end = monotonic() + HERE_SECONDS
        with torch_threads(1):  # as in a worker, for the same numbers
            while self.job and (not answers or monotonic() < end):
                block = self.job.popleft()
                answers.append((block, attempt(block, self.files, imports_allowed(), lambda f, b=block: self._tell(b, f))))
        self.done = 0.0
        return answers

    def _tell(self, block: Block, fraction: float) -> None:
        self.done = block.cost * fraction
        self.show()

    def progress(self) -> float:
        return self.done

    def stop(self) -> None:
        self.job.clear()


class Local:
    """Worker processes of this machine. threads: of each; limit: seconds that a job may take."""

    def __init__(
        self, directory: Path, workers: int | None = None, threads: int | None = None, limit: float | None = None
    ) -> None:
        self.slots = workers or cores()
        self.limit, self.log, self.files = limit, directory.resolve() / LOG, directory.resolve() / FILES
        self.context = Context(environment(threads or max(cores() // self.slots, 1)))
        self.workers: list[Worker] = []
        self.failed_starts = 0
        self.show: Callable[[], None] = lambda: None
        if os.path.lexists(self.log):
            check_own(self.log)  # a pipe would wait for a reader

    def free(self) -> int:
        return self.slots - sum(bool(worker.job) for worker in self.workers)

    def start(self, job: Sequence[Block]) -> None:
        worker = next((worker for worker in self.workers if not worker.job), None)
        if worker is None:
            worker = Worker(self.context, self.log)
            self.workers.append(worker)
        worker.start(job, self.files, self.limit)

    def wait(self, timeout: float) -> Answers:
        wait([worker.future for worker in self.workers if worker.job], timeout, FIRST_COMPLETED)
        answers: Answers = []
        for worker in self.workers:
            if worker.job and worker.future.done():
                answers += worker.answers(self.limit)
                self.failed_starts = self.failed_starts + 1 if worker.failed_to_start else 0
        if self.failed_starts >= FAILED_STARTS:
            tail = self.log.read_text(errors="replace")[-TAIL:].strip() if self.log.exists() else ""
            raise UnmaskError(f"{self.failed_starts} workers ended before their first block; {self.log}: {tail}")
        return answers

    def progress(self) -> float:
        return sum(worker.progress() for worker in self.workers if worker.job)

    def stop(self) -> None:
        for worker in self.workers:
            worker.pool.stop()
        for worker in self.workers:
            worker.pool.join()
        self.workers.clear()


class Worker:
    """A process that measures one job at a time, and is replaced once it dies or hangs."""

    def __init__(self, context: Context, log: Path) -> None:
        self.context, self.log = context, log
        self.state = context.RawArray("d", 1)  # the index of a block of the job, and the fraction of it that is done
        self.job: Sequence[Block] = ()
        self.future: Future[list[Answer]] = Future()
        self.failed_to_start = False
        self.pool = self._pool()

    def _pool(self) -> ProcessPool:
        return ProcessPool(1, initializer=prepare, initargs=(str(self.log), self.state), context=self.context)

    def start(self, job: Sequence[Block], files: Path, limit: float | None) -> None:
        self.job, self.state[0] = job, 0.0
        try:
            self.future = self.pool.schedule(run_job, (job, files, imports_allowed()), timeout=limit)
        except (BrokenProcessPool, RuntimeError) as error:  # its process has died without a job, or cannot start
            self.future = Future()
            self.future.set_exception(BrokenProcessPool(str(error)))

    def answers(self, limit: float | None) -> Answers:
        """What has come of the job. A job of several blocks that has come to nothing is measured block by block."""
        job, self.job, self.failed_to_start = self.job, (), False
        try:
            return list(zip(job, self.future.result(), strict=True))
        except TimeoutError:
            lost = Answer(error=f"it took more than the limit of {limit:g} s and was stopped", seconds=limit or 0.0)
        except ProcessExpired as error:
            lost = Answer(error=_death(error.exitcode), lost=True)
        except (BrokenProcessPool, CancelledError):  # before the job had begun
            self.failed_to_start, lost = True, Answer(lost=True)
        except Exception as error:  # an answer that is none
            lost = Answer(error=f"its process has answered with {type(error).__name__}; see {LOG}")
        self.pool.stop()
        self.pool.join()
        self.pool = self._pool()
        return [(block, lost if len(job) == 1 else Answer(lost=True)) for block in job]

    def progress(self) -> float:
        index = min(int(self.state[0]), len(self.job) - 1)
        done = sum(block.cost for block in self.job[:index])
        return float(done + self.job[index].cost * min(self.state[0] - index, 1.0))


class Context(SpawnContext):
    """Starts processes with variables of their own and without the program's own module, which may be a script that
    starts sweeps: it needs no `if __name__ == "__main__"`."""

    def __init__(self, variables: Mapping[str, str]) -> None:
        super().__init__()
        self.variables = variables
        with self.starting():
            resource_tracker.ensure_running()

    def Process(self, *args: Any, **options: Any) -> SpawnProcess:  # type: ignore[override]
        return _Process(self, *args, **options)

    @contextmanager
    def starting(self) -> Iterator[None]:
        with _starting:
            main, before = sys.modules["__main__"], {name: os.environ.get(name) for name in self.variables}
            sys.modules["__main__"] = ModuleType("__main__")
            os.environ.update(self.variables)
            try:
                yield
            finally:
                sys.modules["__main__"] = main
                for name, value in before.items():
                    os.environ.pop(name) if value is None else os.environ.update({name: value})


class _Process(SpawnProcess):
    def __init__(self, context: Context, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.starting = context.starting

    def start(self) -> None:
        with self.starting():
            del self.starting  # which no other process can have
            super().start()


def cores() -> int:
    """The cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def environment(threads: int) -> dict[str, str]:
    """The variables of a process that measures beside others.

    UNMASK_THREADS divides rows among threads, which changes no number. torch has one thread in each, because its
    threads wait for each other in a loop, and because sums over several threads depend on how many there are.
    """
    single = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS")
    paths = os.pathsep.join(path for path in sys.path if path)
    own = {"UNMASK_THREADS": str(threads), "PYTHONPATH": paths, "PYTHONSAFEPATH": "1"}
    return dict.fromkeys(single, "1") | own


# In a worker.

_state: Any = [0.0]


def prepare(log: str, state: Any) -> None:
    """Lead a session of its own, which a Ctrl-C does not reach, and print to the log."""
    global _state
    _state = state
    os.setsid()
    signal.signal(signal.SIGTERM, signal.SIG_DFL)  # at once, also inside of a kernel
    handle = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
    for standard in (1, 2):
        os.dup2(handle, standard)
    os.close(handle)
    worker = os.getpid()
    if os.fork() == 0:
        _guard(worker)


def _guard(worker: int) -> None:
    """End the session once the worker or the driver is gone."""
    driver = parent_process()
    assert driver is not None
    os.closerange(3, driver.sentinel)
    os.closerange(driver.sentinel + 1, 2**12)
    while os.getppid() == worker and not select.select([driver.sentinel], [], [], LOOK)[0]:
        pass
    os.killpg(0, signal.SIGKILL)


def run_job(job: Sequence[Block], files: Path, allowed: Allowed) -> list[Answer]:
    """What a worker is asked for."""
    answers = []
    for index, block in enumerate(job):
        _tell(index)
        try:
            answers.append(attempt(block, files, allowed, lambda fraction, index=index: _tell(index + fraction)))
        except BaseException as error:  # a KeyboardInterrupt that the metric itself has raised
            answers.append(Answer(error=f"it has raised {type(error).__name__}"))
    return answers


def _tell(done: float) -> None:
    _state[0] = done


def _death(code: int) -> str:
    if code == -signal.SIGKILL:
        return "its process was killed (SIGKILL): most often because memory had run out"
    if code < 0:
        return f"its process was ended by {signal.Signals(-code).name}; see {LOG}"
    return f"its process ended with exit code {code}; see {LOG}"
