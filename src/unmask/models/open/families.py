"""Families of checkpoints whose body is that of decoder.py: config.json gives its shape, tensors give its parameters.

llada                      LLaDA-8B (arXiv 2502.09992), LLaDA-1.5: bidirectional Llama under its own names
qwen2, qwen3, dream, sdar  Qwen2 and Qwen3 under the names of transformers, for any attention
fast-dllm                  Fast-dLLM v2 (arXiv 2509.26328): Qwen2.5, whose config.json has a block length
smdm                       SMDM (arXiv 2410.18514): TinyLlama under the names of Lit-GPT
sdar-moe                   SDAR (arXiv 2510.06303) with experts in all layers
llada2                     LLaDA2.x (arXiv 2512.15745): dense layers, then experts in groups and a shared expert
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import msgspec
import torch
from msgspec import field
from torch import Tensor

from unmask.core.errors import UnmaskError, shown
from unmask.core.reading import fit
from unmask.models.open.card import FAMILIES, Family, Source
from unmask.models.open.decoder import Body, Count, Decoder, Depth, Experts, MoE, Shape

Config = dict[str, Any]
Parts = Sequence[tuple[str, str]]  # of a name: a pattern here, and its replacement in the checkpoint
Rows = Callable[[Shape, str, Sequence[Tensor]], Tensor]  # the queries, keys or values (q, k, v) of fused rows
UNUSED = (r"^lm_head\.weight$", r"rotary_emb\.inv_freq$")  # a second copy of a tied head
NAMES = {  # the fields of Shape in a config.json of transformers, of LLaDA, and of Lit-GPT
    "hidden": ("hidden_size", "d_model", "n_embd"),
    "layers": ("num_hidden_layers", "n_layers", "n_layer"),
    "heads": ("num_attention_heads", "n_heads", "n_head"),
    "kv_heads": ("num_key_value_heads", "n_kv_heads", "n_query_groups"),
    "inner": ("intermediate_size", "mlp_hidden_size", "intermediate_size"),
    "vocabulary": ("vocab_size", "embedding_size", "vocab_size"),
    "context": ("max_position_embeddings", "max_sequence_length", "block_size"),
    "eps": ("rms_norm_eps", "rms_norm_eps", "norm_eps"),
    "theta": ("rope_theta", "rope_theta", ""),
    "tied": ("tie_word_embeddings", "weight_tying", ""),
    "head_dim": ("head_dim", "", ""),
    "bias": ("attention_bias", "", ""),
}
TRANSFORMERS, LLADA, LIT_GPT = range(3)


def sized(config: Config, where: str, column: int, **fixed: Any) -> Shape:
    """The shape in a config.json; fixed: fields that it does not determine."""
    names = {ours: theirs[column] for ours, theirs in NAMES.items() if theirs[column]}
    kinds = [(one.name, one.type, field(default=one.default)) for one in msgspec.structs.fields(Shape)]
    read = msgspec.defstruct("Config", [kind for kind in kinds if kind[0] in names], kw_only=True, rename=names)
    return Shape(**(msgspec.structs.asdict(fit(config, read, where)) | fixed))


class Unsupported(msgspec.Struct):
    rope_parameters: dict[str, Any] | None = None
    rope_scaling: dict[str, Any] | None = None
    use_sliding_window: bool = False


def shape_of(config: Config, where: str, **fixed: Any) -> Shape:
    """The shape in a config.json of transformers."""
    settings: Unsupported = fit(config, Unsupported, where)
    rotary = settings.rope_parameters or settings.rope_scaling or {}
    kind = rotary.get("rope_type", rotary.get("type", "default"))
    if kind not in ("default", None) or settings.use_sliding_window:
        problem = "sliding windows" if settings.use_sliding_window else f"rotary positions of type {kind!r}"
        raise UnmaskError(f"{where} has {problem}; expected full attention and plain rotary positions")
    if "rope_theta" in rotary:
        fixed["theta"] = float(rotary["rope_theta"])
    return sized(config, where, TRANSFORMERS, **fixed)


def qwen(block: str = "", **fixed: Any) -> Callable[[Config, str], Body]:
    """The `body` of a family with these fields of Shape; block: the name of its block length in config.json."""

    def body(config: Config, where: str) -> Body:
        model = Decoder(shape_of(config, where, **fixed))
        model.block = fit(config.get(block), Count | None, f"{where}: {block}")
        return model

    return body


def llada(config: Config, where: str) -> Body:
    return Decoder(sized({"rope_theta": 5e5, "rms_norm_eps": 1e-5} | config, where, LLADA))


def smdm(config: Config, where: str) -> Body:
    shape = sized({"norm_eps": 1e-5} | config, where, LIT_GPT)
    return Decoder(msgspec.structs.replace(shape, symbols=shape.vocabulary + 1), rounded=True)  # the mask is an input


class Sparse(msgspec.Struct):
    """The entries of config.json about experts."""

    num_experts: Depth
    num_experts_per_tok: Count
    moe_intermediate_size: Count
    norm_topk_prob: bool = True
    decoder_sparse_step: int = 1
    mlp_only_layers: list[int] = field(default_factory=list)
    n_group: Count = 1
    topk_group: Count = 1
    first_k_dense_replace: int = 0
    num_shared_experts: int | None = None
    routed_scaling_factor: float = 1.0
    partial_rotary_factor: float = 1.0
    use_qk_norm: bool = True
    use_qkv_bias: bool = False
    use_bias: bool = False
    score_function: str = "sigmoid"

    def experts(self, **more: Any) -> Experts:
        chosen = {"count": self.num_experts, "chosen": self.num_experts_per_tok, "inner": self.moe_intermediate_size}
        return Experts(**(chosen | more))


def sdar_moe(config: Config, where: str) -> Body:
    settings: Sparse = fit(config, Sparse, where)
    if settings.decoder_sparse_step != 1 or settings.mlp_only_layers:
        raise UnmaskError(f"{where}: some layers have no experts; expected experts in all layers")
    experts = settings.experts(normalised=settings.norm_topk_prob)
    return Decoder(shape_of(config, where, normed=True), experts)


def llada2(config: Config, where: str) -> Body:
    own: Sparse = fit(config, Sparse, where)
    for name, expected in (("score_function", "sigmoid"), ("norm_topk_prob", True), ("use_bias", False)):
        if (value := getattr(own, name)) != expected:
            raise UnmaskError(f"{where}: {name} is {shown(value)}; expected {expected!r} for LLaDA2")
    if own.num_experts // own.n_group < 2:
        problem = f"{own.num_experts} experts in {own.n_group} groups"
        raise UnmaskError(f"{where}: {problem}; expected at least two per group")
    experts = own.experts(
        sigmoid=True,
        normalised=own.num_experts_per_tok > 1,
        groups=own.n_group,
        best=own.topk_group,
        factor=own.routed_scaling_factor,
        shared=own.moe_intermediate_size * (own.num_shared_experts or 0),
        dense=own.first_k_dense_replace,
    )
    fixed = {"bias": own.use_qkv_bias, "normed": own.use_qk_norm, "rotary": own.partial_rotary_factor}
    return Decoder(shape_of(config, where, **fixed), experts)


def as_named(body: Body, names: frozenset[str]) -> dict[str, Source]:
    """Parameters under their own names; experts as in transformers."""
    return {name: of_experts(name, body) or Source((name,)) for name in body.state_dict()}


def renamed(name: str, parts: Parts) -> str:
    """The name of a parameter in the checkpoint."""
    for pattern, replacement in parts:
        name = re.sub(pattern, replacement, name)
    return name


def fused(parts: Parts, rows: Rows) -> Callable[[Body, frozenset[str]], dict[str, Source]]:
    """The `sources` of a family with other names, in which queries, keys and values are rows of one tensor."""

    def source(body: Body, name: str) -> Source:
        assert isinstance(body, Decoder)
        shape, theirs, part = body.shape, renamed(name, parts), re.search(r"\.([qkv])_proj\.", name)
        if part is None:
            return of_experts(name, body) or Source((theirs,))
        count = (shape.heads + 2 * shape.kv) * shape.width
        size = (count, shape.hidden) if name.endswith(".weight") else (count,)
        return Source((theirs,), partial(rows, shape, part[1]), (size,))

    return lambda body, names: {name: source(body, name) for name in body.state_dict()}


def in_groups(shape: Shape, kind: str, tensors: Sequence[Tensor]) -> Tensor:
    """For each key head these are its queries, the key and the value."""
    queries = shape.heads // shape.kv
    groups = tensors[0].unflatten(0, (shape.kv, queries + 2, shape.width))
    part = {"q": slice(0, queries), "k": slice(queries, queries + 1), "v": slice(queries + 1, None)}[kind]
    return groups[:, part].flatten(0, 2)


def in_turn(shape: Shape, kind: str, tensors: Sequence[Tensor]) -> Tensor:
    """All queries, then all keys, then all values."""
    keys = shape.kv * shape.width
    return tensors[0].split([shape.heads * shape.width, keys, keys])["qkv".index(kind)]


def of_experts(name: str, body: Body) -> Source | None:
    """The source of a parameter of experts; None for others."""
    at, _, part = name.rpartition(".mlp.")
    layer = body.get_submodule(f"{at}.mlp") if at else None
    if not isinstance(layer, MoE):
        return None
    halves, shape = ["down_proj"], (layer.router.in_features, layer.experts.inner)
    if part == "gate_up":
        halves, shape = ["gate_proj", "up_proj"], (shape[1], shape[0])
    elif part != "down":
        theirs = {"router.weight": "gate.weight", "bias": "gate.expert_bias"}.get(part)
        return Source((f"{at}.mlp.{theirs or re.sub(r'^shared', 'shared_experts', part)}",))
    each = [f"{at}.mlp.experts.{number}.{half}.weight" for number in range(layer.experts.count) for half in halves]

    def stacked(tensors: Sequence[Tensor]) -> Tensor:
        return torch.stack(list(tensors)).unflatten(0, (-1, len(halves))).flatten(1, 2)

    return Source(tuple(each), stacked, (shape,) * len(each))


def llada_sources(body: Body, names: frozenset[str]) -> dict[str, Source]:
    """Names as published, or those of Llama, as in converted copies."""
    parts = () if "model.embed_tokens.weight" in names else LLADA_NAMES
    return {name: Source((renamed(name, parts),)) for name in body.state_dict()}


LLADA_NAMES = (
    (r"^model\.embed_tokens\.", "model.transformer.wte."),
    (r"^model\.norm\.", "model.transformer.ln_f."),
    (r"^lm_head\.", "model.transformer.ff_out."),
    (r"^model\.layers\.", "model.transformer.blocks."),
    (r"\.input_layernorm\.", ".attn_norm."),
    (r"\.post_attention_layernorm\.", ".ff_norm."),
    (r"\.self_attn\.o_proj\.", ".attn_out."),
    (r"\.self_attn\.", "."),
    (r"\.mlp\.gate_proj\.", ".ff_proj."),
    (r"\.mlp\.up_proj\.", ".up_proj."),
    (r"\.mlp\.down_proj\.", ".ff_out."),
)
SMDM_NAMES = (
    (r"^model\.embed_tokens\.", "transformer.wte."),
    (r"^model\.norm\.", "transformer.ln_f."),
    (r"^model\.layers\.", "transformer.h."),
    (r"\.input_layernorm\.", ".norm_1."),
    (r"\.post_attention_layernorm\.", ".norm_2."),
    (r"\.self_attn\.o_proj\.", ".attn.proj."),
    (r"\.self_attn\.[qkv]_proj\.", ".attn.attn."),
    (r"\.mlp\.gate_proj\.", ".mlp.swiglu.w1."),
    (r"\.mlp\.up_proj\.", ".mlp.swiglu.w2."),
    (r"\.mlp\.down_proj\.", ".mlp.swiglu.w3."),
)
LLADA2_NAMES = (
    (r"^model\.embed_tokens\.", "model.word_embeddings."),
    (r"\.self_attn\.[qkv]_proj\.", ".attention.query_key_value."),
    (r"\.self_attn\.o_proj\.", ".attention.dense."),
    (r"\.self_attn\.q_norm\.", ".attention.query_layernorm."),
    (r"\.self_attn\.k_norm\.", ".attention.key_layernorm."),
)

FAMILIES |= {
    "llada": Family(("llada",), llada, llada_sources),
    "qwen2": Family(("a2d-qwen2", "qwen2"), qwen(bias=True), as_named, UNUSED),
    "qwen3": Family(("a2d-qwen3", "qwen3"), qwen(normed=True), as_named, UNUSED),
    "dream": Family(("Dream", "dream"), qwen(bias=True), as_named, UNUSED),
    "fast-dllm": Family(("Fast_dLLM_Qwen",), qwen("bd_size", bias=True), as_named, UNUSED),
    "sdar": Family(("sdar",), qwen(normed=True), as_named, UNUSED),
    "sdar-moe": Family(("sdar_moe",), sdar_moe, as_named, UNUSED),
    "llada2": Family(("llada2_moe",), llada2, fused(LLADA2_NAMES, in_turn), UNUSED),
    "smdm": Family(("smdm",), smdm, fused(SMDM_NAMES, in_groups)),
}
