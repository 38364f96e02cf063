"""LLaDA2.x (arXiv 2512.15745): blocks of 32, one dense layer, then 256 experts in groups beside a shared one."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import msgspec
import torch
from torch import Tensor

from unmask.core.errors import UnmaskError, shown
from unmask.core.reading import fit
from unmask.hub.body import Body
from unmask.hub.card import FAMILIES, Card, Family, Recipe, Source, Tokens, add
from unmask.hub.cards.llada import Count, Depth
from unmask.hub.cards.llada_moe import expert_source
from unmask.hub.cards.qwen import UNUSED, of_type, shape_of
from unmask.hub.decoder import MLP, Decoder, Shape
from unmask.hub.moe import Experts, MoE, SparseDecoder

PLACES = (
    (r"^model\.embed_tokens\.", "model.word_embeddings."),
    (r"\.self_attn\.[qkv]_proj\.", ".attention.query_key_value."),
    (r"\.self_attn\.o_proj\.", ".attention.dense."),
    (r"\.self_attn\.q_norm\.", ".attention.query_layernorm."),
    (r"\.self_attn\.k_norm\.", ".attention.key_layernorm."),
)


class Config(msgspec.Struct):
    """Beyond what every decoder says."""

    num_experts: Depth
    num_experts_per_tok: Count
    moe_intermediate_size: Count
    n_group: Count
    topk_group: Count
    first_k_dense_replace: int
    num_shared_experts: int | None = None
    routed_scaling_factor: float = 1.0
    partial_rotary_factor: float = 1.0
    use_qk_norm: bool = True
    use_qkv_bias: bool = False
    use_bias: bool = False
    score_function: str = "sigmoid"
    norm_topk_prob: bool = True


def body(config: Mapping[str, Any], where: str) -> Body:
    said: Config = fit(dict(config), Config, where)
    for name, expected in (("score_function", "sigmoid"), ("norm_topk_prob", True), ("use_bias", False)):
        if (value := getattr(said, name)) != expected:
            raise UnmaskError(f"{where}: {name} is {shown(value)}, and LLaDA2 is known here with {expected!r}")
    if said.num_experts // said.n_group < 2:
        raise UnmaskError(f"{where}: {said.num_experts} experts do not make {said.n_group} groups of two or more")
    options = {"bias": said.use_qkv_bias, "normed": said.use_qk_norm, "rotary": said.partial_rotary_factor}
    shape = shape_of(config, where, **options)
    experts = Experts(
        count=said.num_experts,
        chosen=said.num_experts_per_tok,
        inner=said.moe_intermediate_size,
        sigmoid=True,
        normalised=said.num_experts_per_tok > 1,
        groups=said.n_group,
        best=said.topk_group,
        factor=said.routed_scaling_factor,
        shared=said.moe_intermediate_size * (said.num_shared_experts or 0),
    )

    def mlp(layer: int) -> torch.nn.Module:
        sparse = layer >= said.first_k_dense_replace
        return MoE(shape.hidden, experts) if sparse else MLP(shape.hidden, shape.inner)

    return SparseDecoder(shape, mlp)


def sources(body: Body, found: frozenset[str]) -> dict[str, Source]:
    assert isinstance(body, Decoder)
    return {name: expert_source(name, body) or _source(name, body.shape) for name in body.state_dict()}


def _source(name: str, shape: Shape) -> Source:
    theirs = name
    for ours, place in PLACES:
        theirs = re.sub(ours, place, theirs)
    part = re.search(r"\.([qkv])_proj\.", name)
    if part is None:
        return Source((theirs,))
    sizes = _sizes(shape)
    fused = (sum(sizes), shape.hidden) if name.endswith(".weight") else (sum(sizes),)
    return Source((theirs,), partial(_rows, sizes, part[1]), (fused,))


def _sizes(shape: Shape) -> list[int]:
    """Rows of all queries, then of all keys, then of all values."""
    keys = shape.kv_heads * shape.head_dim
    return [shape.heads * shape.head_dim, keys, keys]


def _rows(sizes: list[int], which: str, tensors: Sequence[Tensor]) -> Tensor:
    return tensors[0].split(sizes)["qkv".index(which)]


FAMILIES["llada2"] = Family(of_type("llada2_moe"), body, sources, UNUSED)
GITHUB = "github.com/inclusionAI/LLaDA2.X: generate() of its model, and the table of diffusers"


def _recipe(name: str, threshold: float, editing: float | None = None) -> Recipe:
    """editing: of 2.1, the probability from which another token is written over the one that is there."""
    rule = f"threshold(threshold={threshold}, temperature=0)"
    if editing is not None:
        rule = f"token-editing(threshold={threshold}, editing={editing}, temperature=0)"
    return Recipe(name, f'--sampler "blocks(block_length=32, inner={rule})" --length 2048', GITHUB)


TWO = (_recipe("published", 0.95), _recipe("quality", 0.7), _recipe("speed", 0.5))
EDITS = (_recipe("published", 0.95, 0.9), _recipe("quality", 0.7, 0.5), _recipe("speed", 0.5, 0.0))


TRAPS = (
    "its blocks are counted from the first token of the prompt, so the first one written is shorter",
    "from 2.1 on the published loop also changes tokens that it has written (editing_threshold): token-editing here",
    "fewer steps than the block are threshold(least=32 / steps), or counts=(..) where these do not divide 32",
    "2.1's numbers are compared with the page of diffusers alone, which reads an editing_threshold of 0 as no editing",
    "2.2 edits by insertion and deletion too, and its numbers were not checked",
)
add(
    *(
        Card(
            name=name.lower(),
            repository=f"inclusionAI/{name}",
            licence="Apache-2.0",
            family="llada2",
            billions=16 if "mini" in name else 100,
            tokens=Tokens(mask=156895, eos=156892, pad=156892),
            block=32,
            context=32768,
            template="ling",
            recipes=TWO if "LLaDA2.0" in name else EDITS,
            traps=TRAPS,
        )
        for name in (
            "LLaDA2.0-mini",
            "LLaDA2.0-flash",
            "LLaDA2.0-mini-CAP",
            "LLaDA2.0-flash-CAP",
            "LLaDA2.1-mini",
            "LLaDA2.1-flash",
            "LLaDA2.2-flash",
        )
    )
)
