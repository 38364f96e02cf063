"""Processes that measure batches of blocks: this process, local workers that may die or hang, or tasks of Ray.

Each worker is a separate pebble pool with one process: a common pipe would block every worker once one is killed while
it holds the lock. A worker leads a session with its children. A guard process in it kills the session once the worker
or the driver is gone.
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
from unmask.experiments.sweeps.cells import Block
from unmask.experiments.sweeps.database import check_own
from unmask.experiments.sweeps.store import FILES
from unmask.experiments.sweeps.work import Answer, attempt

LOG = "workers.log"
FAILED_STARTS = 3  # workers in a row that end before their first block
LOOK = 0.1  # seconds between two checks of a guard
PATIENCE = 5.0  # seconds for a pool to end
GRACE = 1.0  # seconds for a pool to report a dead worker
_lock = Lock()

Answers = list[tuple[Block, Answer]]
Make = Callable[[], tuple[Any, Any]]
"""Starts a process with the interface of a pebble pool: schedule(function, arguments, timeout), active, stop(), join().

It also returns the process's two reported numbers: index of the current block + its finished fraction, and the pid.
"""


class Pool:
    """Slots that measure one batch at a time. make: starts the process of a slot; limit: seconds for a batch."""

    def __init__(
        self, directory: Path, slots: int, limit: float | None, make: Make, end: Callable[[], None] = lambda: None
    ) -> None:
        self.files = directory.resolve() / FILES
        self.slots = [Slot(make, limit) for _ in range(slots)]
        self.end = end
        self.failed_starts = 0
        self.show: Callable[[], None] = lambda: None  # draws the progress of a batch in this process

    @property
    def free(self) -> list[Slot]:
        return [slot for slot in self.slots if not slot.batch]

    @property
    def progress(self) -> float:
        """The cost of the finished part of the running batches."""
        return sum(slot.progress for slot in self.slots if slot.batch)

    def start(self, batch: Sequence[Block]) -> None:
        self.free[0].start(batch, self.files)

    def wait(self, timeout: float) -> Answers:
        """The answers of finished batches; wait at most `timeout` seconds for one."""
        wait([slot.future for slot in self.slots if slot.batch], timeout, FIRST_COMPLETED)
        answers: Answers = []
        for slot in self.slots:
            if slot.batch and (slot.future.done() or slot.dead):
                answers += slot.answers()
                self.failed_starts = self.failed_starts + 1 if slot.failed_to_start else 0
        if self.failed_starts >= FAILED_STARTS:
            raise UnmaskError(f"{self.failed_starts} workers in a row ended before their first block; see {LOG}")
        return answers

    def stop(self) -> None:
        for thread in [slot.end() for slot in self.slots]:
            thread.join(PATIENCE)
        self.end()


class Slot:
    """One batch at a time, in a process that is replaced once it dies or hangs."""

    def __init__(self, make: Make, limit: float | None) -> None:
        self.make, self.limit = make, limit
        self.process: Any = None
        self.state: Any = [0.0, 0.0]
        self.batch: Sequence[Block] = ()
        self.future: Future[list[Answer]] = Future()
        self.failed_to_start = False

    @property
    def progress(self) -> float:
        """The cost of the finished part of its batch."""
        at, _ = self._report
        index = min(int(at), len(self.batch) - 1)
        return sum(block.cost for block in self.batch[:index]) + self.batch[index].cost * min(at - index, 1.0)

    @property
    def _report(self) -> tuple[float, int]:
        """The numbers from the process; 0 replaces a number out of range, since a job can write into them."""
        at, pid = (number if 0 <= number < 2**31 else 0.0 for number in self.state)
        return at, int(pid)

    @property
    def dead(self) -> bool:
        """Whether the worker ended unnoticed by its pool: with exit code 0, or before it took the batch."""
        _, pid = self._report
        try:
            if pid:
                os.kill(pid, 0)
            ended = not self.process.active
        except (ProcessLookupError, PermissionError):
            ended = True
        return ended and not wait([self.future], GRACE).done

    def start(self, batch: Sequence[Block], files: Path) -> None:
        self.batch, self.future = batch, Future()
        try:
            if self.process is None:
                self.process, self.state = self.make()
            self.state[:] = [0.0, 0.0]
            self.future = self.process.schedule(run_batch, (batch, files, imports_allowed()), timeout=self.limit)
        except (BrokenProcessPool, RuntimeError) as error:  # it died without a batch, or cannot start
            self.future.set_exception(BrokenProcessPool(str(error)))

    def answers(self) -> Answers:
        """The answers of the batch. If its process was lost, the running block gets that answer. The other blocks are
        measured again, each alone; all are if the running block is unknown."""
        batch, self.batch, self.failed_to_start = self.batch, (), False
        at, pid = self._report
        running = 0 if len(batch) == 1 else int(at) if pid else None
        try:
            if not self.future.done():
                raise ProcessExpired("", 0) if pid else BrokenProcessPool
            return list(zip(batch, self.future.result(), strict=True))
        except TimeoutError:
            running = None if len(batch) > 1 else running  # together they took too long
            lost = Answer(error=f"it took more than the limit of {self.limit:g} s and was stopped")
        except ProcessExpired as error:
            lost = Answer(error=_death(error.exitcode), lost=True)
        except BrokenProcessPool:  # before the batch began
            self.failed_to_start, lost = True, Answer(lost=True)
        except Exception as error:
            lost = Answer(error=f"its process answered with {type(error).__name__}; see {LOG}")
        self.end()
        return [(block, lost if index == running else Answer(lost=True)) for index, block in enumerate(batch)]

    def end(self) -> Thread:
        """Stop the process, in a thread: after garbage in its pipe the pool would wait forever."""
        process, self.process = self.process or _Here(), None
        process.stop()
        thread = Thread(target=process.join, daemon=True)
        thread.start()
        return thread


def here(directory: Path) -> Pool:
    """This process: it has the samplers that a notebook registered, and no protection."""
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
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def environment(threads: int) -> dict[str, str]:
    """The environment variables of a worker.

    UNMASK_THREADS divides rows among threads, which changes no result. torch has one thread in each worker: its threads
    wait for each other in a busy loop, and its sums depend on the number of threads.
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
        from unmask.core.threads import torch_threads  # here, since a worker imports torch only if a job needs it

        future, (batch, files, allowed) = Future[list[Answer]](), args
        with torch_threads(1):  # as in a worker, for the same numbers
            future.set_result([attempt(block, files, allowed, partial(self._tell, i)) for i, block in enumerate(batch)])
        return future

    def _tell(self, index: int, fraction: float) -> None:
        self.state[0] = index + fraction
        self.show()

    def stop(self) -> None:
        """Nothing runs."""

    join = stop


class _Process(SpawnProcess):
    """Starts with its own environment variables and without the program's main module: a script that starts a sweep
    needs no `if __name__ == "__main__"`."""

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
    """Lead a new session, which a Ctrl-C does not reach, and print to the log."""
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


def run_batch(batch: Sequence[Block], files: Path, allowed: Allowed) -> list[Answer]:
    """Measure the blocks of a batch, in a worker or a task of Ray."""
    answers = []
    for index, block in enumerate(batch):
        _tell(index, 0.0)
        _state[1] = os.getpid()
        try:
            answers.append(attempt(block, files, allowed, partial(_tell, index)))
        except BaseException as error:  # a KeyboardInterrupt that the job itself raised
            answers.append(Answer(error=f"it raised {type(error).__name__}"))
    _tell(len(batch), 0.0)
    return answers


def _tell(index: int, fraction: float) -> None:
    _state[0] = index + fraction


def _death(code: int) -> str:
    if code == -signal.SIGKILL:
        return "its process was killed (SIGKILL), most often because memory ran out"
    if code < 0:
        return f"its process was ended by {signal.Signals(-code).name}; see {LOG}"
    return f"its process ended with exit code {code}; see {LOG}"
