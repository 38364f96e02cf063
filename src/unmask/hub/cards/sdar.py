"""SDAR (arXiv 2510.06303) and TraDo: block-causal Qwen3."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from unmask.core.errors import UnmaskError
from unmask.core.reading import fit
from unmask.hub.body import Body
from unmask.hub.card import FAMILIES, Card, Family, Recipe, Tokens, add
from unmask.hub.cards.llada import Count, Depth
from unmask.hub.cards.llada_moe import sources
from unmask.hub.cards.qwen import UNUSED, as_named, decoder, of_type, shape_of
from unmask.hub.moe import Experts, SparseDecoder

GITHUB = "github.com/JetAstra/SDAR: README"
TOKENS = Tokens(mask=151669, eos=151643, pad=151643, end_of_turn=151645)
BLOCK = 4  # of models without a block length in their names
SIZES = ("1.7B", "4B", "8B")


class Config(msgspec.Struct):
    """Settings beyond those of all decoders."""

    num_experts: Depth
    num_experts_per_tok: Count
    moe_intermediate_size: Count
    norm_topk_prob: bool = True
    decoder_sparse_step: int = 1
    mlp_only_layers: list[int] = msgspec.field(default_factory=list)


def sparse(config: Mapping[str, Any], where: str) -> Body:
    settings: Config = fit(dict(config), Config, where)
    if settings.decoder_sparse_step != 1 or settings.mlp_only_layers:
        raise UnmaskError(f"{where}: some layers have no experts; expected experts in all layers")
    shape = shape_of(config, where, normed=True)
    experts = Experts(
        count=settings.num_experts,
        chosen=settings.num_experts_per_tok,
        inner=settings.moe_intermediate_size,
        normalised=settings.norm_topk_prob,
    )
    return SparseDecoder(shape, experts)


FAMILIES["sdar-moe"] = Family(of_type("sdar_moe"), sparse, sources, UNUSED)
FAMILIES["sdar"] = Family(of_type("sdar"), decoder(normed=True), as_named, UNUSED)


def _recipes(block: int) -> tuple[Recipe, ...]:
    return (
        Recipe(
            "static",
            f'--sampler "llada(block_length={block})" --steps 512 --length 512',
            f"{GITHUB}: one step per token",
        ),
        Recipe(
            "dynamic",
            f'--sampler "blocks(block_length={block}, inner=threshold(threshold=0.9, temperature=0))" --length 512',
            f"{GITHUB}; generate.py has 0.85; for 3 steps per block of 4 add counts=(2, 1, 1)",
        ),
    )


TRAPS = (
    "blocks are counted from the first token of the prompt, so the first written block may be shorter",
    "the published generate.py fails at its start: it uses its arguments before it parses them",
)
add(
    *(
        Card(
            name=name.lower(),
            repository=f"{owner}/{name}",
            licence=licence,
            family="sdar-moe" if "A3B" in name else "sdar",
            billions=float(name.split("-")[1].removesuffix("B")),
            tokens=TOKENS,
            block=block,
            context=32768,
            template="chatml",
            recipes=_recipes(block),
            traps=TRAPS,
        )
        for owner, name, licence, block in (
            *(("JetLM", f"SDAR-{size}-Chat", "Apache-2.0", BLOCK) for size in SIZES),
            *(("JetLM", f"SDAR-{size}-Chat-b{b}", "Apache-2.0", b) for size in SIZES for b in (8, 16, 32, 64)),
            *(("JetLM", f"SDAR-30B-A3B-{kind}", "Apache-2.0", BLOCK) for kind in ("Chat", "Sci")),
            ("JetLM", "SDAR-30B-A3B-Chat-b32", "Apache-2.0", 32),
            *(("Gen-Verse", f"TraDo-{size}", "MIT", BLOCK) for size in ("4B-Instruct", "8B-Instruct", "8B-Thinking")),
        )
    )
)
