"""LLaDA-8B (arXiv 2502.09992) and LLaDA-1.5: Llama that sees both sides; iLLaDA with the names of Llama."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any

import msgspec

from unmask.core.reading import fit
from unmask.hub.body import Body
from unmask.hub.card import FAMILIES, Card, Family, Recipe, Source, Tokens, add
from unmask.hub.decoder import Decoder, Shape

Count = Annotated[int, msgspec.Meta(ge=1, le=2**24)]
Depth = Annotated[int, msgspec.Meta(ge=1, le=2**12)]  # of layers and of experts, each of which is made
PLACES = (  # of our names, what the checkpoint calls them
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


class Config(msgspec.Struct):
    d_model: Count
    n_layers: Depth
    n_heads: Count
    mlp_hidden_size: Count
    embedding_size: Count
    max_sequence_length: Count
    n_kv_heads: Count | None = None
    rope_theta: float = 5e5
    rms_norm_eps: float = 1e-5
    weight_tying: bool = False


def accepts(config: Mapping[str, Any]) -> bool:
    return config.get("model_type") == "llada" and "d_model" in config


def body(config: Mapping[str, Any], where: str) -> Body:
    said: Config = fit(dict(config), Config, where)
    return Decoder(
        Shape(
            vocabulary=said.embedding_size,
            hidden=said.d_model,
            layers=said.n_layers,
            heads=said.n_heads,
            kv_heads=said.n_kv_heads or said.n_heads,
            head_dim=said.d_model // said.n_heads,
            inner=said.mlp_hidden_size,
            context=said.max_sequence_length,
            theta=said.rope_theta,
            eps=said.rms_norm_eps,
            tied=said.weight_tying,
        )
    )


def sources(body: Body, found: frozenset[str]) -> dict[str, Source]:
    """As published, or, of converted copies, by the names of Llama."""
    if "model.embed_tokens.weight" in found:
        return {name: Source((name,)) for name in body.state_dict()}
    return {name: Source((_place(name),)) for name in body.state_dict()}


def _place(name: str) -> str:
    for ours, theirs in PLACES:
        name = re.sub(ours, theirs, name)
    return name


FAMILIES["llada"] = Family(accepts, body, sources)
TOKENS = Tokens(mask=126336, eos=126081, pad=126081, bos=126080, end_of_turn=126348)
PAPER = "github.com/ML-GSAI/LLaDA"
RECIPES = (
    Recipe(
        "published",
        '--sampler "llada(block_length=128)" --steps 128 --length 128',
        f"{PAPER}: generate.py, its defaults; its demonstration has blocks of 32",
    ),
)
TRAPS = (
    "the end token is confident early: without blocks much of the canvas is filled with it (GSM8K 69 against 79)",
    "classifier-free guidance of the published loop fails without an attention mask",
)
BASE = ("a base model: no chat template; without a few examples it writes garbage",)
add(
    *(
        Card(
            name=name.lower(),
            repository=f"GSAI-ML/{name}",
            licence="MIT",
            family="llada",
            billions=8,
            tokens=TOKENS,
            template=template,
            recipes=RECIPES,
            traps=traps,
        )
        for name, template, traps in (
            ("LLaDA-8B-Base", None, BASE),
            ("LLaDA-8B-Instruct", "llada", TRAPS),
            ("LLaDA-1.5", "llada", TRAPS),
        )
    )
)
