"""Blocks on a cluster of Ray: `--engine ray`.

A task of Ray measures one block, in a process of pool.py that its worker keeps. So a block has the threads, the time
limit and the bits of one machine, and ends with all that it started. Output of jobs comes back with the answers, into
workers.log. Ray repeats nothing, since the store counts the attempts.

A node that has the directory of the store works in the driver's directory. Any other node gets the Python files that
the user allowed, and cells that read or write files are refused before they start.
"""

from __future__ import annotations

import os
import signal
import socket
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from pathlib import Path
from tempfile import NamedTemporaryFile, TemporaryFile, mkdtemp
from typing import IO, Any, NamedTuple

from unmask.core import progress
from unmask.core.errors import UnmaskError, cut, needed
from unmask.core.files import code
from unmask.core.registry import IMPORTS, Allowed, imports
from unmask.core.run import Measuring
from unmask.experiments.cell import find
from unmask.experiments.pool import APPENDED, ENGINES, WAIT, Answer, Block, Processes, cores
from unmask.experiments.store import LOG, opened

ANSWERS = 10.0  # seconds for a cluster to answer
PATIENCE = 120.0  # seconds for a node to import unmask
OBJECTS = 2**28  # bytes of answers in memory, of a cluster on this machine
PRINTED = 2**16  # bytes of output that come back with an answer
FULL = (
    "the object store and the disk of its node are full, so its answer was lost. Expected space for both. "
    "Free space on the disk, or give `ray start` a larger --object-store-memory"
)
KEPT = dict[Any, Processes]()  # of this worker of Ray, for its next block


class Home(NamedTuple):
    """The driver's directory; a file beside the store, which a node sees or not; names and contents of sources."""

    directory: str
    token: Path
    sources: tuple[tuple[str, bytes], ...]


@ENGINES.register("ray")
def cluster(
    ready: deque[Block],
    files: Path,
    how: Measuring,
    interrupts: Sequence[int],
    note: Callable[[int], None],
    num_gpus: float = 1.0,
) -> Generator[tuple[Block, Answer], None, None]:
    """Measure blocks on all nodes of a cluster of Ray. num_gpus: GPUs of a block whose recipe has the device cuda."""
    with needed("cluster", "engine ray"):
        import ray

    running = dict[Any, Block]()
    with _connected(ray, how), NamedTemporaryFile(dir=files.parent, prefix=".seen-") as token:
        home = Home(os.getcwd(), Path(token.name), tuple(_sources(how.allow_imports)))
        _check(ray, home, ready, num_gpus)
        given = files, how, IMPORTS.get(), ray.put(home)
        task = ray.remote(num_cpus=how.threads or 1, max_retries=0)(serve)
        try:
            while running or (ready and not interrupts):
                size = how.workers or int(ray.cluster_resources().get("CPU", 1)) // (how.threads or 1) or 1
                while ready and len(running) < size and not interrupts:
                    block = ready.popleft()
                    gpus = num_gpus if _on_gpu(block) else 0
                    running[task.options(num_gpus=gpus).remote(tuple(block), gpus, *given)] = block

                note(len(running))
                ray.wait([*running], num_returns=1, timeout=WAIT)
                for one in ray.wait([*running], num_returns=len(running), timeout=0)[0]:
                    yield running.pop(one), _answer(ray, one, files)
        finally:
            for one in running:
                ray.cancel(one, force=True)


def serve(block: tuple[Any, ...], gpus: float, files: Path, how: Measuring, allowed: Allowed, home: Home) -> Any:
    """On a node: (answer, output of the job, digest of the code)."""
    if not gpus:
        os.environ["CUDA_VISIBLE_DEVICES"] = ""  # they are for blocks that ask for one

    # the same process as for the last block, unless it saw other devices
    processes = _processes(files, how, home, os.environ.get("CUDA_VISIBLE_DEVICES"))

    with imports(allowed):
        processes.start(Block(*block))
    while not (over := processes.wait(WAIT)):
        pass

    printed = os.pread(_output().fileno(), PRINTED, max(_output().tell() - PRINTED, 0))
    _output().truncate(0)
    _output().seek(0)  # for the process, too: it has inherited the place
    return tuple(over[0][1]), printed, code()


def _processes(files: Path, how: Measuring, home: Home, devices: str | None) -> Processes:
    """The process of a worker of Ray. A new one, if it has to see other files or devices."""
    key = files, how, home, devices
    if key not in KEPT:
        while KEPT:
            KEPT.popitem()[1].stop()
        os.chdir(home.directory if shared(home) else _directory(home))
        alone = replace(how, workers=1, threads=how.threads or 1)
        KEPT[key] = Processes(files, alone, _output())
    return KEPT[key]


@cache
def _output() -> IO[bytes]:
    """Output of the jobs of this worker."""
    return TemporaryFile(buffering=0)


def _directory(home: Home) -> str:
    """A new directory with the sources."""
    directory = mkdtemp(prefix="unmask-")
    for name, content in home.sources:
        path = Path(directory, name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return directory


def _answer(ray: Any, one: Any, files: Path) -> Answer:
    """The answer of a block that is over; a lost one has another attempt."""
    try:
        answer, printed, theirs = ray.get(one)
    except (ray.exceptions.OutOfDiskError, ray.exceptions.ObjectStoreFullError):
        return Answer(error=FULL, lost=True)
    except ray.exceptions.RayError as error:
        return Answer(error=f"its worker or node was lost: {type(error).__name__}", lost=True)
    if theirs != code():
        raise UnmaskError("a node has another version of unmask. Expected the same sources. Install them there")
    if printed:
        with opened(files.parent / LOG, APPENDED) as log:
            log.write(printed)
    return Answer(*answer)


@contextmanager
def _connected(ray: Any, how: Measuring) -> Iterator[None]:
    """A connection to a cluster; one that the program has already stays open."""
    if ray.is_initialized():
        yield
        return

    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    address = how.address or os.environ.get("RAY_ADDRESS", "local")
    handler = signal.getsignal(signal.SIGTERM)
    own: dict[str, Any] = {"num_cpus": how.workers or cores(), "object_store_memory": OBJECTS}

    try:
        host, _, port = address.rpartition("/")[2].rpartition(":")
        if host:  # Ray waits for minutes for an address without an answer
            socket.create_connection((host, int(port)), ANSWERS).close()
        options = own | {"include_dashboard": False} if address == "local" else {}
        ray.init(address, log_to_driver=False, logging_level="ERROR", **options)
    except (OSError, RuntimeError, ValueError, ray.exceptions.RayError) as error:
        raise UnmaskError(
            f"no cluster of Ray at {address}: {cut(str(error))}",
            "Expected a running one",
            "Start one with `ray start --head`, or leave --address out",
        ) from error

    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, handler)  # Ray has taken it; it stops a sweep
    try:
        yield
    finally:
        ray.shutdown()


def _check(ray: Any, home: Home, blocks: Sequence[Block], num_gpus: float) -> None:
    """Raise an error if a node cannot measure these blocks."""
    on = ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy
    nodes = {node["NodeID"]: node["NodeManagerHostname"] for node in ray.nodes() if node["Alive"]}

    task = ray.remote(num_cpus=0)(shared)
    seen = [task.options(scheduling_strategy=on(node, soft=False)).remote(home) for node in nodes]

    of_files = next((block.job for block in blocks if _has_files(block)), None)
    for name, one in zip(nodes.values(), seen, strict=True):
        try:
            there = ray.get(one, timeout=PATIENCE)
        except (ray.exceptions.TaskUnschedulableError, ray.exceptions.NodeDiedError):
            continue  # the node has left since it was listed, and the others measure
        except ray.exceptions.RayError as error:
            reason = cut(str(error).strip().rpartition("\n")[2])
            raise UnmaskError(f"node {name} cannot run unmask: {reason}. Install this version there") from error

        if of_files is not None and not there:
            raise UnmaskError(
                f"cells of {of_files!r} have files, and node {name} does not see {home.token.parent}",
                "Expected a file system of all nodes",
                "Put the store there with --store",
            )

    if any(map(_on_gpu, blocks)) and ray.cluster_resources().get("GPU", 0) < num_gpus:
        progress.note(f"cells ask for {num_gpus:g} GPU, and no node has that: they wait for one")


def shared(home: Home) -> bool:
    """On a node: whether it has the driver's directory and store."""
    return home.token.exists() and os.path.isdir(home.directory)


def _has_files(block: Block) -> bool:
    """Whether a cell writes files, or names one."""
    return find(block.job).takes_place or bool(block.values.get("digest"))


def _on_gpu(block: Block) -> bool:
    return str(block.values.get("device")).startswith("cuda")


def _sources(allowed: Sequence[str]) -> Iterator[tuple[str, bytes]]:
    """Allowed files and modules of the working directory; others are installed on the nodes."""
    for name in allowed:
        root = Path(name if name.endswith(".py") else name.partition(".")[0])
        for path in (root, root.with_suffix(".py"), *sorted(root.rglob("*.py"))):
            if path.is_file() and not path.is_absolute():
                yield str(path), path.read_bytes()
