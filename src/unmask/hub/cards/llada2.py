"""LLaDA2.x (arXiv 2512.15745): blocks of 32; one dense layer, then 256 experts in groups and a shared expert."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from torch import Tensor

from unmask.core.errors import UnmaskError, shown
from unmask.core.reading import fit
from unmask.hub.body import Body
from unmask.hub.card import FAMILIES, Card, Family, Recipe, Source, Tokens, add
from unmask.hub.cards.llada import Count, Depth, fused
from unmask.hub.cards.llada_moe import expert_source
from unmask.hub.cards.qwen import UNUSED, of_type, shape_of
from unmask.hub.decoder import Decoder, Shape
from unmask.hub.moe import Experts, SparseDecoder

PARTS = (
    (r"^model\.embed_tokens\.", "model.word_embeddings."),
    (r"\.self_attn\.[qkv]_proj\.", ".attention.query_key_value."),
    (r"\.self_attn\.o_proj\.", ".attention.dense."),
    (r"\.self_attn\.q_norm\.", ".attention.query_layernorm."),
    (r"\.self_attn\.k_norm\.", ".attention.key_layernorm."),
)


class Config(msgspec.Struct):
    """Settings beyond those of all decoders."""

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
    settings: Config = fit(dict(config), Config, where)
    for name, expected in (("score_function", "sigmoid"), ("norm_topk_prob", True), ("use_bias", False)):
        if (value := getattr(settings, name)) != expected:
            raise UnmaskError(f"{where}: {name} is {shown(value)}; expected {expected!r} for LLaDA2")
    if settings.num_experts // settings.n_group < 2:
        raise UnmaskError(
            f"{where}: {settings.num_experts} experts in {settings.n_group} groups; expected at least two per group"
        )
    options = {"bias": settings.use_qkv_bias, "normed": settings.use_qk_norm, "rotary": settings.partial_rotary_factor}
    shape = shape_of(config, where, **options)
    experts = Experts(
        count=settings.num_experts,
        chosen=settings.num_experts_per_tok,
        inner=settings.moe_intermediate_size,
        sigmoid=True,
        normalised=settings.num_experts_per_tok > 1,
        groups=settings.n_group,
        best=settings.topk_group,
        factor=settings.routed_scaling_factor,
        shared=settings.moe_intermediate_size * (settings.num_shared_experts or 0),
    )
    return SparseDecoder(shape, experts, lambda layer: layer >= settings.first_k_dense_replace)


def sources(body: Body, names: frozenset[str]) -> dict[str, Source]:
    assert isinstance(body, Decoder)
    return {name: expert_source(name, body) or fused(name, PARTS, body.shape, _rows) for name in body.state_dict()}


def _rows(shape: Shape, kind: str, tensors: Sequence[Tensor]) -> Tensor:
    """All queries, then all keys, then all values."""
    keys = shape.kv_heads * shape.head_dim
    return tensors[0].split([shape.heads * shape.head_dim, keys, keys])["qkv".index(kind)]


FAMILIES["llada2"] = Family(of_type("llada2_moe"), body, sources, UNUSED)
GITHUB = "github.com/inclusionAI/LLaDA2.X: generate() of its model, and the table of diffusers"


def _recipe(name: str, threshold: float, editing: float | None = None) -> Recipe:
    """editing: for 2.1, the probability at which another token replaces a written one."""
    rule = f"threshold(threshold={threshold}, temperature=0)"
    if editing is not None:
        rule = f"token-editing(threshold={threshold}, editing={editing}, temperature=0)"
    return Recipe(name, f'--sampler "blocks(block_length=32, inner={rule})" --length 2048', GITHUB)


TWO = (_recipe("published", 0.95), _recipe("quality", 0.7), _recipe("speed", 0.5))
EDITS = (_recipe("published", 0.95, 0.9), _recipe("quality", 0.7, 0.5), _recipe("speed", 0.5, 0.0))


TRAPS = (
    "blocks are counted from the first token of the prompt, so the first written block is shorter",
    "from 2.1 on the published loop also changes written tokens (editing_threshold): sampler token-editing",
    "for fewer steps than the block use threshold(least=32 / steps), or counts=(..) if they do not divide 32",
    "2.1 was compared only with the page of diffusers, where an editing_threshold of 0 means no editing",
    "2.2 also inserts and deletes tokens, which is not supported; its numbers were not checked",
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
