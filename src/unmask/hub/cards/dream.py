"""Dream-7B (arXiv 2508.15487), Dream-Coder (arXiv 2509.01142) and DiffuCoder (arXiv 2506.20639).

All are bidirectional Qwen2 models with shifted predictions. The coders are based on Qwen2.5-Coder-7B.
"""

from __future__ import annotations

from unmask.hub.card import FAMILIES, Card, Family, Recipe, Tokens, add
from unmask.hub.cards.qwen import UNUSED, as_named, decoder, of_type

FAMILIES["dream"] = Family(of_type("Dream", "dream"), decoder(bias=True), as_named, UNUSED)
DREAM, APPLE = "github.com/DreamLM/Dream-Coder: README", "github.com/apple/ml-diffucoder: README"


def _recipe(count: int, temperature: float, source: str) -> Recipe:
    options = f'--sampler "dream(alg=entropy)" --steps {count} --length {count}'
    return Recipe("published", f"{options} --temperature {temperature} --top-p 0.95", source)


add(
    *(
        Card(
            name=f"dream-coder-v0-{kind.lower()}-7b",
            repository=f"Dream-org/Dream-Coder-v0-{kind}-7B",
            licence="Apache-2.0",
            family="dream",
            billions=7.6,
            tokens=Tokens(mask=151666, eos=151643, pad=151643, bos=151665, end_of_turn=151645),
            prediction="shifted",
            context=2048,
            template="qwen2" if kind == "Instruct" else None,
            recipes=(_recipe(768, 0.1, DREAM),),
            traps=("its texts begin with token 151665, not with Dream's 151643",),
        )
        for kind in ("Base", "Instruct")
    ),
    *(
        Card(
            name=f"diffucoder-7b-{kind.lower()}",
            repository=f"apple/DiffuCoder-7B-{kind}",
            licence="Apple AMLR (research only)",
            family="dream",
            billions=7.6,
            tokens=Tokens(mask=151666, eos=151643, pad=151643, end_of_turn=151645),
            prediction="shifted",
            context=2048,
            template=None if kind == "Base" else "qwen2",
            recipes=(_recipe(256, 0.2 if kind == "Base" else 0.3, APPLE),),
            traps=("its padding is 151643 in config.json and 151667 in its tokenizer; neither is used here",),
        )
        for kind in ("Base", "Instruct", "cpGRPO")
    ),
)

README = "github.com/DreamLM/Dream: README"
TOKENS = Tokens(mask=151666, eos=151643, pad=151643, bos=151643, end_of_turn=151645)
RECIPES = (
    Recipe(
        "published", '--sampler "dream(alg=entropy)" --steps 512 --length 512 --temperature 0.2 --top-p 0.95', README
    ),
)
TRAPS = ("with one step per token its published loop reveals nothing in the first step and two tokens in the last",)
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
