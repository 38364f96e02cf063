"""MDLM (arXiv 2406.07524) and BD3-LM (arXiv 2503.09573) on OpenWebText: a DiT with constant conditions.

A small network of the noise level computes shifts, scales and gates for each norm, attention and MLP. Both models were
trained with noise level zero, so these are constant. They are folded into the weights when the model is loaded. The
result is a plain transformer whose norms have biases.

    c = silu(M_2 silu(M_0 (1, .., 1, 0, .., 0) + m_0) + m_2),    shift, scale, gate = A c + a
    norms have the weight g (1 + scale) and the bias shift; projections have the weight gate W
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import msgspec
import torch
from torch import Tensor, nn
from torch.nn import functional

from unmask.core.entries import present
from unmask.core.errors import UnmaskError, cut, listed
from unmask.core.reading import fit
from unmask.models.open import weights
from unmask.models.open.body import Body, Count, Depth, Sizes, count
from unmask.models.open.card import FAMILIES, Card, Family
from unmask.models.trained.memory import Reach

THETA = 1e4
EPS = 1e-5
RATIO = 4  # width of the MLP divided by that of the states
ADA = "adaLN_modulation"
LEVEL = "backbone.sigma_map.mlp"  # the network that computes conditions from the noise level
SHIFT, SCALE, GATE = 0, 1, 2  # of the attention; those of the MLP are 3, 4 and 5
PLAIN = {"qkv.weight": "attn_qkv.weight", "up.weight": "mlp.0.weight", "up.bias": "mlp.0.bias"}
GATED = {
    "norm1": (("out.weight", "attn_out.weight"),),
    "norm2": (("down.weight", "mlp.2.weight"), ("down.bias", "mlp.2.bias")),
}
UNUSED = r"rotary_emb\.inv_freq$|^sampling_eps_(min|max)$"


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
    def __init__(self, vocabulary: int, hidden: int, layers: int, heads: int, context: int) -> None:
        super().__init__(vocabulary, hidden, context, Sizes(layers, heads, hidden // heads))
        self.symbols, self.width = vocabulary, hidden // heads
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

    @cached_property
    def parameters_used(self) -> int:
        return count(self.blocks)


class Config(msgspec.Struct):
    vocab_size: Count
    model_length: Count
    hidden_dim: Count
    n_blocks: Depth
    n_heads: Count
    cond_dim: Count = 129  # the default of the published class
    time_conditioning: bool = False
    causal: bool = False
    block_size: Count | None = None


def shaped(config: dict[str, Any], where: str) -> DiT:
    """A network without weights."""
    own: Config = fit(config, Config, where)
    for name in ("time_conditioning", "causal"):
        if getattr(own, name):
            raise UnmaskError(f"{where}: {name} is true; expected a published model, without it")
    if own.hidden_dim % (2 * own.n_heads):
        raise UnmaskError(f"{where}: hidden_dim is {own.hidden_dim}; expected {own.n_heads} heads of even width")
    with torch.device("meta"):
        model = DiT(own.vocab_size, own.hidden_dim, own.n_blocks, own.n_heads, own.model_length)
    model.block = own.block_size
    return model


def read(directory: Path, card: Card, config: dict[str, Any], dtype: torch.dtype | None) -> Body:
    model = shaped(config, str(directory / weights.CONFIG))
    tensors = weights.read(directory)
    try:
        state = folded(tensors, len(model.blocks))
        model.load_state_dict({name: tensor.to(dtype or tensor.dtype) for name, tensor in state.items()}, assign=True)
    except (KeyError, RuntimeError) as error:  # a missing tensor, or one of another shape
        what = f"no {error}" if isinstance(error, KeyError) else " ".join(str(error).split())
        raise UnmaskError(f"the weights in {directory} do not fit its {weights.CONFIG}: {cut(what)}") from error

    if unused := [name for name in tensors if not re.search(UNUSED, name)]:
        raise UnmaskError(f"the weights in {directory} do not fit its {weights.CONFIG}: {listed(unused)} not used")
    return model.eval().requires_grad_(False)


def folded(tensors: dict[str, Tensor], layers: int) -> dict[str, Tensor]:
    """The parameters, with the conditions folded in; removes the tensors that are used."""
    state: dict[str, Tensor] = {}
    level = [tensors.pop(f"{LEVEL}.{part}", None) for part in ("0.weight", "0.bias", "2.weight", "2.bias")]

    def layer(ours: str, at: str, norms: dict[str, str], gated: Mapping[str, tuple[tuple[str, str], ...]]) -> None:
        """Norms of a layer by their names, and the projections that are gated behind each."""
        width = len(tensors[f"{at}{next(iter(norms.values()))}.weight"])
        own = [tensors.pop(f"{at}{ADA}.{part}", None) for part in ("weight", "bias")]

        mod = torch.zeros(3 * len(norms), width, dtype=torch.float64)
        mod[GATE::3] = 1  # without conditions
        if own[0] is not None:
            mod = modulation([*own, *level], width)

        for number, (name, theirs) in enumerate(norms.items()):
            weight = tensors.pop(f"{at}{theirs}.weight")
            shift, scale = mod[3 * number + SHIFT], mod[3 * number + SCALE]
            state[f"{ours}{name}.weight"] = (weight.double() * (1 + scale)).to(weight.dtype)
            state[f"{ours}{name}.bias"] = shift.to(weight.dtype)

            for mine, source in gated.get(name, ()):
                weight = tensors.pop(f"{at}{source}")
                gate = mod[3 * number + GATE].view(-1, *[1] * (weight.dim() - 1))
                state[f"{ours}{mine}"] = (gate * weight.double()).to(weight.dtype)

    for number in range(layers):
        ours, at = f"blocks.{number}.", f"backbone.blocks.{number}."
        layer(ours, at, {"norm1": "norm1", "norm2": "norm2"}, GATED)
        for mine, source in PLAIN.items():
            state[f"{ours}{mine}"] = tensors.pop(f"{at}{source}")

    layer("", "backbone.output_layer.", {"norm": "norm_final"}, {})

    state["embed"] = tensors.pop("backbone.vocab_embed.embedding")
    for part in ("weight", "bias"):
        state[f"head.{part}"] = tensors.pop(f"backbone.output_layer.linear.{part}")
    return state


def modulation(tensors: Sequence[Tensor | None], hidden: int) -> Tensor:
    """(parts, hidden) in float64 from (A, a, M_0, m_0, M_2, m_2).

    The parts are shift, scale and gate of the attention, then those of the MLP; for the last norm, shift and scale. The
    embedding of noise level zero is one for cosines and zero for sines.
    """
    known = present(tensors)
    if len(known) < len(tensors):
        raise KeyError(f"{LEVEL}, or {ADA}.bias")
    weight, bias, first, first_bias, second, second_bias = map(Tensor.double, known)
    level = torch.zeros(first.shape[1], dtype=torch.float64)
    level[: first.shape[1] // 2] = 1
    conditions = functional.silu(second @ functional.silu(first @ level + first_bias) + second_bias)
    return (weight @ conditions + bias).unflatten(0, (-1, hidden))


FAMILIES["mdlm"] = Family(("mdlm",), read)
FAMILIES["bd3lm"] = Family(("bd3lm",), read)
