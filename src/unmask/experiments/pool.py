"""Where blocks are measured: in this process, in processes of this machine, or by another engine.

An engine is a generator of (block, its answer). It takes blocks from `ready` until that is empty or `interrupts` is
not, and may call `note` with the number of running blocks. `files` is the directory of the cells' files, and `how` has
the options. The caller alone writes the store; it may add blocks to `ready` at any answer.

Each worker is a process with its own pipe, since a common one would block all workers once one is killed while it
holds the lock. It leads a session with its children. A guard process in it kills the session once the worker or the
driver is gone, also if these are stopped.
"""

from __future__ import annotations

import json
import os
import pickle
import select
import signal
import subprocess
import sys
import time
import traceback
from collections import deque
from collections.abc import Callable, Generator, Sequence
from contextlib import chdir, nullcontext, suppress
from multiprocessing import Pipe, connection
from pathlib import Path
from typing import IO, Any, NamedTuple, NoReturn

import msgspec

from unmask.core import entries, progress
from unmask.core.errors import MESSAGE, UnmaskError, plain, shown
from unmask.core.memory import size
from unmask.core.reading import fit, from_json
from unmask.core.registry import IMPORTS, Allowed, Registry, imports
from unmask.core.run import Measuring
from unmask.experiments.cell import Place, Tally, call, find
from unmask.experiments.store import LARGEST, LOG, CommonFields, Plain, directory_of, opened

SINGLE = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS")
FAILED_STARTS = 3  # workers that end before there is any answer
LOOK = 0.1  # seconds between two checks of a guard
WAIT = 1.0  # seconds between two looks at the workers
GRACE = 1.0  # seconds for a process to end by itself

APPENDED = os.O_RDWR | os.O_APPEND | os.O_CREAT


class Block(NamedTuple):
    """Rows of a cell; needed: directories of the cells that it needs; tally: of all rows, if only records are missing.

    whole: its rows are all of the cell, so records are wanted, too.
    """

    key: str
    stem: str
    job: str
    values: dict[str, Any]
    rows: tuple[int, int] = (0, 0)
    whole: bool = True
    needed: tuple[str, ...] = ()
    tally: Tally | None = None


class Answer(NamedTuple):
    """lost: its process ended first, so another attempt may succeed."""

    records: list[dict[str, Any]] | None = None
    tally: Tally | None = None
    seconds: float = 0.0
    error: str = ""
    lost: bool = False


ENGINES: Registry[Generator[tuple[Block, Answer], None, None]] = Registry(
    "engine", "unmask.engines", returns=(Generator,), given=("ready", "files", "how", "interrupts", "note")
)


def attempt(block: Block, files: Path, allowed: Allowed) -> Answer:
    """Measure a block. Whatever a job raises is an answer. allowed: modules that names may import."""
    began = time.perf_counter()
    process = os.getpid()
    try:
        with chdir("."), imports(allowed):  # a job may change the directory
            records, tally = measure(block, files)
        return Answer(records, tally, time.perf_counter() - began)
    except MemoryError as error:
        text = f"out of memory: {_text(error) or 'ask for fewer rows, or a shorter length'}"
    except UnmaskError as error:
        text = str(error)
    except SystemExit as error:
        text = f"it called sys.exit({shown(error.code)})"
    except Exception as error:
        last = traceback.extract_tb(error.__traceback__)[-1]
        text = f"{type(error).__name__}: {_text(error)} ({os.path.basename(last.filename)}, line {last.lineno})"
    finally:
        if os.getpid() != process:  # a forked child of the job
            os._exit(0)

    return Answer(seconds=time.perf_counter() - began, error=plain(text[:MESSAGE]))


def measure(block: Block, files: Path) -> tuple[list[dict[str, Any]] | None, Tally | None]:
    """(records, tally) of a block, as JSON can hold them; no records unless it is whole."""
    job = find(block.job)
    tally = block.tally
    where = f"the answer of job {block.job!r}"
    place = Place(directory_of(files, block.stem), tuple(files / stem for stem in block.needed))

    if job.merges:
        if tally is None:
            rows = {"first_row": block.rows[0], "rows": block.rows[1]}
            tally = _decoded(call(job.run, block.values | rows, place=place), Tally, where)
        if not block.whole:
            return None, tally
        records = call(job.run.records, block.values, tally=tally)  # type: ignore[attr-defined]
    else:
        records = call(job.run, block.values, place=place)

    records = _decoded(records, list[dict[str, Plain]], where)
    fit(records, list[CommonFields], where)

    # common to all records, such as the digest of the language
    about = job.ask("about", block.values, {})
    return [record | about for record in records], tally


def _decoded(result: Any, schema: Any, where: str) -> Any:
    """A result as the store gives it back. A result that JSON cannot represent is an error of the job."""
    text = json.dumps(result, allow_nan=False)
    if len(text) > LARGEST:
        raise UnmaskError(f"its numbers take {size(len(text))}; expected at most {size(LARGEST)}. Write them to a file")
    try:
        return msgspec.json.decode(text, type=schema)
    except (msgspec.DecodeError, RecursionError):  # integers of a tally have more bits than from_json takes
        return from_json(text, schema, where)


def _text(error: Exception) -> str:
    try:
        return str(error)
    except Exception:  # an error of any class
        return "its message is not readable"


@ENGINES.register("here")
def here(
    ready: deque[Block], files: Path, how: Measuring, interrupts: Sequence[int], note: Callable[[int], None]
) -> Generator[tuple[Block, Answer], None, None]:
    """Measure blocks in this process: it has the samplers that a notebook registered, and no protection."""
    from unmask.core.threads import torch_threads  # here, since a worker imports torch only if a job needs it

    while ready and not interrupts:
        note(1)
        block = ready.popleft()
        with torch_threads(1):  # as in a worker, for the same numbers
            answer = attempt(block, files, IMPORTS.get())
        yield block, answer


@ENGINES.register("local")
def local(
    ready: deque[Block], files: Path, how: Measuring, interrupts: Sequence[int], note: Callable[[int], None]
) -> Generator[tuple[Block, Answer], None, None]:
    """Measure blocks in processes of this machine. note: a function of the number of running blocks."""
    pool = Processes(files, how)
    try:
        while pool.running or (ready and not interrupts):
            while ready and len(pool.running) < pool.most and not interrupts:
                pool.start(ready.popleft())
            note(len(pool.running))
            yield from pool.wait(WAIT)
    finally:
        pool.stop()


class _Worker:
    """A process that measures one block at a time. lifeline: a pipe that closes with the driver."""

    def __init__(self, threads: int, log: Path | IO[bytes]) -> None:
        self.pipe, theirs = Pipe()
        lifeline, self.lifeline = os.pipe()

        program = f"from unmask.experiments.pool import serve; serve({theirs.fileno()}, {lifeline})"
        with theirs, opened(log, APPENDED) if isinstance(log, Path) else nullcontext(log) as file:
            self.process = subprocess.Popen(
                [sys.executable, "-c", program],
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=file,
                env=os.environ | variables(threads),
                pass_fds=[theirs.fileno(), lifeline],
                start_new_session=True,
            )

        os.close(lifeline)

    @property
    def ready(self) -> bool:
        return self.pipe.poll() or self.process.poll() is not None

    def start(self, block: Block, files: Path) -> None:
        self.block, self.began = block, time.monotonic()
        with suppress(OSError):  # it has died; `wait` finds out
            self.pipe.send((block, files, IMPORTS.get()))

    def stop(self, patience: float = 0.0) -> int:
        """End it with all that its jobs have started; return its exit code."""
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(patience)
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.pipe.close()
        os.close(self.lifeline)
        return self.process.wait()


class Processes:
    """Processes of this machine; one that dies or hangs is replaced. output: a file instead of the store's log."""

    def __init__(self, files: Path, how: Measuring, output: IO[bytes] | None = None) -> None:
        self.files, self.output = files, output
        self.log = files.parent / LOG
        self.limit = how.limit
        self.most = how.workers or cores()
        self.threads = how.threads or max(cores() // self.most, 1)
        self.running, self.idle = list[_Worker](), list[_Worker]()
        self.lost, self.answered = 0, False  # workers that ended without an answer; whether there was any answer

    def start(self, block: Block) -> None:
        worker = self.idle.pop() if self.idle else _Worker(self.threads, self.output or self.log)
        worker.start(block, self.files)
        self.running.append(worker)

    def wait(self, timeout: float) -> list[tuple[Block, Answer]]:
        """The answers of finished blocks; wait at most `timeout` seconds for one."""
        connection.wait(entries.column(self.running, "pipe"), timeout)
        now = time.monotonic()
        over = [one for one in self.running if one.ready or (self.limit and now - one.began > self.limit)]
        self.running = [worker for worker in self.running if worker not in over]
        return [(worker.block, self._answer(worker)) for worker in over]

    def _answer(self, worker: _Worker) -> Answer:
        if not worker.ready:
            worker.stop()
            return Answer(error=f"it took more than the limit of {self.limit:g} s and was stopped")

        try:
            answer = Answer(*pickle.loads(worker.pipe.recv_bytes(4 * LARGEST)))  # garbage would ask for gigabytes
            self.answered = True
            self.idle.append(worker)
            return answer
        except Exception:  # the end of the pipe, or garbage in it
            self.lost += 1
            code = worker.stop(GRACE)
            if not self.answered and self.lost >= FAILED_STARTS:
                raise UnmaskError(
                    f"the first {FAILED_STARTS} workers ended without an answer; see {self.log}"
                ) from None
            return Answer(error=_death(code), lost=True)

    def stop(self) -> None:
        for worker in [*self.idle, *self.running]:
            worker.stop()


def cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def variables(threads: int) -> dict[str, str]:
    """The environment variables of a worker: torch's sums depend on its number of threads, so it has one."""
    paths = os.pathsep.join(filter(None, sys.path))
    return dict.fromkeys(SINGLE, "1") | {"UNMASK_THREADS": str(threads), "PYTHONPATH": paths, "PYTHONSAFEPATH": "1"}


def serve(handle: int, lifeline: int) -> None:
    """Measure blocks until the driver is gone."""
    worker = os.getpid()
    if os.fork() == 0:
        _guard(worker, lifeline)
    os.close(lifeline)

    # programs that a job starts must not hold the pipe open
    os.set_inheritable(handle, False)

    with suppress(EOFError, OSError), connection.Connection(handle) as pipe, progress.silent():
        while True:
            block, files, allowed = pipe.recv()
            try:
                answer = attempt(block, files, allowed)
            except BaseException as error:  # a KeyboardInterrupt that the job itself raised
                answer = Answer(error=f"it raised {type(error).__name__}")
            pipe.send_bytes(pickle.dumps(tuple(answer)))


def _guard(worker: int, lifeline: int) -> NoReturn:
    """End the session once the worker or the driver is gone."""
    os.closerange(3, lifeline)
    os.closerange(lifeline + 1, 2**12)
    while os.getppid() == worker and not select.select([lifeline], [], [], LOOK)[0]:
        pass
    os.killpg(0, signal.SIGKILL)
    os._exit(0)


def _death(code: int) -> str:
    if code == -signal.SIGKILL:
        return "its process was killed (SIGKILL), most often because memory ran out"
    how = f"was ended by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"
    return f"its process {how}; see {LOG}"
