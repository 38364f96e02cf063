"""Device, precision, threads and progress of a training, which change the weights only by rounding; and its result."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from unmask.core import arguments
from unmask.core.tables import as_table
from unmask.models.trained.shape import Shape
from unmask.models.trained.validation import Validation

PART_TOKENS = {"cpu": 2**11, "cuda": 2**17}  # computed at once: fits a cache, or a GPU's memory
SAVE_SECONDS = 10.0  # between checkpoints
ACTIVATIONS = {False: 87, True: 48}  # bytes for a backward pass, by token, layer and hidden unit; True: in bfloat16
STATE = 20  # bytes of a parameter: weight, gradient, two moments, average
NARROW = 256  # hidden size; below it, torch's threads spend more time waiting than computing
PRECISIONS = ("auto", "float32", "bfloat16")


@dataclass(frozen=True)
class Conditions:
    """Requested conditions; the methods resolve them for a network and a device."""

    device: str = "auto"
    precision: str = "auto"  # auto: bfloat16 on CUDA
    accumulate: int | None = None  # parts of a process's batch, one after another; None: of PART_TOKENS each
    threads: int | None = None  # of torch on the CPU; None: one for a narrow network, else torch's number
    say: Callable[[str], None] | None = None  # called with one line per validation
    save_seconds: float = SAVE_SECONDS  # between checkpoints; 0: one at every check of the loss

    def parts(self, rows: int, length: int, device: torch.device) -> int:
        """Number of parts in which the rows of a process are computed."""
        if self.accumulate is None:
            return min(rows, math.ceil(rows * length / PART_TOKENS[device.type]))
        return arguments.whole("accumulate", self.accumulate, 1, rows, ", the sequences of a batch in one process")

    def needed(self, shape: Shape, at_once: int, device: torch.device) -> int:
        """Bytes of a training: of the parameters, and of the activations of the rows that are computed at once."""
        each = ACTIVATIONS[self.half_of(device)] * shape.layers * shape.hidden
        return STATE * shape.parameters + at_once * shape.length * each

    def threads_of(self, shape: Shape, device: torch.device) -> int:
        if self.threads is None:
            return 1 if device.type == "cpu" and shape.hidden < NARROW else torch.get_num_threads()
        return arguments.whole("threads", self.threads, 1, arguments.MOST_THREADS)

    def half_of(self, device: torch.device) -> bool:
        """Whether it computes in bfloat16."""
        arguments.word("precision", self.precision, PRECISIONS)
        return self.precision == "bfloat16" or (self.precision == "auto" and device.type == "cuda")


USUAL = Conditions()


@dataclass(frozen=True)
class Trained:
    """Losses, cost and conditions of a trained network."""

    directory: Path
    steps: int
    seconds: float
    loss: float  # nats per token, on the examples of the last steps
    validation: Validation
    parameters: int
    tokens_per_second: float
    shape: Shape
    device: str
    threads: int
    precision: str
    processes: int
    bits: Mapping[str, float]  # validation loss of a text in bits per character and per byte; empty for a language

    __repr__ = as_table

    def to_dict(self) -> dict[str, Any]:
        own = ("steps", "seconds", "parameters", "tokens_per_second", "device", "threads", "precision")
        entries = {"directory": str(self.directory)} | {name: getattr(self, name) for name in own}
        entries["loss_nats_per_token"] = self.loss
        entries["validation_nats_per_token"] = self.validation.loss.to_dict()
        if self.validation.excess_percent is not None:
            entries["entropy_nats_per_token"] = self.validation.entropy
            entries["excess_percent"] = self.validation.excess_percent.to_dict()
        return entries | {f"validation_{name}": value for name, value in self.bits.items()}
