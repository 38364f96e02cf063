"""MDLM (arXiv 2406.07524) and BD3-LM (arXiv 2503.09573) on OpenWebText: a DiT with constant conditions.

A small network of the noise level computes shifts, scales and gates for each norm, attention and MLP. Both models were
trained with noise level zero, so these are constant. They are folded into the weights when the model is loaded. The
result is a plain transformer whose norms have biases.

    c = silu(M_2 silu(M_0 (1, .., 1, 0, .., 0) + m_0) + m_2),    shift, scale, gate = A c + a
    norms have the weight g (1 + scale) and the bias shift; projections have the weight gate W
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgspec
import torch
from torch import Tensor, nn
from torch.nn import functional

from unmask.core.errors import UnmaskError
from unmask.core.reading import fit
from unmask.models.open.card import FAMILIES, Family, Source
from unmask.models.open.decoder import Body, Count, Depth, Rotary, Sizes
from unmask.models.trained.trunk import Reach

Shape = tuple[int, ...]
Make = Callable[[Sequence[Tensor]], Tensor]
Change = Callable[[Tensor, Tensor], Tensor]  # of a tensor, and the modulation (parts, hidden) of its layer
THETA = 1e4
EPS = 1e-5
RATIO = 4  # width of the MLP divided by that of the states
ADA = "adaLN_modulation"
FREQUENCIES = 256  # width of the embedding of the noise level
SHIFT, SCALE, GATE = 0, 1, 2  # of the attention; those of the MLP are 3, 4 and 5
UNUSED = (r"rotary_emb\.inv_freq$", r"^sampling_eps_(min|max)$")


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
    conditions: int  # their number in the checkpoint, before folding

    def __init__(self, vocabulary: int, hidden: int, layers: int, heads: int, context: int) -> None:
        super().__init__(vocabulary, hidden, context, Sizes(layers, heads, hidden // heads))
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


def body(config: dict[str, Any], where: str) -> Body:
    own: Config = fit(config, Config, where)
    if own.time_conditioning or own.causal:
        name = "time_conditioning" if own.time_conditioning else "causal"
        raise UnmaskError(f"{where}: {name} is true; expected a published model, without it")
    if own.hidden_dim % (2 * own.n_heads):
        raise UnmaskError(f"{where}: hidden_dim is {own.hidden_dim}; expected {own.n_heads} heads of even width")
    model = DiT(own.vocab_size, own.hidden_dim, own.n_blocks, own.n_heads, own.model_length)
    model.conditions, model.block = own.cond_dim, own.block_size
    return model


def sources(body: Body, names: frozenset[str]) -> dict[str, Source]:
    """Fold conditions into the weights; models without conditions have the weights themselves."""
    assert isinstance(body, DiT)
    hidden, level = body.hidden, _level(body.conditions)
    conditioned = not level.keys().isdisjoint(names)

    def folded(at: str, name: str, shape: Shape, parts: int, change: Change, plain: Make | None = None) -> Source:
        """A tensor changed by its layer's modulation of `parts` parts; without conditions, `plain` of the tensor."""
        if not conditioned:
            return Source((at + name,), plain, (shape,))
        of_layer = {f"{at}{ADA}.weight": (parts * hidden, body.conditions), f"{at}{ADA}.bias": (parts * hidden,)}
        tensors = {at + name: shape} | of_layer | level

        def make(stored: Sequence[Tensor]) -> Tensor:
            return change(stored[0].double(), modulation(stored[1:], parts)).to(stored[0].dtype)

        return Source(tuple(tensors), make, tuple(tensors.values()))

    def norm(ours: str, at: str, theirs: str, first: int, parts: int) -> dict[str, Source]:
        name, shape = f"{theirs}.weight", (hidden,)
        return {
            f"{ours}.weight": folded(at, name, shape, parts, lambda weight, mod: weight * (1 + mod[first + SCALE])),
            f"{ours}.bias": folded(at, name, shape, parts, lambda weight, mod: mod[first + SHIFT], _nothing),
        }

    def gated(at: str, name: str, shape: Shape, part: int) -> Source:
        return folded(at, name, shape, 6, lambda weight, mod: mod[part].view(-1, *[1] * (weight.dim() - 1)) * weight)

    parameters = {
        "embed": Source(("backbone.vocab_embed.embedding",)),
        "head.weight": Source(("backbone.output_layer.linear.weight",)),
        "head.bias": Source(("backbone.output_layer.linear.bias",)),
    }
    parameters |= norm("norm", "backbone.output_layer.", "norm_final", 0, 2)
    for number in range(len(body.blocks)):
        ours, at = f"blocks.{number}.", f"backbone.blocks.{number}."
        parameters |= norm(f"{ours}norm1", at, "norm1", 0, 6) | norm(f"{ours}norm2", at, "norm2", 3, 6)
        parameters |= {
            f"{ours}qkv.weight": Source((f"{at}attn_qkv.weight",)),
            f"{ours}up.weight": Source((f"{at}mlp.0.weight",)),
            f"{ours}up.bias": Source((f"{at}mlp.0.bias",)),
            f"{ours}out.weight": gated(at, "attn_out.weight", (hidden, hidden), GATE),
            f"{ours}down.weight": gated(at, "mlp.2.weight", (hidden, RATIO * hidden), GATE + 3),
            f"{ours}down.bias": gated(at, "mlp.2.bias", (hidden,), GATE + 3),
        }
    return parameters


def _level(conditions: int) -> dict[str, Shape]:
    """The tensors of the network that computes conditions from the noise level."""
    at = "backbone.sigma_map.mlp"
    first = {f"{at}.0.weight": (conditions, FREQUENCIES), f"{at}.0.bias": (conditions,)}
    return first | {f"{at}.2.weight": (conditions, conditions), f"{at}.2.bias": (conditions,)}


def _nothing(tensors: Sequence[Tensor]) -> Tensor:
    return torch.zeros_like(tensors[0])


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


FAMILIES["mdlm"] = Family(("mdlm",), body, sources, UNUSED)
FAMILIES["bd3lm"] = Family(("bd3lm",), body, sources, UNUSED)
