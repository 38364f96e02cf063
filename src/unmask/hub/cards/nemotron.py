"""Nemotron-Labs-Diffusion (arXiv 2607.05722): Ministral whose one set of weights reads from left to right, and writes
blocks that see all of themselves behind a past that was read from left to right."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from unmask.core.errors import UnmaskError, shown
from unmask.core.reading import fit
from unmask.hub.body import Body
from unmask.hub.card import FAMILIES, Family, Source
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
    plain = dict(config) | {"rope_parameters": {"rope_theta": said.rope_parameters.get("rope_theta", 1e6)}}
    # beyond the original context queries are scaled as well, which is not done here
    return Stretched(shape_of(plain, where, context=yarn.original_max_position_embeddings), yarn)


def sources(body: Body, found: frozenset[str]) -> dict[str, Source]:
    return {
        name: Source((name.replace("model.", "encoder.", 1) if name != "lm_head.weight" else "diffusion_head.weight",))
        for name in body.state_dict()
    }


FAMILIES["nemotron"] = Family(of_type("nemotron_labs_diffusion"), body, sources)
