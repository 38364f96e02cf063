"""Dream-7B (arXiv 2508.15487) and what was made of it: Qwen2 that sees both sides, its answers one place before."""

from __future__ import annotations

from unmask.hub.card import FAMILIES, Card, Family, Recipe, Tokens, add
from unmask.hub.cards.qwen import UNUSED, as_named, decoder, of_type

FAMILIES["dream"] = Family(of_type("Dream", "dream"), decoder(bias=True), as_named, UNUSED)
README = "github.com/DreamLM/Dream: README"
TOKENS = Tokens(mask=151666, eos=151643, pad=151643, bos=151643, end_of_turn=151645)
RECIPES = (
    Recipe(
        "published", '--sampler "dream(alg=entropy)" --steps 512 --length 512 --temperature 0.2 --top-p 0.95', README
    ),
)
TRAPS = ("its published loop reveals nothing in its first round and two in its last where steps are as many as tokens",)
add(
    *(
        Card(
            name=name.lower(),
            repository=f"Dream-org/{name}",
            licence="Apache-2.0",
            family="dream",
            billions=7.6,
            tokens=TOKENS,
            prediction="shifted",
            context=2048,
            template=template,
            recipes=RECIPES,
            traps=TRAPS,
        )
        for name, template in (("Dream-v0-Base-7B", None), ("Dream-v0-Instruct-7B", "qwen2"))
    )
)
