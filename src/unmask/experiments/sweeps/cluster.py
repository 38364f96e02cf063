"""Measures batches as tasks of Ray, on this machine or on a running cluster.

A task requests one CPU for each of its threads, and a GPU if its cell has the device cuda. Only the driver writes the
store. Each machine needs this package and the modules of other jobs. Cells with files need a common file system.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

from pebble import ProcessExpired

from unmask.core.errors import UnmaskError
from unmask.experiments.sweeps.pools import Pool, cores, environment, run_batch
from unmask.experiments.sweeps.work import Answer


def cluster(
    directory: Path, workers: int | None, threads: int | None, limit: float | None, address: str | None
) -> Pool:
    """workers: tasks at a time (default: all CPUs of the cluster)."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    try:
        import ray
    except ImportError as error:
        raise UnmaskError("engine ray needs the extra cluster: pip install 'unmask[cluster]'") from error
    threads, own = threads or 1, not ray.is_initialized()  # a connection of the program stays open
    if own:
        options: dict[str, Any] = {"runtime_env": {"env_vars": environment(threads)}, "log_to_driver": False}
        if address is None:
            options |= {"num_cpus": (workers or cores()) * threads, "include_dashboard": False}
        try:
            ray.init(address=address, logging_level="error", **options)
        except (ConnectionError, ValueError) as error:
            help = "`ray start --head` makes one; if it asks for a token, set RAY_AUTH_TOKEN"
            raise UnmaskError(f"there is no Ray cluster at {address!r}: {error}; {help}") from error
    slots = workers or max(int(ray.cluster_resources().get("CPU", 1)) // threads, 1)
    task = ray.remote(num_cpus=threads, max_retries=0)(_batch)
    return Pool(directory, slots, limit, lambda: (_Task(ray, task), [0.0, 0.0]), ray.shutdown if own else lambda: None)


def _batch(*args: Any) -> Iterator[list[Answer]]:
    """Yield once at the start, since the limit excludes the wait for a CPU and the start of Ray's worker."""
    yield []
    yield run_batch(*args)


class _Task:
    """One task at a time; a thread waits for it."""

    active = True

    def __init__(self, ray: Any, task: Any) -> None:
        self.ray, self.task, self.thread = ray, task, ThreadPoolExecutor(1)
        self.running: Any = None

    def schedule(self, function: object, args: Any, *, timeout: float | None) -> Future[list[Answer]]:
        gpus = int(any(block.spec.get("device") == "cuda" for block in args[0]))
        if gpus and not self.ray.cluster_resources().get("GPU"):
            raise UnmaskError("a cell has the device cuda, and the cluster has no GPU; set device=cpu")
        self.running = self.task.options(num_gpus=gpus).remote(*args)
        return self.thread.submit(self._answers, self.running, timeout)

    def _answers(self, task: Any, timeout: float | None) -> list[Answer]:
        errors = self.ray.exceptions
        try:
            self.ray.get(next(task))
            if not self.ray.wait([task], timeout=timeout)[0]:
                raise TimeoutError
            self.running = None
            answers: list[Answer] = self.ray.get(next(task))
            return answers
        except errors.OutOfMemoryError as error:
            raise ProcessExpired("out of memory", -signal.SIGKILL) from error
        except errors.RayTaskError:
            raise
        except errors.RayError as error:
            raise ProcessExpired(str(error), -signal.SIGKILL) from error

    def stop(self) -> None:
        if self.running is not None:
            self.ray.cancel(self.running, force=True)

    def join(self) -> None:
        self.thread.shutdown()
