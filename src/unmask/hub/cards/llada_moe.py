"""LLaDA-MoE-7B-A1B (arXiv 2509.24389): 64 experts, 8 per token, weighted by a softmax without normalisation."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import msgspec
import torch
from torch import Tensor

from unmask.core.errors import UnmaskError, shown
from unmask.core.reading import fit
from unmask.hub.body import Body
from unmask.hub.card import FAMILIES, Card, Family, Recipe, Source, Tokens, add
from unmask.hub.cards.llada import Count, Depth, without
from unmask.hub.cards.qwen import UNUSED, shape_of
from unmask.hub.moe import Experts, MoE, SparseDecoder

UNSUPPORTED = ("shared_expert_intermediate_size", "moe_router_enable_expert_bias", "clip_qkv")


class Config(msgspec.Struct):
    """Settings beyond those of all decoders."""

    num_experts: Depth
    num_experts_per_tok: Count
    expert_intermediate_size: Count
    dense_intermediate_size: Count
    moe_layer_freq: Annotated[list[int], msgspec.Meta(max_length=10000)]
    qk_layernorm: bool = True
    partial_rotary_factor: float = 1.0
    moe_router_score_function: str | None = None


def accepts(config: Mapping[str, Any]) -> bool:
    return config.get("model_type") in ("llada", "lladamoe", "llada_moe") and "num_experts" in config


def body(config: Mapping[str, Any], where: str) -> Body:
    settings: Config = fit(dict(config), Config, where)
    without(config, UNSUPPORTED, where, "LLaDA-MoE")
    if settings.moe_router_score_function not in (None, "softmax"):
        function = shown(settings.moe_router_score_function)
        raise UnmaskError(f"{where}: moe_router_score_function is {function}; expected 'softmax'")
    dense = {"intermediate_size": settings.dense_intermediate_size}
    shape = shape_of(dict(config) | dense, where, normed=settings.qk_layernorm, rotary=settings.partial_rotary_factor)
    if len(settings.moe_layer_freq) != shape.layers:
        entries = len(settings.moe_layer_freq)
        raise UnmaskError(
            f"{where}: moe_layer_freq has {entries} entries for {shape.layers} layers; expected one per layer"
        )
    experts = Experts(
        count=settings.num_experts, chosen=settings.num_experts_per_tok, inner=settings.expert_intermediate_size
    )
    return SparseDecoder(shape, experts, lambda layer: settings.moe_layer_freq[layer] != 0)


def sources(body: Body, names: frozenset[str]) -> dict[str, Source]:
    return {name: expert_source(name, body) or Source((name,)) for name in body.state_dict()}


def expert_source(name: str, body: Body) -> Source | None:
    """The source of a parameter of experts; None for others."""
    at, _, part = name.rpartition(".mlp.")
    layer = body.get_submodule(f"{at}.mlp") if at else None
    if not isinstance(layer, MoE):
        return None
    each = [f"{at}.mlp.experts.{expert}" for expert in range(layer.experts.count)]
    inner, hidden = layer.experts.inner, layer.router.in_features
    if part == "gate_up":
        return _stacked([f"{one}.{half}.weight" for one in each for half in ("gate_proj", "up_proj")], 2, inner, hidden)
    if part == "down":
        return _stacked([f"{one}.down_proj.weight" for one in each], 1, hidden, inner)
    theirs = {"router.weight": "gate.weight", "bias": "gate.expert_bias"}.get(part)
    return Source((f"{at}.mlp.{theirs or re.sub(r'^shared', 'shared_experts', part)}",))


def _stacked(names: Sequence[str], parts: int, *shape: int) -> Source:
    """Stack the tensors of all experts: `parts` tensors per expert are concatenated."""

    def make(tensors: Sequence[Tensor]) -> Tensor:
        return torch.stack(list(tensors)).unflatten(0, (-1, parts)).flatten(1, 2)

    return Source(tuple(names), make, (shape,) * len(names))


FAMILIES["llada-moe"] = Family(accepts, body, sources, UNUSED)
GITHUB = "github.com/ML-GSAI/LLaDA: README, and generate.py"
RECIPES = (Recipe("published", '--sampler "llada(block_length=32)" --steps 128 --length 128', GITHUB),)
TRAPS = (
    "its config.json has the type llada, like LLaDA-8B, which is another architecture",
    "outputs of experts are summed in float32; the published code uses the type of the states",
)
add(
    *(
        Card(
            name=f"llada-moe-7b-a1b-{kind.lower()}",
            repository=f"inclusionAI/LLaDA-MoE-7B-A1B-{kind}",
            licence="Apache-2.0",
            family="llada-moe",
            billions=7,
            tokens=Tokens(mask=156895, eos=156892, pad=156892),
            context=8192,
            template=None if kind == "Base" else "ling",
            recipes=RECIPES,
            traps=TRAPS,
        )
        for kind in ("Base", "Instruct")
    )
)
