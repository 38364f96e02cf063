"""Processes that measure jobs: this one, workers of this machine that may die and hang, or tasks of Ray.

Each worker is a pool of one process of its own (pebble). Workers of one pool would share a pipe and its locks: one that
is killed while it holds them stops all. A worker leads a session with all of its children; a guard, which is one of
them, ends that session once the worker or the driver is gone.
"""

from __future__ import annotations

import os
import select
import signal
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from functools import partial
from multiprocessing import parent_process, resource_tracker
from multiprocessing.context import SpawnContext, SpawnProcess
from pathlib import Path
from threading import Lock, Thread
from types import ModuleType
from typing import Any

from pebble import ProcessExpired, ProcessPool

from unmask.core.errors import UnmaskError
from unmask.core.registry import Allowed, imports_allowed
from unmask.experiments.jobs.cells import Block
from unmask.experiments.jobs.database import check_own
from unmask.experiments.jobs.store import FILES
from unmask.experiments.jobs.work import Answer, attempt

LOG = "workers.log"
FAILED_STARTS = 3  # workers in a row that end before their first block
LOOK = 0.1  # seconds between two looks of a guard at its worker
PATIENCE = 5.0  # seconds in which a pool ends
GRACE = 1.0  # seconds in which the pool reports a worker that has died
_lock = Lock()

Answers = list[tuple[Block, Answer]]


Make = Callable[[], tuple[Any, Any]]
"""Starts a process as a pool of pebble is: schedule(function, arguments, timeout), active, stop(), join(); and the two
numbers that it reports: the index of a block plus the fraction of it that is done, and the number of the process."""


class Pool:
    """Slots that measure one job at a time, each in a process that is replaced once it dies or hangs.

    make: starts the process of a slot. limit: seconds of a job.
    """

    def __init__(
        self, directory: Path, slots: int, limit: float | None, make: Make, end: Callable[[], None] = lambda: None
    ) -> None:
        self.files = directory.resolve() / FILES
        self.slots = [Slot(make, limit) for _ in range(slots)]
        self.end = end
        self.failed_starts = 0
        self.show: Callable[[], None] = lambda: None  # draws the progress of a job that runs in this process

    @property
    def free(self) -> list[Slot]:
        return [slot for slot in self.slots if not slot.job]

    @property
    def progress(self) -> float:
        """The cost of what is done of the jobs under way."""
        return sum(slot.progress for slot in self.slots if slot.job)

    def start(self, job: Sequence[Block]) -> None:
        self.free[0].start(job, self.files)

    def wait(self, timeout: float) -> Answers:
        """The answers of the jobs that have ended, after at most so many seconds."""
        wait([slot.future for slot in self.slots if slot.job], timeout, FIRST_COMPLETED)
        answers: Answers = []
        for slot in self.slots:
            if slot.job and (slot.future.done() or slot.dead):
                answers += slot.answers()
                self.failed_starts = self.failed_starts + 1 if slot.failed_to_start else 0
        if self.failed_starts >= FAILED_STARTS:
            raise UnmaskError(f"{self.failed_starts} workers in a row ended before their first block; see {LOG}")
        return answers

    def stop(self) -> None:
        """End at once."""
        for thread in [slot.end() for slot in self.slots]:
            thread.join(PATIENCE)
        self.end()


class Slot:
    """One job at a time, in a process that is replaced once it dies or hangs."""

    def __init__(self, make: Make, limit: float | None) -> None:
        self.make, self.limit = make, limit
        self.process: Any = None
        self.state: Any = [0.0, 0.0]
        self.job: Sequence[Block] = ()
        self.future: Future[list[Answer]] = Future()
        self.failed_to_start = False

    @property
    def progress(self) -> float:
        """The cost of what is done of its job."""
        at, _ = self._report
        index = min(int(at), len(self.job) - 1)
        return sum(block.cost for block in self.job[:index]) + self.job[index].cost * min(at - index, 1.0)

    @property
    def _report(self) -> tuple[float, int]:
        """What the process reports, 0 for a number out of range: a metric can write into it."""
        at, pid = (number if 0 <= number < 2**31 else 0.0 for number in self.state)
        return at, int(pid)

    @property
    def dead(self) -> bool:
        """Whether the worker has ended and its pool will not report it: with exit code 0, or before it took the job."""
        _, pid = self._report
        try:
            if pid:
                os.kill(pid, 0)
            ended = not self.process.active
        except (ProcessLookupError, PermissionError):
            ended = True
        return ended and not wait([self.future], GRACE).done

    def start(self, job: Sequence[Block], files: Path) -> None:
        self.job, self.future = job, Future()
        try:
            if self.process is None:
                self.process, self.state = self.make()
            self.state[:] = [0.0, 0.0]
            self.future = self.process.schedule(run_job, (job, files, imports_allowed()), timeout=self.limit)
        except (BrokenProcessPool, RuntimeError) as error:  # it has died without a job, or cannot start
            self.future.set_exception(BrokenProcessPool(str(error)))

    def answers(self) -> Answers:
        """The answers of the job. Where it was lost, that is the answer of the block that was running; the others, or
        all where it is not known, are measured again, each alone."""
        job, self.job, self.failed_to_start = self.job, (), False
        at, pid = self._report
        running = 0 if len(job) == 1 else int(at) if pid else None
        try:
            if not self.future.done():
                raise ProcessExpired("", 0) if pid else BrokenProcessPool
            return list(zip(job, self.future.result(), strict=True))
        except TimeoutError:
            running = None if len(job) > 1 else running  # together they took too long
            lost = Answer(error=f"it took more than the limit of {self.limit:g} s and was stopped")
        except ProcessExpired as error:
            lost = Answer(error=_death(error.exitcode), lost=True)
        except BrokenProcessPool:  # before the job had begun
            self.failed_to_start, lost = True, Answer(lost=True)
        except Exception as error:
            lost = Answer(error=f"its process has answered with {type(error).__name__}; see {LOG}")
        self.end()
        return [(block, lost if index == running else Answer(lost=True)) for index, block in enumerate(job)]

    def end(self) -> Thread:
        """Stop the process, in a thread: one that has written nonsense into its pipe makes its pool wait forever."""
        process, self.process = self.process or _Here(), None
        process.stop()
        thread = Thread(target=process.join, daemon=True)
        thread.start()
        return thread


def here(directory: Path) -> Pool:
    """This process, which knows the samplers that a notebook has registered, and which nothing protects."""
    state = [0.0, 0.0]
    pool = Pool(directory, 1, None, lambda: (_Here(state, lambda: pool.show()), state))
    return pool


def local(directory: Path, workers: int | None, threads: int | None, limit: float | None) -> Pool:
    """Worker processes of this machine."""
    log, slots = directory.resolve() / LOG, workers or cores()
    if os.path.lexists(log):
        check_own(log)  # a pipe would wait for a reader
    context, variables = SpawnContext(), environment(threads or max(cores() // slots, 1))
    context.Process = partial(_Process, variables)  # type: ignore[assignment,misc]
    with _starting(variables):
        resource_tracker.ensure_running()

    def make() -> tuple[ProcessPool, Any]:
        state = context.RawArray("d", 2)
        return ProcessPool(1, initializer=_prepare, initargs=(str(log), state), context=context), state

    return Pool(directory, slots, limit, make)


def cores() -> int:
    """The cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def environment(threads: int) -> dict[str, str]:
    """The variables of a worker.

    UNMASK_THREADS divides rows among threads, which changes no number. torch has one thread in each worker, because its
    threads wait for each other in a loop, and because sums over several threads depend on how many there are.
    """
    single = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS")
    paths = os.pathsep.join(path for path in sys.path if path)
    own = {"UNMASK_THREADS": str(threads), "PYTHONPATH": paths, "PYTHONSAFEPATH": "1"}
    return dict.fromkeys(single, "1") | own


class _Here:
    active = True

    def __init__(self, state: Any = None, show: Callable[[], None] = lambda: None) -> None:
        self.state, self.show = state, show

    def schedule(self, function: object, args: tuple[Sequence[Block], Path, Allowed], *, timeout: object) -> Any:
        from unmask.core.threads import torch_threads  # here, since a worker imports torch only for a metric

        future, (job, files, allowed) = Future[list[Answer]](), args
        with torch_threads(1):  # as in a worker, for the same numbers
            future.set_result([attempt(block, files, allowed, partial(self._tell, i)) for i, block in enumerate(job)])
        return future

    def _tell(self, index: int, fraction: float) -> None:
        self.state[0] = index + fraction
        self.show()

    def stop(self) -> None:
        """Nothing runs."""

    join = stop


class _Process(SpawnProcess):
    """Starts with variables of its own and without the program's own module: a script that starts a sweep needs no
    `if __name__ == "__main__"`."""

    def __init__(self, variables: Mapping[str, str], *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.variables = variables

    def start(self) -> None:
        with _starting(self.variables):
            super().start()


@contextmanager
def _starting(variables: Mapping[str, str]) -> Iterator[None]:
    with _lock:
        main, before = sys.modules["__main__"], {name: os.environ.get(name) for name in variables}
        sys.modules["__main__"] = ModuleType("__main__")
        os.environ.update(variables)
        try:
            yield
        finally:
            sys.modules["__main__"] = main
            for name, value in before.items():
                os.environ.pop(name) if value is None else os.environ.update({name: value})


# In a worker.

_state: Any = [0.0, 0.0]


def _prepare(log: str, state: Any) -> None:
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
    """What a worker, or a task of Ray, does."""
    answers = []
    for index, block in enumerate(job):
        _tell(index, 0.0)
        _state[1] = os.getpid()
        try:
            answers.append(attempt(block, files, allowed, partial(_tell, index)))
        except BaseException as error:  # a KeyboardInterrupt that the metric itself has raised
            answers.append(Answer(error=f"it has raised {type(error).__name__}"))
    _tell(len(job), 0.0)
    return answers


def _tell(index: int, fraction: float) -> None:
    _state[0] = index + fraction


def _death(code: int) -> str:
    if code == -signal.SIGKILL:
        return "its process was killed (SIGKILL): most often because memory had run out"
    if code < 0:
        return f"its process was ended by {signal.Signals(-code).name}; see {LOG}"
    return f"its process ended with exit code {code}; see {LOG}"
