"""The Ray engine: the same blocks as tasks of Ray Core, on this machine or on a cluster that runs already.

A task asks for as many CPUs as it has threads, and for a GPU where its cell says device: cuda; Ray hides them from the
others. The driver stays the only one that writes the store, wherever its tasks run. They need this package and the
module of a foreign metric on every machine; the search path of the driver goes with them, and cells that keep files or
need those of others find them, on a file system that all machines see.
"""

from __future__ import annotations

import os
import time
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

from unmask.core.errors import UnmaskError
from unmask.experiments.jobs.attempt import Task, attempt, ordered
from unmask.experiments.jobs.cells import Block
from unmask.experiments.jobs.engines import Outcome, Tell, cores, environment, nobody
from unmask.experiments.jobs.store import FILES


def run_job(job: list[Task], files: str) -> list[dict[str, Any]]:
    """What a task does."""
    return [attempt(given, Path(files)) for given in job]


class Cluster:
    """workers: tasks at a time, as many as the cluster has CPUs unless told otherwise; limit: seconds of a block."""

    name = "ray"
    reports_each = False

    def __init__(
        self,
        directory: Path,
        workers: int | None = None,
        threads: int | None = None,
        address: str | None = None,
        limit: float | None = None,
    ) -> None:
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        try:
            import ray
        except ImportError as error:
            raise UnmaskError("engine ray needs the extra cluster: pip install 'unmask[cluster]'") from error
        self.ray = ray
        self.ours = not ray.is_initialized()  # a program of somebody else keeps its connection
        if self.ours:
            variables = environment(threads or 1)
            how: dict[str, Any] = {"runtime_env": {"env_vars": variables}, "log_to_driver": False}
            if address is None:
                how |= {"num_cpus": (workers or cores()) * (threads or 1), "include_dashboard": False}
            try:
                ray.init(address=address, logging_level="error", **how)
            except (ConnectionError, ValueError) as error:
                raise UnmaskError(
                    f"there is no Ray cluster at {address!r}: {error}; `ray start --head` makes one,"
                    " and where it asks for a token, RAY_AUTH_TOKEN is that"
                ) from error
        self.seats = workers or max(int(ray.cluster_resources().get("CPU", 1)) // (threads or 1), 1)
        self.limit = limit
        self.files = directory.resolve() / FILES
        self.tell: Tell = nobody
        self.task = ray.remote(num_cpus=threads or 1, max_retries=0)(run_job)
        self.flying: dict[Any, tuple[str, list[Block], float]] = {}

    def seat(self, taken: Collection[str] = ()) -> str | None:
        busy = {seat for seat, _, _ in self.flying.values()} | set(taken)
        return next((name for name in (f"ray/{number}" for number in range(self.seats)) if name not in busy), None)

    def give(self, seat: str, job: Sequence[Block]) -> None:
        gpus = int(any(block.spec.get("device") == "cuda" for block in job))
        if gpus and not self.ray.cluster_resources().get("GPU"):
            raise UnmaskError(
                "a cell has the device cuda, and the cluster has no GPU that Ray knows of; set device=cpu"
            )
        task = self.task.options(num_gpus=gpus).remote([ordered(block) for block in job], str(self.files))
        self.flying[task] = (seat, list(job), time.monotonic())

    def wait(self, timeout: float) -> list[Outcome]:
        if not self.flying:
            return []
        ready, _ = self.ray.wait(list(self.flying), num_returns=1, timeout=timeout)
        found = [outcome for task in ready for outcome in self._taken(task)]
        if self.limit is not None:
            now = time.monotonic()
            for task, (_, job, began) in list(self.flying.items()):
                if now - began > self.limit * len(job):
                    self.ray.cancel(task, force=True)
                    found += self._lost(
                        task, "hung", f"it took more than the limit of {self.limit:g} s and was stopped"
                    )
        return found

    def stop(self) -> None:
        for task in self.flying:
            self.ray.cancel(task, force=True)
        self.flying.clear()
        if self.ours:
            self.ray.shutdown()

    def _taken(self, task: Any) -> list[Outcome]:
        try:
            answers = self.ray.get(task)
        except self.ray.exceptions.OutOfMemoryError:
            return self._lost(task, "killed", "Ray killed its process, because memory had run out")
        except self.ray.exceptions.RayTaskError as error:
            return self._lost(task, "raised", f"the task could not run: {error.cause}")
        except self.ray.exceptions.RayError as error:
            return self._lost(task, "killed", f"its process was killed: {str(error).partition(chr(10))[0]}")
        _, job, _ = self.flying.pop(task)
        return [Outcome.of(block, answer) for block, answer in zip(job, answers, strict=True)]

    def _lost(self, task: Any, kind: Any, error: str) -> list[Outcome]:
        """A task of one block has lost it; of a task of several nobody knows which, and each is tried alone."""
        _, job, began = self.flying.pop(task)
        if len(job) > 1:
            return [Outcome(block, "unbegun") for block in job]
        return [Outcome(job[0], kind, error=error, seconds=time.monotonic() - began)]
