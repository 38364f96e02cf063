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
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Annotated, Any

import msgspec
import torch
from msgspec import field
from torch import Tensor

from unmask.core.errors import UnmaskError, shown
from unmask.core.reading import fit
from unmask.models.open.body import Body
from unmask.models.open.card import FAMILIES, Family, Source
from unmask.models.open.decoder import Decoder, Rotary, Shape
from unmask.models.open.moe import Experts, MoE, SparseDecoder

Count = Annotated[int, msgspec.Meta(ge=1, le=2**24)]
Depth = Annotated[int, msgspec.Meta(ge=1, le=2**12)]  # number of layers or experts
Parts = Sequence[tuple[str, str]]  # of a name: a pattern here, and its replacement in the checkpoint
UNUSED = (r"^lm_head\.weight$", r"rotary_emb\.inv_freq$")  # a second copy of a tied head


def of_type(*kinds: str) -> Callable[[Mapping[str, Any]], bool]:
    return lambda config: config.get("model_type") in kinds


def sized(settings: msgspec.Struct, **options: Any) -> Shape:
    """The shape with the fields of a config; by default its heads are of equal width, each with keys and values."""
    given = msgspec.structs.asdict(settings) | options
    heads = {"kv_heads": given.get("kv_heads") or given["heads"]}
    heads["head_dim"] = given.get("head_dim") or given["hidden"] // given["heads"]
    return Shape(**(given | heads))


def renamed(name: str, parts: Parts) -> str:
    """The name of a parameter in the checkpoint."""
    for pattern, replacement in parts:
        name = re.sub(pattern, replacement, name)
    return name


def as_named(body: Body, names: frozenset[str]) -> dict[str, Source]:
    """All parameters under their own names."""
    return {name: Source((name,)) for name in body.state_dict()}


def fused(name: str, parts: Parts, shape: Shape, rows: Callable[..., Tensor]) -> Source:
    """The source of a parameter; queries, keys and values are `rows` of one tensor, by shape and kind (q, k or v)."""
    theirs, part = renamed(name, parts), re.search(r"\.([qkv])_proj\.", name)
    if part is None:
        return Source((theirs,))
    count = (shape.heads + 2 * shape.kv_heads) * shape.head_dim
    size = (count, shape.hidden) if name.endswith(".weight") else (count,)
    return Source((theirs,), partial(rows, shape, part[1]), (size,))


def of_experts(name: str, body: Body) -> Source | None:
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


LLADA = (
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


class LladaConfig(msgspec.Struct):
    """Fields of Shape, by their names in config.json."""

    hidden: Count = field(name="d_model")
    layers: Depth = field(name="n_layers")
    heads: Count = field(name="n_heads")
    inner: Count = field(name="mlp_hidden_size")
    vocabulary: Count = field(name="embedding_size")
    context: Count = field(name="max_sequence_length")
    kv_heads: Count | None = field(name="n_kv_heads", default=None)
    theta: float = field(name="rope_theta", default=5e5)
    eps: float = field(name="rms_norm_eps", default=1e-5)
    tied: bool = field(name="weight_tying", default=False)


def llada(config: Mapping[str, Any], where: str) -> Body:
    return Decoder(sized(fit(dict(config), LladaConfig, where)))


def llada_sources(body: Body, names: frozenset[str]) -> dict[str, Source]:
    """Names as published, or those of Llama, as in converted copies."""
    parts = () if "model.embed_tokens.weight" in names else LLADA
    return {name: Source((renamed(name, parts),)) for name in body.state_dict()}


class QwenConfig(msgspec.Struct):
    """Fields of Shape, by their names in transformers."""

    vocabulary: Count = field(name="vocab_size")
    hidden: Count = field(name="hidden_size")
    layers: Depth = field(name="num_hidden_layers")
    heads: Count = field(name="num_attention_heads")
    inner: Count = field(name="intermediate_size")
    kv_heads: Count | None = field(name="num_key_value_heads", default=None)
    head_dim: Count | None = None
    context: Count = field(name="max_position_embeddings", default=2048)
    theta: float = field(name="rope_theta", default=1e4)
    eps: float = field(name="rms_norm_eps", default=1e-6)
    tied: bool = field(name="tie_word_embeddings", default=False)
    bias: bool = field(name="attention_bias", default=False)


class Unsupported(msgspec.Struct):
    rope_parameters: dict[str, Any] | None = None
    rope_scaling: dict[str, Any] | None = None
    use_sliding_window: bool = False


def shape_of(config: Mapping[str, Any], where: str, **options: Any) -> Shape:
    """The shape in a config.json of transformers; options: fields of Shape that replace it."""
    settings: Unsupported = fit(dict(config), Unsupported, where)
    rotary = settings.rope_parameters or settings.rope_scaling or {}
    kind = rotary.get("rope_type", rotary.get("type", "default"))
    if kind not in ("default", None) or settings.use_sliding_window:
        problem = "sliding windows" if settings.use_sliding_window else f"rotary positions of type {kind!r}"
        raise UnmaskError(f"{where} has {problem}; expected full attention and plain rotary positions")
    shape: QwenConfig = fit(dict(config), QwenConfig, where)
    return sized(shape, **({"theta": float(rotary.get("rope_theta", shape.theta))} | options))


def qwen(**options: Any) -> Callable[[Mapping[str, Any], str], Body]:
    """The `body` of a family with these options of Shape."""
    return lambda config, where: Decoder(shape_of(config, where, **options))


class FastConfig(msgspec.Struct):
    bd_size: Count | None = None


def fast_dllm(config: Mapping[str, Any], where: str) -> Body:
    model = Decoder(shape_of(config, where, bias=True))
    model.block = fit(dict(config), FastConfig, where).bd_size
    return model


SMDM = (
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


class SmdmConfig(msgspec.Struct):
    """Fields of Shape, by their names in Lit-GPT."""

    layers: Depth = field(name="n_layer")
    heads: Count = field(name="n_head")
    hidden: Count = field(name="n_embd")
    inner: Count = field(name="intermediate_size")
    vocabulary: Count = field(name="vocab_size")
    context: Count = field(name="block_size", default=2048)
    kv_heads: Count | None = field(name="n_query_groups", default=None)
    eps: float = field(name="norm_eps", default=1e-5)


class Rounded(Decoder):
    """Positions whose cosines and sines have the precision of bfloat16, also with other types of weights."""

    def rotary(self, columns: Tensor) -> Rotary:
        rotate = super().rotary(columns)
        rotate.cos, rotate.sin = (part.bfloat16().to(self.dtype) for part in (rotate.cos, rotate.sin))
        return rotate


def smdm(config: Mapping[str, Any], where: str) -> Body:
    settings: SmdmConfig = fit(dict(config), SmdmConfig, where)
    return Rounded(sized(settings, symbols=settings.vocabulary + 1))  # the mask is only an input


def smdm_sources(body: Body, names: frozenset[str]) -> dict[str, Source]:
    assert isinstance(body, Decoder)
    return {name: fused(name, SMDM, body.shape, _grouped) for name in body.state_dict()}


def _grouped(shape: Shape, kind: str, tensors: Sequence[Tensor]) -> Tensor:
    """The queries, keys or values of fused rows. For each key head these are its queries, the key and the value."""
    queries = shape.heads // shape.kv_heads
    groups = tensors[0].unflatten(0, (shape.kv_heads, queries + 2, shape.head_dim))
    part = {"q": slice(0, queries), "k": slice(queries, queries + 1), "v": slice(queries + 1, None)}[kind]
    return groups[:, part].flatten(0, 2)


class SdarConfig(msgspec.Struct):
    num_experts: Depth
    num_experts_per_tok: Count
    moe_intermediate_size: Count
    norm_topk_prob: bool = True
    decoder_sparse_step: int = 1
    mlp_only_layers: list[int] = field(default_factory=list)


def sdar_moe(config: Mapping[str, Any], where: str) -> Body:
    settings: SdarConfig = fit(dict(config), SdarConfig, where)
    if settings.decoder_sparse_step != 1 or settings.mlp_only_layers:
        raise UnmaskError(f"{where}: some layers have no experts; expected experts in all layers")
    experts = Experts(
        count=settings.num_experts,
        chosen=settings.num_experts_per_tok,
        inner=settings.moe_intermediate_size,
        normalised=settings.norm_topk_prob,
    )
    return SparseDecoder(shape_of(config, where, normed=True), experts)


def sdar_sources(body: Body, names: frozenset[str]) -> dict[str, Source]:
    return {name: of_experts(name, body) or Source((name,)) for name in body.state_dict()}


LLADA2 = (
    (r"^model\.embed_tokens\.", "model.word_embeddings."),
    (r"\.self_attn\.[qkv]_proj\.", ".attention.query_key_value."),
    (r"\.self_attn\.o_proj\.", ".attention.dense."),
    (r"\.self_attn\.q_norm\.", ".attention.query_layernorm."),
    (r"\.self_attn\.k_norm\.", ".attention.key_layernorm."),
)


class Llada2Config(msgspec.Struct):
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


def llada2(config: Mapping[str, Any], where: str) -> Body:
    settings: Llada2Config = fit(dict(config), Llada2Config, where)
    for name, expected in (("score_function", "sigmoid"), ("norm_topk_prob", True), ("use_bias", False)):
        if (value := getattr(settings, name)) != expected:
            raise UnmaskError(f"{where}: {name} is {shown(value)}; expected {expected!r} for LLaDA2")
    if settings.num_experts // settings.n_group < 2:
        raise UnmaskError(
            f"{where}: {settings.num_experts} experts in {settings.n_group} groups; expected at least two per group"
        )
    options = {"bias": settings.use_qkv_bias, "normed": settings.use_qk_norm, "rotary": settings.partial_rotary_factor}
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
    shape = shape_of(config, where, **options)
    return SparseDecoder(shape, experts, lambda layer: layer >= settings.first_k_dense_replace)


def llada2_sources(body: Body, names: frozenset[str]) -> dict[str, Source]:
    assert isinstance(body, Decoder)
    return {name: of_experts(name, body) or fused(name, LLADA2, body.shape, _in_turn) for name in body.state_dict()}


def _in_turn(shape: Shape, kind: str, tensors: Sequence[Tensor]) -> Tensor:
    """All queries, then all keys, then all values."""
    keys = shape.kv_heads * shape.head_dim
    return tensors[0].split([shape.heads * shape.head_dim, keys, keys])["qkv".index(kind)]


FAMILIES |= {
    "llada": Family(lambda config: of_type("llada")(config) and "d_model" in config, llada, llada_sources),
    "qwen2": Family(of_type("a2d-qwen2", "qwen2"), qwen(bias=True), as_named, UNUSED),
    "qwen3": Family(of_type("a2d-qwen3", "qwen3"), qwen(normed=True), as_named, UNUSED),
    "dream": Family(of_type("Dream", "dream"), qwen(bias=True), as_named, UNUSED),
    "fast-dllm": Family(of_type("Fast_dLLM_Qwen"), fast_dllm, as_named, UNUSED),
    "sdar": Family(of_type("sdar"), qwen(normed=True), as_named, UNUSED),
    "sdar-moe": Family(of_type("sdar_moe"), sdar_moe, sdar_sources, UNUSED),
    "llada2": Family(of_type("llada2_moe"), llada2, llada2_sources, UNUSED),
    "smdm": Family(of_type("smdm"), smdm, smdm_sources),
}
