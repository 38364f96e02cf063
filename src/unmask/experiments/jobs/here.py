"""The engine that is no other process: blocks are measured where the driver is, one after another.

What somebody has registered in this program, a sampler in a notebook, is known here and nowhere else. Nothing protects
the driver from a metric that takes all memory or never ends; what was done before is kept in any case.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Sequence
from pathlib import Path

from unmask.core.threads import torch_threads
from unmask.experiments.jobs.attempt import attempt, ordered
from unmask.experiments.jobs.cells import Block
from unmask.experiments.jobs.engines import Outcome, Tell, nobody
from unmask.experiments.jobs.store import FILES


class Here:
    name = "here"
    seats = 1
    reports_each = True

    def __init__(self, directory: Path) -> None:
        self.files = directory.resolve() / FILES
        self.job: deque[Block] = deque()
        self.tell: Tell = nobody

    def seat(self, taken: Collection[str] = ()) -> str | None:
        return None if self.job or taken else self.name

    def give(self, seat: str, job: Sequence[Block]) -> None:
        self.job.extend(job)

    def wait(self, timeout: float) -> list[Outcome]:
        block = self.job.popleft()
        with torch_threads(1):  # as in a worker (engines.py), so that the numbers are the same
            return [Outcome.of(block, attempt(ordered(block), self.files, lambda share: self.tell(block, share)))]

    def stop(self) -> None:
        self.job.clear()
