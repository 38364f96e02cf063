"""Families of checkpoints whose body is that of decoder.py: config.json gives its shape, tensors give its parameters.

llada                      LLaDA-8B (arXiv 2502.09992), LLaDA-1.5: bidirectional Llama under its own names
qwen2, qwen3, dream, sdar  Qwen2 and Qwen3 under the names of transformers, for any attention
fast-dllm                  Fast-dLLM v2 (arXiv 2509.26328): Qwen2.5, whose config.json has a block length
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import msgspec
from msgspec import field

from unmask.core.errors import UnmaskError
from unmask.core.reading import fit
from unmask.models.open.card import FAMILIES, Family, Source
from unmask.models.open.decoder import Body, Count, Decoder, Shape

Config = dict[str, Any]
UNUSED = (r"^lm_head\.weight$", r"rotary_emb\.inv_freq$")  # a second copy of a tied head
NAMES = {  # the fields of Shape in a config.json of transformers, and of LLaDA
    "hidden": ("hidden_size", "d_model"),
    "layers": ("num_hidden_layers", "n_layers"),
    "heads": ("num_attention_heads", "n_heads"),
    "kv_heads": ("num_key_value_heads", "n_kv_heads"),
    "inner": ("intermediate_size", "mlp_hidden_size"),
    "vocabulary": ("vocab_size", "embedding_size"),
    "context": ("max_position_embeddings", "max_sequence_length"),
    "eps": ("rms_norm_eps", "rms_norm_eps"),
    "theta": ("rope_theta", "rope_theta"),
    "tied": ("tie_word_embeddings", "weight_tying"),
    "head_dim": ("head_dim", ""),
    "bias": ("attention_bias", ""),
}
TRANSFORMERS, LLADA = range(2)


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


def qwen(block: str = "", **fixed: Any) -> Callable[[Config, str], Body]:
    """The `body` of a family with these fields of Shape; block: the name of its block length in config.json."""

    def body(config: Config, where: str) -> Body:
        settings: Unsupported = fit(config, Unsupported, where)
        rotary = settings.rope_parameters or settings.rope_scaling or {}
        kind = rotary.get("rope_type", rotary.get("type", "default"))
        if kind not in ("default", None) or settings.use_sliding_window:
            problem = "sliding windows" if settings.use_sliding_window else f"rotary positions of type {kind!r}"
            raise UnmaskError(f"{where} has {problem}; expected full attention and plain rotary positions")
        theta = {"theta": float(rotary["rope_theta"])} if "rope_theta" in rotary else {}
        model = Decoder(sized(config, where, TRANSFORMERS, **(fixed | theta)))
        model.block = fit(config.get(block), Count | None, f"{where}: {block}")
        return model

    return body


def llada(config: Config, where: str) -> Body:
    return Decoder(sized({"rope_theta": 5e5, "rms_norm_eps": 1e-5} | config, where, LLADA))


def as_named(body: Body, names: frozenset[str]) -> dict[str, Source]:
    """Parameters under their own names."""
    return {name: Source((name,)) for name in body.state_dict()}


def llada_sources(body: Body, names: frozenset[str]) -> dict[str, Source]:
    """Names as published, or those of Llama, as in converted copies."""
    sources = {}
    for name in body.state_dict():
        theirs = name
        for pattern, replacement in () if "model.embed_tokens.weight" in names else LLADA_NAMES:
            theirs = re.sub(pattern, replacement, theirs)
        sources[name] = Source((theirs,))
    return sources


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

FAMILIES |= {
    "llada": Family(("llada",), llada, llada_sources),
    "qwen2": Family(("a2d-qwen2", "qwen2"), qwen(bias=True), as_named, UNUSED),
    "qwen3": Family(("a2d-qwen3", "qwen3"), qwen(normed=True), as_named, UNUSED),
    "dream": Family(("Dream", "dream"), qwen(bias=True), as_named, UNUSED),
    "fast-dllm": Family(("Fast_dLLM_Qwen",), qwen("bd_size", bias=True), as_named, UNUSED),
    "sdar": Family(("sdar",), qwen(normed=True), as_named, UNUSED),
}
