"""SMDM (arXiv 2410.18514): bidirectional TinyLlama, 1.1B and smaller, with the parameter names of Lit-GPT."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from msgspec import field
from torch import Tensor

from unmask.core.reading import fit
from unmask.hub.body import Body
from unmask.hub.card import FAMILIES, Card, Family, Recipe, Source, Tokens, add
from unmask.hub.cards.llada import Count, Depth, fused, sized
from unmask.hub.cards.qwen import of_type
from unmask.hub.decoder import Decoder, Shape
from unmask.hub.rotary import Rounded

PARTS = (
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


class Config(msgspec.Struct):
    """Fields of Shape, by their names in Lit-GPT."""

    layers: Depth = field(name="n_layer")
    heads: Count = field(name="n_head")
    hidden: Count = field(name="n_embd")
    inner: Count = field(name="intermediate_size")
    vocabulary: Count = field(name="vocab_size")
    context: Count = field(name="block_size", default=2048)
    kv_heads: Count | None = field(name="n_query_groups", default=None)
    eps: float = field(name="norm_eps", default=1e-5)


def body(config: Mapping[str, Any], where: str) -> Body:
    settings: Config = fit(dict(config), Config, where)
    return Rounded(sized(settings, symbols=settings.vocabulary + 1))  # the mask is only an input


def sources(body: Body, names: frozenset[str]) -> dict[str, Source]:
    assert isinstance(body, Decoder)
    return {name: fused(name, PARTS, body.shape, _part) for name in body.state_dict()}


def _part(shape: Shape, kind: str, tensors: Sequence[Tensor]) -> Tensor:
    """The queries, keys or values of fused rows. For each key head these are its queries, the key and the value."""
    queries = shape.heads // shape.kv_heads
    groups = tensors[0].unflatten(0, (shape.kv_heads, queries + 2, shape.head_dim))
    part = {"q": slice(0, queries), "k": slice(queries, queries + 1), "v": slice(queries + 1, None)}[kind]
    return groups[:, part].flatten(0, 2)


FAMILIES["smdm"] = Family(of_type("smdm"), body, sources)
SIZES = {"n_layer": 20, "n_head": 14, "n_embd": 1792, "intermediate_size": 7168, "vocab_size": 32000}
CONFIG = json.dumps({"model_type": "smdm"} | SIZES)
GITHUB = "github.com/ML-GSAI/SMDM"
add(
    Card(
        name="smdm-1.1b",
        repository="nieshen/SMDM",
        licence="MIT",
        family="smdm",
        billions=1.1,
        tokens=Tokens(mask=32000, eos=2, bos=1),
        context=2048,
        recipes=(
            Recipe(
                "gsm8k",
                '--sampler "dream(alg=greddy, eps=1e-5, temperature=0.1)" --steps 256 --length 256 --guidance 0.1',
                f"{GITHUB}: evaluate_gsm8k.py, which generates a chain first and then its answer",
            ),
        ),
        traps=(
            "its published loop ranks positions of all rows of a batch together; the recipe is that loop for one row",
            "its repository has only weights: save mdm_safetensors/mdm-1028M-*.safetensors as model.safetensors",
            f"add the tokenizer of TinyLlama and a config.json: {CONFIG}",
            "the mask, 32000, is a row of the embedding without a row of the head",
            "its rotary positions are rounded to bfloat16, also with other types of weights",
        ),
    ),
)
