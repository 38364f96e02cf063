"""Measures blocks as tasks of Ray, on this machine or on a cluster that runs already.

A task asks for as many CPUs as it has threads, and for a GPU where its cell has the device cuda. The driver remains the
only process that writes the store. Each machine needs this package, the modules of other metrics, and a file system
that all machines see if cells keep files.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from time import monotonic
from typing import Any

from unmask.core.errors import UnmaskError
from unmask.core.registry import imports_allowed
from unmask.experiments.jobs.cells import Block
from unmask.experiments.jobs.pools import Answers, cores, environment, run_job
from unmask.experiments.jobs.store import FILES
from unmask.experiments.jobs.work import Answer


class Cluster:
    """workers: tasks at a time, by default as many as the cluster has CPUs; limit: seconds that a job may take."""

    def __init__(
        self,
        directory: Path,
        workers: int | None = None,
        threads: int | None = None,
        limit: float | None = None,
        address: str | None = None,
    ) -> None:
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        try:
            import ray
        except ImportError as error:
            raise UnmaskError("engine ray needs the extra cluster: pip install 'unmask[cluster]'") from error
        self.ray = ray
        self.started = not ray.is_initialized()  # a connection of the program stays open
        if self.started:
            how: dict[str, Any] = {"runtime_env": {"env_vars": environment(threads or 1)}, "log_to_driver": False}
            if address is None:
                how |= {"num_cpus": (workers or cores()) * (threads or 1), "include_dashboard": False}
            try:
                ray.init(address=address, logging_level="error", **how)
            except (ConnectionError, ValueError) as error:
                raise UnmaskError(
                    f"there is no Ray cluster at {address!r}: {error}; `ray start --head` makes one;"
                    " if it asks for a token, set RAY_AUTH_TOKEN"
                ) from error
        self.slots = workers or max(int(ray.cluster_resources().get("CPU", 1)) // (threads or 1), 1)
        self.limit, self.files = limit, directory.resolve() / FILES
        self.task = ray.remote(num_cpus=threads or 1, max_retries=0)(run_job)
        self.running: dict[Any, tuple[Sequence[Block], float]] = {}  # tasks to jobs and when they were started
        self.show: Callable[[], None] = lambda: None

    def free(self) -> int:
        return self.slots - len(self.running)

    def start(self, job: Sequence[Block]) -> None:
        gpus = int(any(block.spec.get("device") == "cuda" for block in job))
        if gpus and not self.ray.cluster_resources().get("GPU"):
            raise UnmaskError("a cell has the device cuda, and the cluster has no GPU; set device=cpu")
        task = self.task.options(num_gpus=gpus).remote(list(job), self.files, imports_allowed())
        self.running[task] = job, monotonic()

    def wait(self, timeout: float) -> Answers:
        ready, _ = self.ray.wait(list(self.running), num_returns=1, timeout=timeout)
        answers = [pair for task in ready for pair in self._answers(task)]
        for task, (_, began) in list(self.running.items()) if self.limit is not None else ():
            if monotonic() - began > self.limit:
                self.ray.cancel(task, force=True)
                text = f"it took more than the limit of {self.limit:g} s and was stopped"
                answers += self._lost(task, Answer(error=text, seconds=self.limit))
        return answers

    def progress(self) -> float:
        return 0.0  # a task tells nothing before its end

    def stop(self) -> None:
        for task in self.running:
            self.ray.cancel(task, force=True)
        self.running.clear()
        if self.started:
            self.ray.shutdown()

    def _answers(self, task: Any) -> Answers:
        try:
            answers = self.ray.get(task)
        except self.ray.exceptions.OutOfMemoryError:
            return self._lost(task, Answer(error="its process was killed, because memory had run out", lost=True))
        except self.ray.exceptions.RayTaskError as error:
            return self._lost(task, Answer(error=f"the task could not run: {error.cause}"))
        except self.ray.exceptions.RayError as error:
            return self._lost(task, Answer(error=f"its process was killed: {str(error).splitlines()[0]}", lost=True))
        return list(zip(self.running.pop(task)[0], answers, strict=True))

    def _lost(self, task: Any, answer: Answer) -> Answers:
        """A job of several blocks that has come to nothing is measured block by block."""
        job, _ = self.running.pop(task)
        return [(block, answer if len(job) == 1 else Answer(lost=True)) for block in job]
