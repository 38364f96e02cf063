"""The arithmetic of transformers written out, in float64, one row and one head at a time: what ours is held against.

L positions of one row, H heads of width D.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

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


def canonical(
    seed: int = 1,
    *,
    symbols: int,
    rows: int | None = None,
    hidden: int = 32,
    layers: int = 2,
    heads: int = 4,
    kv_heads: int = 2,
    width: int = 8,
    inner: int = 48,
) -> dict[str, Tensor]:
    """Random weights of a decoder under plain names, to be written under published ones; rows: of the head."""
    rng = torch.Generator().manual_seed(seed)

    def some(*shape: int, scale: float = 1.5) -> Tensor:
        return torch.randn(shape, generator=rng, dtype=torch.float64) * scale * shape[-1] ** -0.5

    made = {"embed": some(symbols, hidden, scale=4), "head": some(rows or symbols, hidden), "norm": some(hidden) + 1}
    for n in range(layers):
        made |= {
            f"{n}.ln1": some(hidden) + 1,
            f"{n}.ln2": some(hidden) + 1,
            f"{n}.q": some(heads * width, hidden),
            f"{n}.k": some(kv_heads * width, hidden),
            f"{n}.v": some(kv_heads * width, hidden),
            f"{n}.o": some(hidden, heads * width),
            f"{n}.qn": some(width) + 1,
            f"{n}.kn": some(width) + 1,
            f"{n}.gate": some(inner, hidden),
            f"{n}.up": some(inner, hidden),
            f"{n}.down": some(hidden, inner),
        }
    return made


def decoder(
    own: Mapping[str, Tensor],
    row: Tensor,
    cos: Tensor,
    sin: Tensor,
    *,
    width: int = 8,
    eps: float = 1e-6,
    normed: bool = False,
    seen: Tensor | None = None,
    mlp: Callable[[int, Tensor], Tensor] | None = None,
) -> Tensor:
    """Logits (L, rows of the head) of a row (L); mlp: what stands in its place, by the number of the layer."""
    seen = sight(len(row), None) if seen is None else seen
    x = own["embed"][row]
    layers = sum(name.endswith(".ln1") for name in own)
    for n in range(layers):
        inside = rms(x, own[f"{n}.ln1"], eps)
        parts = []
        for what, norm in (("q", "qn"), ("k", "kn")):
            part = (inside @ own[f"{n}.{what}"].T + own.get(f"{n}.{what}_bias", 0)).view(len(row), -1, width).unbind(1)
            if normed:
                part = [rms(head, own[f"{n}.{norm}"], eps) for head in part]
            parts.append(torch.stack([rotated(head, cos, sin) for head in part], 1))
        value = (inside @ own[f"{n}.v"].T + own.get(f"{n}.v_bias", 0)).view(len(row), -1, width)
        x = x + attention(*parts, value, seen) @ own[f"{n}.o"].T
        inside = rms(x, own[f"{n}.ln2"], eps)
        weights = (own[f"{n}.{what}"] for what in ("gate", "up", "down"))
        x = x + (swiglu(inside, *weights) if mlp is None else mlp(n, inside))
    return rms(x, own["norm"], eps) @ own["head"].T


LLAMA = {
    "ln1": "input_layernorm",
    "ln2": "post_attention_layernorm",
    **{part: f"self_attn.{part}_proj" for part in "qkvo"},
    "qn": "self_attn.q_norm",
    "kn": "self_attn.k_norm",
    **{part: f"mlp.{part}_proj" for part in ("gate", "up", "down")},
}


def as_llama(own: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Under the names that most checkpoints have."""
    made = {"model.embed_tokens.weight": own["embed"], "model.norm.weight": own["norm"], "lm_head.weight": own["head"]}
    for name, value in own.items():
        layer, _, what = name.partition(".")
        if what:
            kind = "bias" if what.endswith("_bias") else "weight"
            made[f"model.layers.{layer}.{LLAMA[what.removesuffix('_bias')]}.{kind}"] = value
    return made
