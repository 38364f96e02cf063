"""LLaDA-8B (arXiv 2502.09992) and LLaDA-1.5: bidirectional Llama."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Annotated, Any

import msgspec
from msgspec import field
from torch import Tensor

from unmask.core.errors import UnmaskError, shown
from unmask.core.reading import fit
from unmask.hub.body import Body
from unmask.hub.card import FAMILIES, Card, Family, Recipe, Source, Tokens, add
from unmask.hub.decoder import Decoder, Shape

Count = Annotated[int, msgspec.Meta(ge=1, le=2**24)]
Depth = Annotated[int, msgspec.Meta(ge=1, le=2**12)]  # number of layers or experts
PARTS = (  # parts of names: in unmask, in the checkpoint
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


def accepts(config: Mapping[str, Any]) -> bool:
    return config.get("model_type") == "llada" and "d_model" in config


def body(config: Mapping[str, Any], where: str) -> Body:
    return Decoder(sized(fit(dict(config), Config, where)))


def sized(settings: msgspec.Struct, **options: Any) -> Shape:
    """The shape with the fields of a config; by default its heads are of equal width, each with keys and values."""
    given = msgspec.structs.asdict(settings) | options
    heads = {"kv_heads": given.get("kv_heads") or given["heads"]}
    heads["head_dim"] = given.get("head_dim") or given["hidden"] // given["heads"]
    return Shape(**(given | heads))


def sources(body: Body, names: frozenset[str]) -> dict[str, Source]:
    """Names as published, or those of Llama, as in converted copies."""
    parts = () if "model.embed_tokens.weight" in names else PARTS
    return {name: Source((renamed(name, parts),)) for name in body.state_dict()}


def without(config: Mapping[str, Any], names: Sequence[str], where: str, family: str) -> None:
    """Raise an error if one of these settings is on, as no published model of the family has it."""
    for name in names:
        if (value := config.get(name)) not in (None, False, 0):
            raise UnmaskError(f"{where}: {name} is {shown(value)}; expected {family} without it")


def renamed(name: str, parts: Sequence[tuple[str, str]]) -> str:
    """The name of a parameter in the checkpoint. parts: pairs of a pattern and its replacement."""
    for pattern, replacement in parts:
        name = re.sub(pattern, replacement, name)
    return name


def fused(name: str, parts: Sequence[tuple[str, str]], shape: Shape, rows: Callable[..., Tensor]) -> Source:
    """The source of a parameter; queries, keys and values are `rows` of one tensor, by shape and kind (q, k or v)."""
    theirs, part = renamed(name, parts), re.search(r"\.([qkv])_proj\.", name)
    if part is None:
        return Source((theirs,))
    count = (shape.heads + 2 * shape.kv_heads) * shape.head_dim
    size = (count, shape.hidden) if name.endswith(".weight") else (count,)
    return Source((theirs,), partial(rows, shape, part[1]), (size,))


FAMILIES["llada"] = Family(accepts, body, sources)
TOKENS = Tokens(mask=126336, eos=126081, pad=126081, bos=126080, end_of_turn=126348)
PAPER = "github.com/ML-GSAI/LLaDA"
RECIPES = (
    Recipe(
        "published",
        '--sampler "llada(block_length=128)" --steps 128 --length 128',
        f"{PAPER}: defaults of generate.py; its demonstration uses blocks of 32",
    ),
)
TRAPS = (
    "the end token is confident early: without blocks it fills many positions (GSM8K 69% instead of 79%)",
    "classifier-free guidance of the published loop fails without an attention mask",
)
BASE = ("a base model without a chat template; it needs a few examples in the prompt",)
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
