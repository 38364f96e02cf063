"""The interface of a network, and the decoder that Llama, Qwen2, Qwen3 and their derivatives share.

    x += W_o attention(rotate(W_q n(x)), rotate(W_k n(x)), W_v n(x)),    n(x) = g x / sqrt(mean x^2 + eps)
    x += W_down (silu(W_gate n(x)) * W_up n(x))

Parameters are named as in the Llama of transformers, like in
most checkpoints. R rows, W columns of each, L positions of a row, T keys.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Annotated, NamedTuple

import msgspec
import torch
from torch import Tensor, nn
from torch.nn import functional

from unmask.core.errors import UnmaskError
from unmask.models.trained.trunk import Reach, embedding

Count = Annotated[int, msgspec.Meta(ge=1, le=2**24)]
Depth = Annotated[int, msgspec.Meta(ge=1, le=2**12)]  # number of layers


class Sizes(NamedTuple):
    """Shape of the KV cache: layers, heads, and width of a head."""

    layers: int
    heads: int
    width: int


class Body(nn.Module):
    """A network from token ids to states. It treats the mask as an ordinary token."""

    block: int | None = None  # the block length of its training, if config.json has it

    def __init__(
        self, vocabulary: int, hidden: int, context: int, sizes: Sizes | None, attended: int | None = None
    ) -> None:
        """vocabulary: rows of the head; context: largest number of positions; sizes: None without a KV cache, so it
        always computes whole rows; attended: width of a token's query in one layer, over all heads."""
        super().__init__()
        self.vocabulary, self.hidden, self.context, self.sizes = vocabulary, hidden, context, sizes
        self.attended = attended or hidden

    @abstractmethod
    def states(self, tokens: Tensor, columns: Tensor | None, seen: Tensor | None, reach: Reach | None) -> Tensor:
        """(R, W, hidden): the last hidden states of tokens (R, W).

        columns: (R, W), the position of each token in its row; None: 0..W-1. seen: Bool (R or 1, 1, W or 1, T), the
        keys that each token attends to; None: all. reach: the KV cache.
        """

    @abstractmethod
    def logits(self, states: Tensor) -> Tensor:
        """Logits (.., V) of states (.., hidden)."""

    @property
    def device(self) -> torch.device:
        return next((weight.device for weight in self.parameters()), torch.device("cpu"))

    @property
    def dtype(self) -> torch.dtype:
        return next((weight.dtype for weight in self.parameters() if weight.is_floating_point()), torch.float32)

    @abstractmethod
    def parameters_used(self) -> int:
        """Number of weights that multiply one token, without the embedding and the head."""

    def flops(self, columns: int, keys: int) -> float:
        """FLOPs of all layers for a number of columns, each attending to `keys` keys; a multiply-add counts as two."""
        attention = 0.0 if self.sizes is None else 4.0 * self.sizes.layers * columns * keys * self.attended
        return 2.0 * columns * self.parameters_used() + attention


class Shape(msgspec.Struct, frozen=True, kw_only=True):
    """The sizes of a decoder, from its config.json."""

    vocabulary: Count  # rows of the head
    hidden: Count
    layers: Depth
    heads: Count
    kv_heads: Count | None = None  # by default, each head has keys and values
    head_dim: Count | None = None
    inner: Count  # width of the MLP
    context: Count = 2048
    theta: float = 1e4  # base of the rotary periods
    eps: float = 1e-6
    bias: bool = False  # of queries, keys and values
    normed: bool = False  # queries and keys, for each head
    tied: bool = False  # the head is the embedding

    def __post_init__(self) -> None:
        if self.heads % self.kv or self.width < 1 or self.width % 2:
            problem = f"config.json has {self.heads} heads of width {self.width}, and {self.kv} of keys and values"
            raise UnmaskError(f"{problem}; expected a multiple of the latter, and an even width")

    @property
    def kv(self) -> int:
        """Number of heads with keys and values."""
        return self.kv_heads or self.heads

    @property
    def width(self) -> int:
        """Width of a head."""
        return self.head_dim or self.hidden // self.heads


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
        self.cos, self.sin = angles.cos().to(dtype), angles.sin().to(dtype)

    def __call__(self, x: Tensor) -> Tensor:
        """Rotate x (R, heads, W, D)."""
        left, right = x.chunk(2, -1)
        return x * self.cos + torch.cat([-right, left], -1) * self.sin


class Attention(nn.Module):
    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.width, self.grouped = shape.width, shape.kv != shape.heads
        self.q_proj = nn.Linear(shape.hidden, shape.heads * shape.width, bias=shape.bias)
        self.k_proj = nn.Linear(shape.hidden, shape.kv * shape.width, bias=shape.bias)
        self.v_proj = nn.Linear(shape.hidden, shape.kv * shape.width, bias=shape.bias)
        self.o_proj = nn.Linear(shape.heads * shape.width, shape.hidden, bias=False)
        self.q_norm = Norm(shape.width, shape.eps) if shape.normed else nn.Identity()
        self.k_norm = Norm(shape.width, shape.eps) if shape.normed else nn.Identity()

    def forward(self, x: Tensor, rotate: Rotary, seen: Tensor | None, reach: Reach | None, layer: int) -> Tensor:
        query, key, value = (
            projected(x).unflatten(-1, (-1, self.width)) for projected in (self.q_proj, self.k_proj, self.v_proj)
        )
        query, key = rotate(self.q_norm(query).transpose(1, 2)), rotate(self.k_norm(key).transpose(1, 2))
        value = value.transpose(1, 2)
        if reach is not None:
            key, value = reach.write(layer, key, value)
        out = functional.scaled_dot_product_attention(query, key, value, attn_mask=seen, enable_gqa=self.grouped)
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
    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.input_layernorm = Norm(shape.hidden, shape.eps)
        self.self_attn = Attention(shape)
        self.post_attention_layernorm = Norm(shape.hidden, shape.eps)
        self.mlp = MLP(shape.hidden, shape.inner)

    def forward(self, x: Tensor, rotate: Rotary, seen: Tensor | None, reach: Reach | None, layer: int) -> Tensor:
        x = x + self.self_attn(self.input_layernorm(x), rotate, seen, reach, layer)
        return x + self.mlp(self.post_attention_layernorm(x))


class Stack(nn.Module):
    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.embed_tokens = embedding(shape.vocabulary, shape.hidden)
        self.layers = nn.ModuleList(Layer(shape) for _ in range(shape.layers))
        self.norm = Norm(shape.hidden, shape.eps)


class Decoder(Body):
    def __init__(self, shape: Shape) -> None:
        sizes = Sizes(shape.layers, shape.kv, shape.width)
        super().__init__(shape.vocabulary, shape.hidden, shape.context, sizes, shape.heads * shape.width)
        self.shape, self.model = shape, Stack(shape)
        if not shape.tied:
            self.lm_head = nn.Linear(shape.hidden, shape.vocabulary, bias=False)

    def states(self, tokens: Tensor, columns: Tensor | None, seen: Tensor | None, reach: Reach | None) -> Tensor:
        x = self.model.embed_tokens(tokens)
        columns = torch.arange(tokens.shape[1], device=tokens.device)[None] if columns is None else columns
        rotate = Rotary(columns, self.shape.width, self.shape.theta, self.dtype)
        for number, layer in enumerate(self.model.layers):
            x = layer(x, rotate, seen, reach, number)
        return self.model.norm(x)

    def logits(self, states: Tensor) -> Tensor:
        head = self.model.embed_tokens if self.shape.tied else self.lm_head
        return functional.linear(states, head.weight)

    def parameters_used(self) -> int:
        outside = ("model.embed", "lm_head")
        return sum(weight.numel() for name, weight in self.named_parameters() if not name.startswith(outside))
