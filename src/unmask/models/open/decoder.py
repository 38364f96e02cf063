"""The interface of a network, and the decoder that Llama, Qwen2, Qwen3 and their derivatives share.

    x += W_o attention(rotate(W_q n(x)), rotate(W_k n(x)), W_v n(x)),    n(x) = g x / sqrt(mean x^2 + eps)
    x += W_down (silu(W_gate n(x)) * W_up n(x))

With experts, a router sends each token to a few of them, whose outputs are weighted and added:

    y = sum_{e in top(s + b)} w_e E_e(x) + S(x),    E_e(x) = W_down,e (silu(W_gate,e x) * W_up,e x)

    softmax   s = softmax(W x), w = s / sum s (SDAR), or s if norm_topk_prob is false
    sigmoid   s = sigmoid(W x), w = s / sum s times a factor; b affects only the choice (LLaDA2)

Only experts of the best groups can be chosen; the score of a group is the sum of its two best. Tokens are sorted by
expert, so that one grouped product computes all experts. Parameters are named as in the Llama of transformers, like in
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
Depth = Annotated[int, msgspec.Meta(ge=1, le=2**12)]  # number of layers or experts
EVEN = 1e-20  # prevents a division by zero
ALIGNED = 16  # rows of a grouped product must be multiples of this number of bytes; it does not support float64


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
        return next(self.parameters()).device

    @property
    def dtype(self) -> torch.dtype:
        return next(self.parameters()).dtype

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
    rotary: float = 1.0  # fraction of a head that is rotated
    eps: float = 1e-6
    bias: bool = False  # of queries, keys and values
    normed: bool = False  # queries and keys, for each head
    tied: bool = False  # the head is the embedding
    symbols: Count | None = None  # rows of the embedding, if not those of the head

    def __post_init__(self) -> None:
        if self.heads % self.kv or self.width < 1 or int(self.width * self.rotary) % 2:
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


class Experts(msgspec.Struct, frozen=True, kw_only=True):
    """The settings of experts, from config.json."""

    count: int
    chosen: int  # per token
    inner: int  # width of an expert
    sigmoid: bool = False
    normalised: bool = False  # the weights of a token sum to one, before the factor
    groups: int = 1
    best: int = 1  # number of groups to choose from
    factor: float = 1.0  # of the weights
    shared: int = 0  # width of the shared expert, which processes every token
    dense: int = 0  # number of first layers without experts

    def __post_init__(self) -> None:
        open_to = self.count // self.groups * self.best
        if self.count % self.groups or self.best > self.groups or self.chosen > open_to:
            problem = f"config.json chooses {self.chosen} of {self.count} experts"
            raise UnmaskError(f"{problem}; expected at most {open_to}, from {self.best} of {self.groups} groups")


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


class MoE(nn.Module):
    def __init__(self, hidden: int, experts: Experts) -> None:
        super().__init__()
        self.experts = experts
        self.router = nn.Linear(hidden, experts.count, bias=False)
        if experts.sigmoid:
            self.bias = nn.Parameter(torch.zeros(experts.count))
        self.gate_up = nn.Parameter(torch.empty(experts.count, 2 * experts.inner, hidden))
        self.down = nn.Parameter(torch.empty(experts.count, hidden, experts.inner))
        self.shared = MLP(hidden, experts.shared) if experts.shared else None

    def forward(self, x: Tensor) -> Tensor:
        tokens = x.flatten(0, -2)
        chosen, weights = self.route(tokens)
        flat = chosen.flatten()
        order = flat.argsort(stable=True)
        counts = flat.new_zeros(self.experts.count)
        counts.scatter_add_(0, flat, torch.ones_like(flat))  # without waiting for the device
        outputs = self._compute(tokens[order // self.experts.chosen], counts)
        back = torch.empty_like(outputs)
        back[order] = outputs
        mixed = (back.unflatten(0, chosen.shape).to(weights.dtype) * weights.unsqueeze(-1)).sum(1)
        out = mixed.to(x.dtype).view_as(x)
        return out if self.shared is None else out + self.shared(x)

    def route(self, tokens: Tensor) -> tuple[Tensor, Tensor]:
        """(experts, weights), (T, chosen) each, for tokens (T, hidden): the best first, at least in float32."""
        experts = self.experts
        exact = torch.promote_types(tokens.dtype, torch.float32)
        if not experts.sigmoid:
            weights, chosen = self.router(tokens).to(exact).softmax(-1).topk(experts.chosen)
        else:
            scores = functional.linear(tokens.to(exact), self.router.weight.to(exact)).sigmoid()
            chosen = self._allowed(scores + self.bias.to(exact)).topk(experts.chosen).indices
            weights = scores.gather(1, chosen)
        if experts.normalised:
            weights = weights / (weights.sum(-1, keepdim=True) + EVEN)
        return chosen, weights * experts.factor

    def _allowed(self, scores: Tensor) -> Tensor:
        """Scores (T, experts), with minus infinity outside the best groups of each token."""
        if self.experts.groups == 1:
            return scores
        grouped = scores.unflatten(1, (self.experts.groups, -1))
        best = grouped.topk(2).values.sum(-1).topk(self.experts.best).indices
        outside = torch.ones_like(grouped[..., 0], dtype=torch.bool).scatter(1, best, False)
        return grouped.masked_fill(outside.unsqueeze(-1), -torch.inf).flatten(1)

    def _compute(self, tokens: Tensor, counts: Tensor) -> Tensor:
        """Outputs (T, hidden) of tokens (T, hidden) sorted by expert, with counts (experts)."""

        def through(x: Tensor, weight: Tensor) -> Tensor:
            if x.dtype == torch.float64 or any(size * x.element_size() % ALIGNED for size in weight.shape[1:]):
                parts = x.split(counts.tolist())
                return torch.cat([functional.linear(part, own) for part, own in zip(parts, weight, strict=True)])
            return functional.grouped_mm(x, weight.mT, offs=counts.cumsum(0).to(torch.int32))

        gate, up = through(tokens, self.gate_up).chunk(2, -1)
        return through(functional.silu(gate) * up, self.down)


class Layer(nn.Module):
    def __init__(self, shape: Shape, experts: Experts | None) -> None:
        super().__init__()
        self.input_layernorm = Norm(shape.hidden, shape.eps)
        self.self_attn = Attention(shape)
        self.post_attention_layernorm = Norm(shape.hidden, shape.eps)
        self.mlp = MLP(shape.hidden, shape.inner) if experts is None else MoE(shape.hidden, experts)

    def forward(self, x: Tensor, rotate: Rotary, seen: Tensor | None, reach: Reach | None, layer: int) -> Tensor:
        x = x + self.self_attn(self.input_layernorm(x), rotate, seen, reach, layer)
        return x + self.mlp(self.post_attention_layernorm(x))


class Stack(nn.Module):
    def __init__(self, shape: Shape, experts: Experts | None) -> None:
        super().__init__()
        dense = shape.layers if experts is None else experts.dense
        layers = (Layer(shape, None if layer < dense else experts) for layer in range(shape.layers))
        self.embed_tokens = embedding(shape.symbols or shape.vocabulary, shape.hidden)
        self.layers = nn.ModuleList(layers)
        self.norm = Norm(shape.hidden, shape.eps)


class Decoder(Body):
    """experts: in place of the MLPs of all layers but the first ones. rounded: cosines and sines have the precision of
    bfloat16, also with other types of weights."""

    def __init__(self, shape: Shape, experts: Experts | None = None, rounded: bool = False) -> None:
        sizes = Sizes(shape.layers, shape.kv, shape.width)
        super().__init__(shape.vocabulary, shape.hidden, shape.context, sizes, shape.heads * shape.width)
        self.shape, self.rounded = shape, rounded
        self.model = Stack(shape, experts)
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
        rotate = Rotary(columns, int(self.shape.width * self.shape.rotary), self.shape.theta, self.dtype)
        if self.rounded:
            rotate.cos, rotate.sin = (part.bfloat16().to(self.dtype) for part in (rotate.cos, rotate.sin))
        return rotate

    def parameters_used(self) -> int:
        """Number of weights that multiply one token; chosen experts alone count."""
        outside = ("model.embed", "lm_head")
        used = sum(weight.numel() for name, weight in self.named_parameters() if not name.startswith(outside))
        for layer in self.modules():
            if isinstance(layer, MoE):
                idle = 1 - layer.experts.chosen / layer.experts.count
                used -= round(idle * (layer.gate_up.numel() + layer.down.numel()))
        return used
