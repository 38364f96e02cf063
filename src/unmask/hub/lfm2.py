"""Bidirectional LFM2: a few layers of attention among layers of short convolutions.

    x += operator(n(x));  x += W_2 (silu(W_1 n(x)) * W_3 n(x))
    operator   attention as in decoder.py, queries and keys normed; or  W_out (C * conv(B * z)),  B, C, z = W_in x

The convolution has a centred kernel per channel; positions after the end of a row count as zero. It depends on all
neighbours, so there is no KV cache.
"""

from __future__ import annotations

import msgspec
import torch
from torch import Tensor, nn
from torch.nn import functional

from unmask.hub.body import Body
from unmask.hub.decoder import MLP, Attention, Norm, Rotary, Shape
from unmask.networks.model.cache import Reach
from unmask.networks.model.trunk import embedding


class Hybrid(msgspec.Struct, frozen=True, kw_only=True):
    """The settings of config.json beyond the shape."""

    attends: tuple[bool, ...]  # by layer: attention or convolution
    kernel: int


class Convolution(nn.Module):
    def __init__(self, hidden: int, kernel: int) -> None:
        super().__init__()
        self.in_proj = nn.Linear(hidden, 3 * hidden, bias=False)
        self.weight = nn.Parameter(torch.empty(hidden, 1, kernel))
        self.out_proj = nn.Linear(hidden, hidden, bias=False)

    def forward(self, x: Tensor, valid: Tensor | None) -> Tensor:
        """x (R, L, hidden); valid: Bool (R, L, 1), False for padding."""
        gate, after, inside = self.in_proj(x if valid is None else x * valid).chunk(3, -1)
        kernel = self.weight.shape[-1]
        mixed = functional.conv1d((gate * inside).mT, self.weight, padding=kernel // 2, groups=len(self.weight))
        return self.out_proj(after * mixed.mT)


class Layer(nn.Module):
    def __init__(self, shape: Shape, attends: bool, kernel: int) -> None:
        super().__init__()
        self.attends = attends
        self.operator_norm, self.ffn_norm = Norm(shape.hidden, shape.eps), Norm(shape.hidden, shape.eps)
        self.operator = Attention(shape) if attends else Convolution(shape.hidden, kernel)
        self.mlp = MLP(shape.hidden, shape.inner)

    def forward(self, x: Tensor, rotate: Rotary, seen: Tensor | None, valid: Tensor | None) -> Tensor:
        normed = self.operator_norm(x)
        x = x + (self.operator(normed, rotate, seen, None, 0) if self.attends else self.operator(normed, valid))
        return x + self.mlp(self.ffn_norm(x))


class LFM2(Body):
    def __init__(self, shape: Shape, hybrid: Hybrid) -> None:
        super().__init__()
        self.shape, self.hybrid = shape, hybrid
        self.vocabulary, self.hidden, self.context, self.sizes = shape.vocabulary, shape.hidden, shape.context, None
        self.embed = embedding(shape.vocabulary, shape.hidden)
        self.layers = nn.ModuleList(Layer(shape, attends, hybrid.kernel) for attends in hybrid.attends)
        self.norm = Norm(shape.hidden, shape.eps)

    def states(self, tokens: Tensor, columns: Tensor | None, seen: Tensor | None, reach: Reach | None) -> Tensor:
        x = self.embed(tokens)
        width = torch.arange(tokens.shape[1], device=tokens.device)[None]
        rotate = Rotary(width, self.shape.head_dim, self.shape.theta, self.dtype)
        valid = None if seen is None else seen[:, 0, 0, :, None]
        for layer in self.layers:
            x = layer(x, rotate, seen, valid)
        return self.norm(x)

    def logits(self, states: Tensor) -> Tensor:
        return functional.linear(states, self.embed.weight)

    def parameters_used(self) -> int:
        return sum(weight.numel() for weight in self.layers.parameters())

    def flops(self, columns: int, keys: int) -> float:
        return super().flops(columns, keys) + 4.0 * sum(self.hybrid.attends) * columns * keys * self.hidden
