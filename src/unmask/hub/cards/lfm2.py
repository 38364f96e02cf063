"""LFM2.5-Encoder-350M-Diffusion (Liquid AI, 2026): bidirectional attention and short convolutions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import msgspec

from unmask.core.errors import UnmaskError
from unmask.core.reading import fit
from unmask.hub.body import Body
from unmask.hub.card import FAMILIES, Card, Family, Recipe, Source, Tokens, add
from unmask.hub.cards.llada import Count, renamed
from unmask.hub.cards.qwen import shape_of
from unmask.hub.lfm2 import LFM2, Hybrid

PARTS = (
    (r"^norm\.", "embedding_norm."),
    (r"^embed\.", "embed_tokens."),
    (r"\.operator\.(q_proj|k_proj|v_proj)\.", r".self_attn.\1."),
    (r"\.operator\.o_proj\.", ".self_attn.out_proj."),
    (r"\.operator\.(q|k)_norm\.", r".self_attn.\1_layernorm."),
    (r"\.operator\.weight$", ".conv.conv.weight"),
    (r"\.operator\.(in|out)_proj\.", r".conv.\1_proj."),
    (r"\.mlp\.gate_proj\.", ".feed_forward.w1."),
    (r"\.mlp\.up_proj\.", ".feed_forward.w3."),
    (r"\.mlp\.down_proj\.", ".feed_forward.w2."),
)


class Config(msgspec.Struct):
    """Settings beyond those of all decoders."""

    layer_types: Annotated[list[str], msgspec.Meta(max_length=1000)]
    intermediate_size: Count | None = None
    block_ff_dim: Count | None = None  # the older name of the width
    block_auto_adjust_ff_dim: bool = True
    block_ffn_dim_multiplier: float | None = 1.0
    block_multiple_of: Count = 256
    conv_L_cache: Count = 3
    conv_bias: bool = False
    norm_eps: float = 1e-5


def accepts(config: Mapping[str, Any]) -> bool:
    """Accept bidirectional models, not the AR models they are based on."""
    kind, classes = config.get("model_type"), config.get("architectures") or [""]
    return kind == "lfm2_bidirectional" or (kind == "lfm2" and str(classes[0]).startswith("Lfm2Bidirectional"))


def body(config: Mapping[str, Any], where: str) -> Body:
    settings: Config = fit(dict(config), Config, where)
    if settings.conv_bias or settings.conv_L_cache % 2 == 0:
        problem = "conv_bias is true" if settings.conv_bias else f"conv_L_cache is {settings.conv_L_cache}"
        raise UnmaskError(f"{where}: {problem}; expected convolutions without a bias and of odd length")
    wide = settings.block_ff_dim or settings.intermediate_size
    if wide is None:
        raise UnmaskError(f"{where}: intermediate_size is missing")
    theta = {"rope_theta": config.get("rope_theta", 1e6)}  # missing in some files
    options = {"inner": _width(wide, settings), "eps": settings.norm_eps, "normed": True, "tied": True}
    shape = shape_of(dict(config) | theta | {"intermediate_size": wide}, where, **options)
    if len(settings.layer_types) != shape.layers:
        raise UnmaskError(f"{where}: layer_types has {len(settings.layer_types)} entries for {shape.layers} layers")
    attends = tuple(kind == "full_attention" for kind in settings.layer_types)
    return LFM2(shape, Hybrid(attends=attends, kernel=settings.conv_L_cache))


def _width(wide: int, settings: Config) -> int:
    """The width of the MLP, which depends on several settings."""
    if not settings.block_auto_adjust_ff_dim:
        return wide
    wide = int(2 * wide / 3)
    if settings.block_ffn_dim_multiplier is None:
        return wide
    return -(-int(settings.block_ffn_dim_multiplier * wide) // settings.block_multiple_of) * settings.block_multiple_of


def sources(body: Body, names: frozenset[str]) -> dict[str, Source]:
    prefix = "lfm2." if "lfm2.embed_tokens.weight" in names else "model."
    return {name: Source((prefix + renamed(name, PARTS),)) for name in body.state_dict()}


FAMILIES["lfm2"] = Family(accepts, body, sources, (r"^lm_head\.weight$",))
add(
    Card(
        name="lfm2.5-350m-diffusion",
        repository="LiquidAI/LFM2.5-Encoder-350M-Diffusion",
        licence="LFM Open License v1.0 (lfm1.0)",
        family="lfm2",
        billions=0.35,
        tokens=Tokens(mask=16, eos=7),
        plain=True,  # as published
        context=8192,
        template="question",
        recipes=(
            Recipe(
                "published",
                '--sampler "top-probability(temperature=0)" --steps 256 --length 256',
                "its model card: one token per step, the most likely first",
            ),
        ),
        traps=(
            "an answer ends with the text [/Answer], which is several tokens, not one special token",
            "its centred convolutions follow ports of its code; its chat template is inferred from its end",
        ),
    )
)
