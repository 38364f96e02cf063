"""Peak arithmetic per second of this machine, measured by products of large matrices."""

from __future__ import annotations

import time
from functools import cache

import torch

from unmask.core.threads import torch_threads
from unmask.cost import flops
from unmask.networks.training.trained import Trained

SIZE = {"cpu": 1024, "cuda": 8192}  # of the two square matrices
SECONDS = 0.2  # of products; the fastest counts


def percent(trained: Trained) -> float:
    """Return the arithmetic rate of a training in percent of the peak with the same threads or devices."""
    shape = trained.shape
    done = flops.training(shape, shape.length) / shape.length * trained.tokens_per_second
    each = flop_per_second(torch.device(trained.device), getattr(torch, trained.precision), trained.threads)
    return 100 * done / (each * trained.processes)


@cache
def flop_per_second(device: torch.device, dtype: torch.dtype, threads: int) -> float:
    """Measure the peak rate by products of large matrices, once per process."""
    size = SIZE[device.type]
    left = torch.ones((size, size), device=device, dtype=dtype)
    least, end = float("inf"), time.perf_counter() + SECONDS
    with torch_threads(threads), torch.inference_mode():
        while time.perf_counter() < end:
            began = _now(device)
            left @ left
            least = min(least, _now(device) - began)
    return 2.0 * size**3 / least


def _now(device: torch.device) -> float:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter()
