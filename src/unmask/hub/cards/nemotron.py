"""Nemotron-Labs-Diffusion (arXiv 2607.05722): Ministral whose one set of weights reads from left to right, and writes
blocks that see all of themselves behind a past that was read from left to right."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from unmask.core.errors import UnmaskError, shown
from unmask.core.reading import fit
from unmask.hub.body import Body
from unmask.hub.card import FAMILIES, Card, Family, Recipe, Source, Tokens, add
from unmask.hub.cards.qwen import of_type, shape_of
from unmask.hub.rotary import Stretched, Yarn


class Config(msgspec.Struct):
    rope_parameters: dict[str, Any]
    attention_bias: bool = False
    mlp_bias: bool = False
    sliding_window: int | None = None


def body(config: Mapping[str, Any], where: str) -> Body:
    said: Config = fit(dict(config), Config, where)
    for name in ("attention_bias", "mlp_bias", "sliding_window"):
        if (value := getattr(said, name)) not in (None, False):
            raise UnmaskError(
                f"{where}: {name} is {shown(value)}, and Nemotron-Labs-Diffusion is known here without it"
            )
    kind = said.rope_parameters.get("rope_type")
    if kind != "yarn":
        raise UnmaskError(f"{where}: rope_type is {shown(kind)}; expected 'yarn'")
    fields = {name: value for name, value in said.rope_parameters.items() if name in Yarn.__struct_fields__}
    yarn: Yarn = fit(fields, Yarn, f"{where}: rope_parameters")
    # beyond the original context queries are scaled as well, which is not done here
    plain = dict(config) | {"rope_parameters": None, "rope_scaling": None}
    return Stretched(shape_of(plain, where, context=yarn.original_max_position_embeddings), yarn)


def sources(body: Body, found: frozenset[str]) -> dict[str, Source]:
    return {
        name: Source((name.replace("model.", "encoder.", 1) if name != "lm_head.weight" else "diffusion_head.weight",))
        for name in body.state_dict()
    }


FAMILIES["nemotron"] = Family(of_type("nemotron_labs_diffusion"), body, sources)
GITHUB = "the model's own generate(), as dLLM and SGLang have it"
TRAPS = (
    "its published blocks begin where the prompt ends; here they are counted from its first token",
    "its published loop reads the first token of a block from the one before; here all of a block is written",
    "beyond 16384 positions its queries are scaled as well, which is not done: longer texts are refused",
    "its conversations have a template that is not known here: write them as its tokenizer's card says",
    "its third mode drafts with an adapter (linear_spec_lora) that is not loaded",
)
SIZES = ("3B", "8B", "14B")
KINDS = ("", "-Base")
add(
    *(
        Card(
            name=f"nemotron-labs-diffusion-{size}{kind}{'-ar' if reads else ''}".lower(),
            repository=f"nvidia/Nemotron-Labs-Diffusion-{size}{kind}",
            licence="NVIDIA Open Model License",
            family="nemotron",
            billions=float(size.removesuffix("B")),
            tokens=Tokens(mask=None if reads else 100, eos=11, bos=1),
            prediction="shifted" if reads else "same",
            block=1 if reads else 32,
            past="blocks" if reads else "causal",
            context=16384,
            recipes=(
                Recipe("autoregressive", "--sampler autoregressive --length 512", GITHUB)
                if reads
                else Recipe(
                    "published",
                    '--sampler "blocks(block_length=32, inner=threshold(threshold=0.9, temperature=0))" --length 512',
                    GITHUB,
                ),
            ),
            traps=TRAPS,
        )
        for size in SIZES
        for kind in KINDS
        for reads in (False, True)
    )
)
