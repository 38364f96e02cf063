"""LLaDA-MoE-7B-A1B (arXiv 2509.24389): 64 experts, 8 a token, weighed by a softmax that is not normalised again."""

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
from unmask.hub.cards.llada import Count, Depth
from unmask.hub.cards.qwen import UNUSED, shape_of
from unmask.hub.decoder import MLP
from unmask.hub.moe import Experts, MoE, SparseDecoder


class Config(msgspec.Struct):
    """Beyond what every decoder says."""

    num_experts: Depth
    num_experts_per_tok: Count
    expert_intermediate_size: Count
    dense_intermediate_size: Count
    moe_layer_freq: Annotated[list[int], msgspec.Meta(max_length=10000)]
    qk_layernorm: bool = True
    partial_rotary_factor: float = 1.0
    shared_expert_intermediate_size: int | None = None
    moe_router_enable_expert_bias: bool | None = None
    moe_router_score_function: str | None = None
    clip_qkv: float | None = None


def accepts(config: Mapping[str, Any]) -> bool:
    return config.get("model_type") in ("llada", "lladamoe", "llada_moe") and "num_experts" in config


def body(config: Mapping[str, Any], where: str) -> Body:
    said: Config = fit(dict(config), Config, where)
    for name in ("shared_expert_intermediate_size", "moe_router_enable_expert_bias", "clip_qkv"):
        if (value := getattr(said, name)) not in (None, False, 0):
            raise UnmaskError(f"{where}: {name} is {shown(value)}, and LLaDA-MoE is known here without it")
    if said.moe_router_score_function not in (None, "softmax"):
        what = shown(said.moe_router_score_function)
        raise UnmaskError(f"{where}: moe_router_score_function is {what}; expected 'softmax'")
    dense = {"intermediate_size": said.dense_intermediate_size}
    shape = shape_of(dict(config) | dense, where, normed=said.qk_layernorm, rotary=said.partial_rotary_factor)
    if len(said.moe_layer_freq) != shape.layers:
        what = f"has {len(said.moe_layer_freq)} entries for {shape.layers} layers"
        raise UnmaskError(f"{where}: moe_layer_freq {what}; expected one a layer")
    experts = Experts(count=said.num_experts, chosen=said.num_experts_per_tok, inner=said.expert_intermediate_size)

    def mlp(layer: int) -> torch.nn.Module:
        sparse = said.moe_layer_freq[layer] != 0
        return MoE(shape.hidden, experts) if sparse else MLP(shape.hidden, shape.inner)

    return SparseDecoder(shape, mlp)


def sources(body: Body, found: frozenset[str]) -> dict[str, Source]:
    return {name: expert_source(name, body) or Source((name,)) for name in body.state_dict()}


def expert_source(name: str, body: Body) -> Source | None:
    """What a parameter of experts is made of; None of another."""
    at, _, what = name.rpartition(".mlp.")
    layer = body.get_submodule(f"{at}.mlp") if at else None
    if not isinstance(layer, MoE):
        return None
    each = [f"{at}.mlp.experts.{expert}" for expert in range(layer.experts.count)]
    inner, hidden = layer.experts.inner, layer.router.in_features
    if what == "gate_up":
        return _stacked([f"{one}.{part}.weight" for one in each for part in ("gate_proj", "up_proj")], 2, inner, hidden)
    if what == "down":
        return _stacked([f"{one}.down_proj.weight" for one in each], 1, hidden, inner)
    renamed = {"router.weight": "gate.weight", "bias": "gate.expert_bias"}.get(what)
    return Source((f"{at}.mlp.{renamed or re.sub(r'^shared', 'shared_experts', what)}",))


def _stacked(names: Sequence[str], parts: int, *shape: int) -> Source:
    """So many tensors of each expert below one another, and the experts in a tensor of their own."""

    def make(tensors: Sequence[Tensor]) -> Tensor:
        return torch.stack(list(tensors)).unflatten(0, (-1, parts)).flatten(1, 2)

    return Source(tuple(names), make, (shape,) * len(names))


FAMILIES["llada-moe"] = Family(accepts, body, sources, UNUSED)
GITHUB = "github.com/ML-GSAI/LLaDA: README, and generate.py for all"
RECIPES = (Recipe("published", '--sampler "llada(block_length=32)" --steps 128 --length 128', GITHUB),)
TRAPS = (
    "its config.json calls itself llada, as LLaDA-8B's does, which is another architecture",
    "weights of experts are summed in float32 here, in the type of the states in the published code",
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
