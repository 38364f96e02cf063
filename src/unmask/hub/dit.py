"""The transformer of MDLM and BD3-LM: a DiT with constant conditions.

A small network of the noise level computes shifts, scales and gates for each norm, attention and MLP. Both models were
trained with noise level zero, so these are constant. They are folded into the weights when the model is loaded. The
result is a plain transformer whose norms have biases.

    c = silu(M_2 silu(M_0 (1, .., 1, 0, .., 0) + m_0) + m_2),    shift, scale, gate = A c + a
    norms have the weight g (1 + scale) and the bias shift; projections have the weight gate W
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional

from unmask.hub.body import Body, Sizes
from unmask.hub.decoder import Rotary
from unmask.networks.model.cache import Reach

THETA = 1e4
EPS = 1e-5
RATIO = 4  # width of the MLP divided by that of the states


class Block(nn.Module):
    def __init__(self, hidden: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(hidden, EPS), nn.LayerNorm(hidden, EPS)
        self.qkv = nn.Linear(hidden, 3 * hidden, bias=False)
        self.out = nn.Linear(hidden, hidden, bias=False)
        self.up, self.down = nn.Linear(hidden, RATIO * hidden), nn.Linear(RATIO * hidden, hidden)

    def forward(self, x: Tensor, rotate: Rotary, seen: Tensor | None, reach: Reach | None, layer: int) -> Tensor:
        query, key, value = self.qkv(self.norm1(x)).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        query, key = rotate(query), rotate(key)
        if reach is not None:
            key, value = reach.write(layer, key, value)
        attended = functional.scaled_dot_product_attention(query, key, value, attn_mask=seen)
        x = x + self.out(attended.transpose(1, 2).flatten(2))
        return x + self.down(functional.gelu(self.up(self.norm2(x)), approximate="tanh"))


class DiT(Body):
    """conditions: their number in the checkpoint, before folding."""

    def __init__(self, vocabulary: int, hidden: int, layers: int, heads: int, context: int, conditions: int) -> None:
        super().__init__()
        self.conditions = conditions
        self.vocabulary, self.hidden, self.context = vocabulary, hidden, context
        self.sizes = Sizes(layers, heads, hidden // heads)
        self.width = hidden // heads
        self.embed = nn.Parameter(torch.empty(vocabulary, hidden))
        self.blocks = nn.ModuleList(Block(hidden, heads) for _ in range(layers))
        self.norm = nn.LayerNorm(hidden, EPS)
        self.head = nn.Linear(hidden, vocabulary)

    def states(self, tokens: Tensor, columns: Tensor | None, seen: Tensor | None, reach: Reach | None) -> Tensor:
        x = self.embed[tokens]
        if columns is None:
            columns = torch.arange(tokens.shape[1], device=tokens.device)[None]
        rotate = Rotary(columns, self.width, THETA, self.dtype)
        for number, block in enumerate(self.blocks):
            x = block(x, rotate, seen, reach, number)
        return self.norm(x)

    def logits(self, states: Tensor) -> Tensor:
        return self.head(states)

    def parameters_used(self) -> int:
        return sum(weight.numel() for weight in self.blocks.parameters())


def modulation(tensors: Sequence[Tensor], parts: int) -> Tensor:
    """(parts, hidden) in float64 from (A, a, M_0, m_0, M_2, m_2).

    The parts are shift, scale and gate of the attention, then those of the MLP; for the last norm, shift and scale. The
    embedding of noise level zero is one for cosines and zero for sines.
    """
    weight, bias, first, first_bias, second, second_bias = (tensor.double() for tensor in tensors)
    level = torch.zeros(first.shape[1], dtype=torch.float64)
    level[: first.shape[1] // 2] = 1
    conditions = functional.silu(second @ functional.silu(first @ level + first_bias) + second_bias)
    return (weight @ conditions + bias).unflatten(0, (parts, -1))
