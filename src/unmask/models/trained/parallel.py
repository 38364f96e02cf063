"""Training in several processes, which torchrun starts; each learns from its rows of every batch.

    torchrun --nproc-per-node 2 -m unmask train --language paper-2gram --out mdm

The gradient is that of the whole batch, so the weights are those of one process within rounding. All processes have
the same state, and a checkpoint does not depend on their number. Process 0 alone writes.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, distributed
from torch.nn.parallel import DistributedDataParallel

from unmask.core import progress
from unmask.core.errors import UnmaskError
from unmask.models.trained import checkpoints


def size() -> int:
    """The number of processes that train together."""
    return _of_launcher("WORLD_SIZE", 1)


def rank() -> int:
    """The number of this process among them."""
    return _of_launcher("RANK", 0)


def _of_launcher(variable: str, alone: int) -> int:
    """A number that torchrun sets, or that of a process alone."""
    if distributed.is_available() and distributed.is_torchelastic_launched():
        return int(os.environ[variable])
    return alone


@contextmanager
def joined(directory: Path, device: str, check: Callable[[Path], object]) -> Iterator[None]:
    """Train in a directory, which process 0 checks and holds, together with the other processes."""
    if size() > 1:
        distributed.init_process_group("nccl" if checkpoints.choose_device(device).type == "cuda" else "gloo")
    try:
        with checkpoints.alone(directory) if rank() == 0 else progress.silent():
            if rank() == 0:
                check(directory)
            _wait()
            yield
    finally:
        if distributed.is_available() and distributed.is_initialized():
            distributed.destroy_process_group()


def _wait() -> None:
    """Wait for process 0; end quietly if it ends, since it prints the reason."""
    try:
        if size() > 1:
            distributed.barrier()
    except RuntimeError:
        sys.exit(2)


def device_of(device: torch.device) -> torch.device:
    """The GPU of this process."""
    if size() == 1 or device.type != "cuda":
        return device
    own = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
    torch.cuda.set_device(own)
    return own


def share(batch: int) -> int:
    """The most rows of a batch that a process has."""
    if batch < size():
        raise UnmaskError(
            f"the batch has {batch} sequences for {size()} processes. Expected one for each. Raise --batch"
        )
    return -(-batch // size())


def own(rows: Tensor) -> Tensor:
    """The rows of this process."""
    return rows.tensor_split(size())[rank()]


def wrapped(trunk: torch.nn.Module) -> Callable[..., Tensor]:
    """A network whose gradients are the mean over all processes."""
    return DistributedDataParallel(trunk, broadcast_buffers=False) if size() > 1 else trunk


def apart(network: Any, last: bool) -> AbstractContextManager[Any]:
    """Add to the gradients of this process alone, if other parts of its rows follow."""
    return nullcontext() if last or size() == 1 else network.no_sync()


def total(numbers: Tensor) -> Tensor:
    """The sum over all processes."""
    if size() > 1:
        distributed.all_reduce(numbers)
    return numbers
