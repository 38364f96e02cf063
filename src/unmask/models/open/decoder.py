"""The decoder that Llama, Qwen2, Qwen3 and their derivatives share, with any attention pattern.

    x += W_o attention(rotate(W_q n(x)), rotate(W_k n(x)), W_v n(x)),    n(x) = g x / sqrt(mean x^2 + eps)
    x += W_down (silu(W_gate n(x)) * W_up n(x))

Parameters are named as in the Llama of transformers, like in most checkpoints.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import torch
from torch import Tensor, nn
from torch.nn import functional

from unmask.core.errors import UnmaskError
from unmask.models.open.body import Body, Sizes
from unmask.models.trained.cache import Reach
from unmask.models.trained.trunk import embedding


class Shape(msgspec.Struct, frozen=True, kw_only=True):
    """The sizes of a decoder, from its config.json."""

    vocabulary: int  # rows of the head
    hidden: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    inner: int  # width of the MLP
    context: int
    theta: float = 1e4  # base of the rotary periods
    rotary: float = 1.0  # fraction of a head that is rotated
    eps: float = 1e-6
    bias: bool = False  # of queries, keys and values
    normed: bool = False  # queries and keys, for each head
    tied: bool = False  # the head is the embedding
    symbols: int | None = None  # rows of the embedding, if not those of the head

    def __post_init__(self) -> None:
        if self.heads % self.kv_heads or self.head_dim < 1 or int(self.head_dim * self.rotary) % 2:
            problem = (
                f"config.json has {self.heads} heads of width {self.head_dim}, and {self.kv_heads} of keys and values"
            )
            raise UnmaskError(f"{problem}; expected a multiple of the latter, and an even width")


class Norm(nn.Module):
    """RMSNorm, in float32 at least."""

    def __init__(self, width: int, eps: float) -> None:
        super().__init__()
        self.weight, self.eps = nn.Parameter(torch.ones(width)), eps

    def forward(self, x: Tensor) -> Tensor:
        exact = x if x.dtype == torch.float64 else x.float()
        return self.weight * (exact * torch.rsqrt(exact.square().mean(-1, keepdim=True) + self.eps)).to(x.dtype)


class Rotary:
    """(cos, sin), (R, 1, W, D) of columns (R, W): pairs of a head's halves are turned by column / theta^(2 i / D)."""

    def __init__(self, columns: Tensor, width: int, theta: float, dtype: torch.dtype) -> None:
        turns = 1.0 / theta ** (torch.arange(0, width, 2, device=columns.device).float() / width)
        angles = columns.unsqueeze(-1).float() * turns
        angles = torch.cat([angles, angles], -1).unsqueeze(1)
        self.width, self.cos, self.sin = width, angles.cos().to(dtype), angles.sin().to(dtype)

    def __call__(self, x: Tensor) -> Tensor:
        """Rotate the first `width` numbers of x (R, heads, W, D)."""
        turned, rest = x[..., : self.width], x[..., self.width :]
        left, right = turned.chunk(2, -1)
        turned = turned * self.cos + torch.cat([-right, left], -1) * self.sin
        return torch.cat([turned, rest], -1) if rest.shape[-1] else turned


class Attention(nn.Module):
    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.heads, self.kv_heads, self.width = shape.heads, shape.kv_heads, shape.head_dim
        self.q_proj = nn.Linear(shape.hidden, shape.heads * shape.head_dim, bias=shape.bias)
        self.k_proj = nn.Linear(shape.hidden, shape.kv_heads * shape.head_dim, bias=shape.bias)
        self.v_proj = nn.Linear(shape.hidden, shape.kv_heads * shape.head_dim, bias=shape.bias)
        self.o_proj = nn.Linear(shape.heads * shape.head_dim, shape.hidden, bias=False)
        self.q_norm = Norm(shape.head_dim, shape.eps) if shape.normed else nn.Identity()
        self.k_norm = Norm(shape.head_dim, shape.eps) if shape.normed else nn.Identity()

    def forward(self, x: Tensor, rotate: Rotary, seen: Tensor | None, reach: Reach | None, layer: int) -> Tensor:
        def heads(projected: Tensor) -> Tensor:
            return projected.unflatten(-1, (-1, self.width))

        query = rotate(self.q_norm(heads(self.q_proj(x))).transpose(1, 2))
        key = rotate(self.k_norm(heads(self.k_proj(x))).transpose(1, 2))
        value = heads(self.v_proj(x)).transpose(1, 2)
        if reach is not None:
            key, value = reach.write(layer, key, value)
        out = functional.scaled_dot_product_attention(
            query, key, value, attn_mask=seen, enable_gqa=self.kv_heads != self.heads
        )
        return self.o_proj(out.transpose(1, 2).flatten(2))


class MLP(nn.Module):
    def __init__(self, hidden: int, inner: int) -> None:
        super().__init__()
        self.gate_proj = nn.Linear(hidden, inner, bias=False)
        self.up_proj = nn.Linear(hidden, inner, bias=False)
        self.down_proj = nn.Linear(inner, hidden, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.down_proj(functional.silu(self.gate_proj(x)) * self.up_proj(x))


class Layer(nn.Module):
    def __init__(self, shape: Shape, mlp: nn.Module) -> None:
        super().__init__()
        self.input_layernorm = Norm(shape.hidden, shape.eps)
        self.self_attn = Attention(shape)
        self.post_attention_layernorm = Norm(shape.hidden, shape.eps)
        self.mlp = mlp

    def forward(self, x: Tensor, rotate: Rotary, seen: Tensor | None, reach: Reach | None, layer: int) -> Tensor:
        x = x + self.self_attn(self.input_layernorm(x), rotate, seen, reach, layer)
        return x + self.mlp(self.post_attention_layernorm(x))


class Stack(nn.Module):
    def __init__(self, shape: Shape, mlp: Callable[[int], nn.Module]) -> None:
        super().__init__()
        self.embed_tokens = embedding(shape.symbols or shape.vocabulary, shape.hidden)
        self.layers = nn.ModuleList(Layer(shape, mlp(layer)) for layer in range(shape.layers))
        self.norm = Norm(shape.hidden, shape.eps)


class Decoder(Body):
    """mlp: the module after the attention of a layer, by its number. (default: a gated MLP)"""

    def __init__(self, shape: Shape, mlp: Callable[[int], nn.Module] | None = None) -> None:
        super().__init__()
        self.shape = shape
        self.vocabulary, self.hidden, self.context = shape.vocabulary, shape.hidden, shape.context
        self.sizes = Sizes(shape.layers, shape.kv_heads, shape.head_dim)
        self.model = Stack(shape, mlp or (lambda layer: MLP(shape.hidden, shape.inner)))
        if not shape.tied:
            self.lm_head = nn.Linear(shape.hidden, shape.vocabulary, bias=False)

    def states(self, tokens: Tensor, columns: Tensor | None, seen: Tensor | None, reach: Reach | None) -> Tensor:
        x = self.model.embed_tokens(tokens)
        rotate = self.rotary(torch.arange(tokens.shape[1], device=tokens.device)[None] if columns is None else columns)
        for number, layer in enumerate(self.model.layers):
            x = layer(x, rotate, seen, reach, number)
        return self.model.norm(x)

    def logits(self, states: Tensor) -> Tensor:
        head = self.model.embed_tokens if self.shape.tied else self.lm_head
        return functional.linear(states, head.weight)

    def rotary(self, columns: Tensor) -> Rotary:
        width = int(self.shape.head_dim * self.shape.rotary)
        return Rotary(columns, width, self.shape.theta, self.dtype)

    @property
    def _attended(self) -> int:
        return self.shape.heads * self.shape.head_dim
