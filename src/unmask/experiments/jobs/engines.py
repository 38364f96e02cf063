"""What an engine is to the driver: seats that take jobs, and outcomes that come back, in any order."""

from __future__ import annotations

import base64
import os
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from unmask.experiments.jobs.cells import Block

Kind = Literal["records", "tally", "raised", "killed", "hung", "unbegun"]
Tell = Callable[[Block, float], None]


@dataclass(frozen=True)
class Outcome:
    """What came of a block: its records or its tally; or why there are none.

    raised: the metric said so, and would again. killed: its process died. hung: it was past its limit, and was stopped.
    unbegun: the job ended before its turn.
    """

    block: Block
    kind: Kind
    found: Any = None
    error: str = ""
    seconds: float = 0.0
    files: Mapping[str, bytes] = field(default_factory=dict)

    @classmethod
    def of(cls, block: Block, answer: dict[str, Any]) -> Outcome:
        """What a worker has answered (attempt.py)."""
        files = {name: base64.b64decode(content) for name, content in answer.get("files", {}).items()}
        return cls(block, answer["kind"], answer.get("found"), answer.get("error", ""), answer["seconds"], files)


def nobody(block: Block, share: float) -> None:
    """Hears how far a block is."""


class Engine(Protocol):
    name: str
    seats: int  # jobs at a time
    reports_each: bool  # whether a block is answered as soon as it is done, or a job when all of it is
    tell: Tell  # is told how far a block is, by engines that know

    def seat(self, taken: Collection[str] = ()) -> str | None:
        """Who would take a job now, if anybody is free but those."""

    def give(self, seat: str, job: Sequence[Block]) -> None:
        """Measure blocks one after another; `seat` is one that `seat()` has just named."""

    def wait(self, timeout: float) -> list[Outcome]:
        """What has come since, after at most so many seconds."""

    def stop(self) -> None:
        """End at once, whatever is being done."""


def cores() -> int:
    """That this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def environment(threads: int) -> dict[str, str]:
    """Variables of a process that measures beside others.

    UNMASK_THREADS shares rows among threads, which changes no number. torch has one thread in each, because they wait
    for each other in a loop, and because sums over several depend on how many there are, and numbers must not.
    """
    single = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS")
    paths = os.pathsep.join(path for path in sys.path if path)
    return dict.fromkeys(single, "1") | {"UNMASK_THREADS": str(threads), "PYTHONPATH": paths}
