"""Arithmetic of sampling: a masked diffusion model against autoregression with a cache (theory.md 9).

A token needs, in each of n layers of width d, 8 d^2 + 6 d w operations in matrices and 4 c d in attention over a
context of c tokens, and 2 d |V| at the end. w = 8 d/3, rounded up, is the width of the gated MLP. A multiplication and
an addition count as two operations.

    one model call for all L tokens   n [L d (8 d + 6 w) + 4 L^2 d]       + 2 L d |V|
    L tokens one after another        n [L d (8 d + 6 w) + 2 d L (L+1)]   + 2 L d |V|

They differ only in attention: an AR model attends to the tokens so far, an MDM to all. So one model call costs as much
as all of autoregression: diffusion can win in time, never in arithmetic. The peak rate of this machine is measured by
products of large matrices.
"""

from __future__ import annotations

import time
from functools import cache
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from unmask.core.threads import torch_threads
from unmask.models.trained.shape import Shape

if TYPE_CHECKING:
    from unmask.models.trained.loop import Trained

SIZE = {"cpu": 1024, "cuda": 8192}  # of the two square matrices
SECONDS = 0.2  # of products; the fastest counts


def evaluation(shape: Shape, length: int) -> float:
    """Return the FLOP of one model call over all tokens."""
    return _matrices(shape, length) + shape.layers * 4.0 * length**2 * shape.hidden


def autoregression(shape: Shape, length: int) -> float:
    """Return the FLOP of writing tokens one by one; token t attends to t tokens, sum_t 4 t d = 2 d L (L+1)."""
    return _matrices(shape, length) + shape.layers * 2.0 * length * (length + 1) * shape.hidden


def training(shape: Shape, length: int) -> float:
    """Return the FLOP of training on one sequence: a forward pass, and twice that for the backward pass."""
    return 3.0 * evaluation(shape, length)


def break_even(shape: Shape, length: int) -> float:
    """Return the number of model calls with the arithmetic of autoregression: a little less than one."""
    return autoregression(shape, length) / evaluation(shape, length)


def model_calls(delta: Tensor, length: int, batch: int = 1) -> float:
    """Return the expected number of steps that reveal something, sum_k 1 - (1 - delta_k)^(L b).

    Other steps reuse the last answer. The b sequences of a batch share a forward pass.
    """
    return float((1 - (1 - delta) ** (length * batch)).sum())


def _matrices(shape: Shape, length: int) -> float:
    return length * shape.hidden * (shape.layers * (8.0 * shape.hidden + 6.0 * shape.wide) + 2.0 * shape.vocabulary)


def percent(trained: Trained) -> float:
    """Return the arithmetic rate of a training in percent of the peak with the same threads."""
    shape = trained.shape
    done = training(shape, shape.length) / shape.length * trained.tokens_per_second
    each = flop_per_second(torch.device(trained.device), getattr(torch, trained.precision), trained.threads)
    return 100 * done / each


@cache
def flop_per_second(device: torch.device, dtype: torch.dtype, threads: int) -> float:
    """Measure the peak rate by products of large matrices, once per process."""
    size = SIZE[device.type]
    left = torch.ones((size, size), device=device, dtype=dtype)

    least = float("inf")
    end = time.perf_counter() + SECONDS
    with torch_threads(threads), torch.inference_mode():
        while time.perf_counter() < end:
            began = now(device)
            left @ left
            least = min(least, now(device) - began)
    return 2.0 * size**3 / least


def now(device: torch.device) -> float:
    """Return the time in seconds once the device has done its work."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter()
