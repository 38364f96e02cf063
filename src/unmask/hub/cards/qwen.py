"""Bidirectional and block-causal Qwen2 and Qwen3, with the configuration and names of transformers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import field

from unmask.core.errors import UnmaskError
from unmask.core.reading import fit
from unmask.hub.body import Body
from unmask.hub.card import FAMILIES, Card, Family, Recipe, Source, Tokens, add
from unmask.hub.cards.llada import Count, Depth, sized
from unmask.hub.decoder import Decoder, Shape


class Config(msgspec.Struct):
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
    shape: Config = fit(dict(config), Config, where)
    return sized(shape, **({"theta": float(rotary.get("rope_theta", shape.theta))} | options))


def as_named(body: Body, names: frozenset[str]) -> dict[str, Source]:
    """All parameters under their own names."""
    return {name: Source((name,)) for name in body.state_dict()}


def decoder(**options: Any) -> Any:
    """The `body` of a family with these options of Shape."""
    return lambda config, where: Decoder(shape_of(config, where, **options))


def of_type(*kinds: str) -> Any:
    return lambda config: config.get("model_type") in kinds


UNUSED = (r"^lm_head\.weight$", r"rotary_emb\.inv_freq$")  # a second copy of a tied head
FAMILIES["qwen2"] = Family(of_type("a2d-qwen2", "qwen2"), decoder(bias=True), as_named, UNUSED)
FAMILIES["qwen3"] = Family(of_type("a2d-qwen3", "qwen3"), decoder(normed=True), as_named, UNUSED)
DLLM = "github.com/ZHZisZZ/dllm"
QWEN2 = Tokens(mask=151665, eos=151645, pad=151643, end_of_turn=151645)


def recipes(block: int) -> tuple[Recipe, ...]:
    """One token per step, the most likely one."""
    options = f'--sampler "llada(block_length={block})" --steps 256 --length 256'
    return (Recipe("published", options, f"{DLLM}: examples/a2d"),)


QWEN3 = Tokens(mask=151669, eos=151645, pad=151643, end_of_turn=151645)
ALIGNED = ("its published blocks begin after the prompt; in unmask they are counted from its first token",)
add(
    *(
        Card(
            name=f"{name.lower()}-diffusion-{kind}",
            repository=f"dllm-hub/{repository}-diffusion-{kind}-v0.1",
            licence="Apache-2.0",
            family=family,
            billions=float(name.rpartition("-")[2].removesuffix("B")),
            tokens=tokens,
            block=32 if kind == "bd3lm" else None,
            template=template,
            context=32768,
            recipes=recipes(32 if kind == "bd3lm" else 256),
            traps=ALIGNED if kind == "bd3lm" else (),
        )
        for name, repository, family, tokens, template in (
            ("Qwen3-0.6B", "Qwen3-0.6B", "qwen3", QWEN3, "qwen3"),
            ("Qwen2.5-Coder-0.5B", "Qwen2.5-Coder-0.5B-Instruct", "qwen2", QWEN2, "qwen2"),
        )
        for kind in ("mdlm", "bd3lm")
    )
)
