"""Fast-dLLM v2 (arXiv 2509.26328): block-causal Qwen2.5 with blocks of 32 and shifted predictions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from unmask.core.reading import fit
from unmask.hub.body import Body
from unmask.hub.card import FAMILIES, Card, Family, Recipe, Tokens, add
from unmask.hub.cards.llada import Count
from unmask.hub.cards.qwen import UNUSED, as_named, of_type, shape_of
from unmask.hub.decoder import Decoder


class Config(msgspec.Struct):
    """Settings beyond those of all decoders."""

    bd_size: Count | None = None


def body(config: Mapping[str, Any], where: str) -> Body:
    model = Decoder(shape_of(config, where, bias=True))
    model.block = fit(dict(config), Config, where).bd_size
    return model


FAMILIES["fast-dllm"] = Family(of_type("Fast_dLLM_Qwen"), body, as_named, UNUSED)
GITHUB = "github.com/NVlabs/Fast-dLLM: v2"
add(
    *(
        Card(
            name=f"fast-dllm-v2-{size.lower()}",
            repository=f"Efficient-Large-Model/Fast_dLLM_v2_{size}",
            licence="Apache-2.0",
            family="fast-dllm",
            billions=7.6 if size == "7B" else 1.5,
            tokens=Tokens(mask=151665, eos=151645, pad=151643, end_of_turn=151645),
            prediction="shifted",
            block=32,
            context=32768,
            template="qwen2",
            recipes=(
                Recipe(
                    "published",
                    '--sampler "blocks(block_length=8, first=32, inner=threshold(threshold=0.9, temperature=0))" '
                    "--length 512",
                    f"{GITHUB}: README; its evaluation uses threshold 1, one token per step",
                ),
            ),
            traps=(
                "blocks, and their parts of 8, are counted from the first token of the prompt",
                "its own chat template adds the system message of Qwen2.5 by default; that of unmask does not",
                "the published loop ignores a prompt of exactly 32 tokens; unmask uses it",
            ),
        )
        for size in ("1.5B", "7B")
    )
)
