"""Where a training runs and what it tells: nothing here changes what is trained, but for rounding."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch

from unmask.core import arguments
from unmask.networks.model.shape import Shape

PART_TOKENS = {"cpu": 2**11, "cuda": 2**17}  # computed at once: what a cache, or a memory, holds
SAVE_SECONDS = 10.0  # between checkpoints
NARROW = 256  # hidden; below it, threads of torch wait for each other longer than they compute
PRECISIONS = ("auto", "float32", "bfloat16")


@dataclass(frozen=True)
class Conditions:
    """What was asked for; what that comes to depends on the network and the device."""

    device: str = "auto"
    precision: str = "auto"  # bfloat16 where it pays, which is on CUDA
    accumulate: int | None = None  # parts of a process's batch, one after another; None: as many as its cache needs
    threads: int | None = None  # of torch on the CPU; None: one for a narrow network, else what torch has
    tensorboard: bool = False
    say: Callable[[str], None] | None = None  # one line at each validation
    save_seconds: float = SAVE_SECONDS  # between checkpoints; 0: one at every look

    def parts(self, rows: int, length: int, device: torch.device) -> int:
        """How many parts a process's rows are computed in."""
        if self.accumulate is None:
            return min(rows, math.ceil(rows * length / PART_TOKENS[device.type]))
        return arguments.whole("accumulate", self.accumulate, 1, rows, ", the sequences that a process has of a batch")

    def threads_of(self, shape: Shape, device: torch.device) -> int:
        if self.threads is None:
            return 1 if device.type == "cpu" and shape.hidden < NARROW else torch.get_num_threads()
        return arguments.whole("threads", self.threads, 1, arguments.MOST_THREADS)

    def half_of(self, device: torch.device) -> bool:
        """Whether it computes in bfloat16."""
        arguments.word("precision", self.precision, PRECISIONS)
        return self.precision == "bfloat16" or (self.precision == "auto" and device.type == "cuda")


USUAL = Conditions()
