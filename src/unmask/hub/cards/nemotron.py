"""Nemotron-Labs-Diffusion (arXiv 2607.05722): Ministral as an AR model and a diffusion model with the same weights.

The diffusion model has full attention within the current block, and causal attention before it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from unmask.core.errors import UnmaskError, shown
from unmask.core.reading import fit
from unmask.hub.body import Body
from unmask.hub.card import FAMILIES, Card, Family, Recipe, Source, Tokens, add
from unmask.hub.cards.llada import without
from unmask.hub.cards.qwen import of_type, shape_of
from unmask.hub.rotary import Stretched, Yarn


class Config(msgspec.Struct):
    rope_parameters: dict[str, Any]


def body(config: Mapping[str, Any], where: str) -> Body:
    settings: Config = fit(dict(config), Config, where)
    without(config, ("attention_bias", "mlp_bias", "sliding_window"), where, "Nemotron-Labs-Diffusion")
    kind = settings.rope_parameters.get("rope_type")
    if kind != "yarn":
        raise UnmaskError(f"{where}: rope_type is {shown(kind)}; expected 'yarn'")
    fields = {name: value for name, value in settings.rope_parameters.items() if name in Yarn.__struct_fields__}
    yarn: Yarn = fit(fields, Yarn, f"{where}: rope_parameters")
    # longer texts, which need scaled queries, are not supported
    plain = dict(config) | {"rope_parameters": None, "rope_scaling": None}
    return Stretched(shape_of(plain, where, context=yarn.original_max_position_embeddings), yarn)


def sources(body: Body, names: frozenset[str]) -> dict[str, Source]:
    return {
        name: Source((name.replace("model.", "encoder.", 1) if name != "lm_head.weight" else "diffusion_head.weight",))
        for name in body.state_dict()
    }


FAMILIES["nemotron"] = Family(of_type("nemotron_labs_diffusion"), body, sources)
GITHUB = "the model's generate(), as in dLLM and SGLang"
TRAPS = (
    "its published blocks begin after the prompt; in unmask they are counted from its first token",
    "its published loop predicts the first token of a block from the previous one; unmask writes all of a block",
    "beyond 16384 positions its queries are scaled, which is not supported: longer texts are refused",
    "its chat template is not supported: write conversations in the format of its model card",
    "its third mode, drafts with an adapter (linear_spec_lora), is not supported",
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
