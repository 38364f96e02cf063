"""Train one network in several processes: `torchrun --nproc-per-node=N -m unmask train ...`.

Each process holds the whole network and computes its part of every batch; DDP averages the gradients. Without torchrun
there is one process.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass

import torch
from torch import Tensor, distributed
from torch.nn.parallel import DistributedDataParallel

from unmask.core.arguments import setting
from unmask.core.errors import UnmaskError, cut
from unmask.models.trained.checkpoints import choose_device
from unmask.models.trained.objectives import Network
from unmask.models.trained.trunk import Trunk


@dataclass(frozen=True)
class World:
    """Process `rank` of `size`; only the first writes files and prints."""

    rank: int
    size: int
    device: torch.device

    @property
    def first(self) -> bool:
        return self.rank == 0

    def part(self, batch: int) -> slice:
        """Rows of a batch that belong to this process."""
        if batch % self.size:
            raise UnmaskError(f"batch is {batch}; expected a multiple of {self.size}, the number of processes")
        rows = batch // self.size
        return slice(self.rank * rows, (self.rank + 1) * rows)

    def share(self, trunk: Trunk) -> Network:
        """The network with gradients averaged over all processes."""
        return trunk if self.size == 1 else DistributedDataParallel(trunk)

    def alone(self, network: Network, more_to_come: bool) -> AbstractContextManager[None]:
        """Context in which gradients are not exchanged, if more parts of the batch follow."""
        if more_to_come and isinstance(network, DistributedDataParallel):
            return network.no_sync()
        return nullcontext()

    def sum(self, values: Tensor) -> Tensor:
        """Sum over all processes."""
        if self.size > 1:
            values = values.clone()
            distributed.all_reduce(values)
        return values

    def wait(self) -> None:
        """Wait for all processes."""
        if self.size > 1:
            distributed.barrier()


def is_first() -> bool:
    """Whether this process prints; also valid outside `world`."""
    return os.environ.get("RANK", "0") == "0"


@contextmanager
def world(device: str = "auto") -> Iterator[World]:
    """The processes started by torchrun, or this process only; each CUDA process uses its own device."""
    size, rank = setting("WORLD_SIZE", 1), setting("RANK", 0, 0)
    place = choose_device(device)
    if size == 1 or "RANK" not in os.environ:
        yield World(0, 1, place)
        return
    if place.type == "cuda":
        local, devices = setting("LOCAL_RANK", 0, 0), torch.cuda.device_count()
        if local >= devices:
            raise UnmaskError(f"process {local} has no CUDA device. Start at most {devices}, one per device")
        place = torch.device("cuda", local)
        torch.cuda.set_device(place)
    try:
        distributed.init_process_group("nccl" if place.type == "cuda" else "gloo", rank=rank, world_size=size)
    except (ValueError, RuntimeError) as error:
        problem = f"process {rank} of {size} cannot connect to the others: {cut(str(error))}"
        raise UnmaskError(f"{problem}. Start with torchrun, which sets the environment variables") from error
    try:
        yield World(distributed.get_rank(), distributed.get_world_size(), place)
    finally:
        distributed.destroy_process_group()
