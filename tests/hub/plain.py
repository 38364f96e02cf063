"""The arithmetic of transformers written out, in float64, one row and one head at a time: what ours is held against.

L positions of one row, H heads of width D.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor


def rms(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    return torch.stack([row / math.sqrt(float((row * row).mean()) + eps) for row in x]) * weight


def layer_norm(x: Tensor, weight: Tensor, eps: float = 1e-5) -> Tensor:
    rows = [(row - row.mean()) / math.sqrt(float(((row - row.mean()) ** 2).mean()) + eps) for row in x]
    return torch.stack(rows) * weight


def silu(x: Tensor) -> Tensor:
    return x / (1 + torch.exp(-x))


def gelu(x: Tensor) -> Tensor:
    """With tanh."""
    return 0.5 * x * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


def swiglu(x: Tensor, gate: Tensor, up: Tensor, down: Tensor) -> Tensor:
    return (silu(x @ gate.T) * (x @ up.T)) @ down.T


def angles(length: int, width: int, theta: float) -> Tensor:
    """(L, width / 2), in float32 as all of them publish it."""
    turns = 1.0 / theta ** (torch.arange(0, width, 2).float() / width)
    return torch.outer(torch.arange(length).float(), turns)


def rotated(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """x (L, D): number i of the first half is turned with number i of the second; what is beyond both is left."""
    half = cos.shape[1]
    out = x.clone()
    for i in range(half):
        first, second = x[:, i], x[:, half + i]
        out[:, i] = first * cos[:, i].double() - second * sin[:, i].double()
        out[:, half + i] = second * cos[:, i].double() + first * sin[:, i].double()
    return out


def attention(query: Tensor, key: Tensor, value: Tensor, seen: Tensor) -> Tensor:
    """(L, H D) of queries (L, H, D), keys and values (L, fewer heads, D); seen (L, L)."""
    heads, width = query.shape[1:]
    share = heads // key.shape[1]
    out = []
    for head in range(heads):
        scores = query[:, head] @ key[:, head // share].T / math.sqrt(width)
        scores = scores.masked_fill(~seen, -math.inf)
        weights = torch.exp(scores - scores.max(1, keepdim=True).values)
        out.append(weights / weights.sum(1, keepdim=True) @ value[:, head // share])
    return torch.cat(out, 1)


def sight(length: int, block: int | None) -> Tensor:
    """(L, L): all of it, or of each block itself and those before it."""
    if block is None:
        return torch.ones(length, length, dtype=torch.bool)
    return torch.tensor([[key // block <= query // block for key in range(length)] for query in range(length)])
