"""SDAR (arXiv 2510.06303) and TraDo: Qwen3 that writes blocks, each seeing itself and those before it."""

from __future__ import annotations

from unmask.hub.card import Card, Recipe, Tokens, add

GITHUB = "github.com/JetAstra/SDAR: README"
TOKENS = Tokens(mask=151669, eos=151643, pad=151643, end_of_turn=151645)
BLOCK = 4  # of those whose names do not say


def _recipes(block: int) -> tuple[Recipe, ...]:
    return (
        Recipe(
            "static",
            f'--sampler "llada(block_length={block})" --steps 512 --length 512',
            f"{GITHUB}: as many rounds as tokens",
        ),
        Recipe(
            "dynamic",
            f'--sampler "blocks(block_length={block}, inner=threshold(threshold=0.9))" --length 512 --temperature 0',
            f"{GITHUB}; its generate.py says 0.85",
        ),
    )


TRAPS = (
    "its blocks are counted from the first token of the prompt, so the first one written may be shorter",
    "the published generate.py stops at once: it reads its arguments before they are there",
)
add(
    *(
        Card(
            name=name.lower(),
            repository=f"{owner}/{name}",
            licence=licence,
            family="qwen3",
            tokens=TOKENS,
            block=block,
            context=32768,
            template="chatml",
            recipes=_recipes(block),
            traps=TRAPS,
        )
        for owner, name, licence, block in (
            *(("JetLM", f"SDAR-{size}-Chat", "Apache-2.0", BLOCK) for size in ("1.7B", "4B", "8B")),
            *(
                ("JetLM", f"SDAR-{size}-Chat-b{b}", "Apache-2.0", b)
                for size in ("1.7B", "4B", "8B")
                for b in (8, 16, 32, 64)
            ),
            ("JetLM", "SDAR-8B-Chat-Sci", "Apache-2.0", BLOCK),
            *(("Gen-Verse", f"TraDo-{size}", "MIT", BLOCK) for size in ("4B-Instruct", "8B-Instruct", "8B-Thinking")),
        )
    )
)
