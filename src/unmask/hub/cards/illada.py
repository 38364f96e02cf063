"""iLLaDA-8B (arXiv 2606.25331): LLaDA trained on 12T tokens, with grouped heads and the parameter names of Llama."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from unmask.hub.body import Body
from unmask.hub.card import FAMILIES, Card, Family, Recipe, Tokens, add
from unmask.hub.cards.llada import without
from unmask.hub.cards.qwen import UNUSED, as_named, of_type, shape_of
from unmask.hub.decoder import Decoder


def body(config: Mapping[str, Any], where: str) -> Body:
    without(config, ("attention_bias", "mlp_bias", "layer_norm_eps"), where, "iLLaDA")
    return Decoder(shape_of(config, where))


FAMILIES["illada"] = Family(of_type("illada"), body, as_named, UNUSED)
GITHUB = "github.com/ML-GSAI/LLaDA: iLLaDA/eval.sh"
add(
    *(
        Card(
            name=f"illada-8b-{kind.lower()}",
            repository=f"GSAI-ML/iLLaDA-8B-{kind}",
            licence="Apache-2.0",
            family="illada",
            billions=8,
            tokens=Tokens(mask=5, eos=2, pad=1, bos=0),
            context=8192,
            recipes=(Recipe("published", '--sampler "llada(block_length=32)" --steps 1024 --length 1024', GITHUB),),
            traps=(
                "neither config.json nor the tokenizer declares its mask, token 5, <[MASK]>",
                "LLaDA's 126336 is an ordinary token of its vocabulary",
                "the chat template of the instruct model is not supported",
            ),
        )
        for kind in ("Base", "Instruct")
    )
)
