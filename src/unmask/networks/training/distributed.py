"""Several processes that train one network: `torchrun --nproc-per-node=N -m unmask train ...`.

Each process computes its part of every batch and holds the whole network; gradients are averaged by DDP. Without
torchrun there is one process, and nothing of this is used.
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
from unmask.networks.model.checkpoints import choose_device
from unmask.networks.model.trunk import Trunk
from unmask.networks.training.objectives import Network


@dataclass(frozen=True)
class World:
    """Process `rank` of `size`; the first one writes, and speaks."""

    rank: int
    size: int
    device: torch.device

    @property
    def first(self) -> bool:
        return self.rank == 0

    def part(self, batch: int) -> slice:
        """The rows of a batch that are this process's."""
        if batch % self.size:
            raise UnmaskError(f"a batch of {batch} cannot be shared by {self.size} processes; take a multiple of them")
        share = batch // self.size
        return slice(self.rank * share, (self.rank + 1) * share)

    def share(self, trunk: Trunk) -> Network:
        """The network whose gradients are those of all processes together."""
        if self.size == 1:
            return trunk
        return DistributedDataParallel(trunk)

    def alone(self, network: Network, more_to_come: bool) -> AbstractContextManager[None]:
        """While more parts of a batch are to come, gradients are not exchanged yet."""
        if more_to_come and isinstance(network, DistributedDataParallel):
            return network.no_sync()
        return nullcontext()

    def sum(self, values: Tensor) -> Tensor:
        """Over all processes."""
        if self.size > 1:
            values = values.clone()
            distributed.all_reduce(values)
        return values

    def wait(self) -> None:
        """Until all processes are here."""
        if self.size > 1:
            distributed.barrier()


def is_first() -> bool:
    """Is this the process that speaks? Before and after there is a world, too."""
    return os.environ.get("RANK", "0") == "0"


@contextmanager
def world(device: str = "auto") -> Iterator[World]:
    """The processes that torchrun has started, or this one alone; CUDA processes take a device each."""
    size, rank = setting("WORLD_SIZE", 1), setting("RANK", 0, 0)
    place = choose_device(device)
    if size == 1 or "RANK" not in os.environ:
        yield World(0, 1, place)
        return
    if place.type == "cuda":
        local, there = setting("LOCAL_RANK", 0, 0), torch.cuda.device_count()
        if local >= there:
            raise UnmaskError(f"process {local} has no CUDA device: there are {there}; start at most so many processes")
        place = torch.device("cuda", local)
        torch.cuda.set_device(place)
    try:
        distributed.init_process_group("nccl" if place.type == "cuda" else "gloo", rank=rank, world_size=size)
    except (ValueError, RuntimeError) as error:
        what = "torchrun sets what the environment must say of them"
        raise UnmaskError(f"process {rank} of {size} does not find the others: {cut(str(error))}; {what}") from error
    try:
        yield World(distributed.get_rank(), distributed.get_world_size(), place)
    finally:
        distributed.destroy_process_group()
