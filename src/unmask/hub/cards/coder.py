"""Dream-Coder (arXiv 2509.01142) and DiffuCoder (arXiv 2506.20639): Dream's architecture, from Qwen2.5-Coder-7B."""

from __future__ import annotations

from unmask.hub.card import Card, Recipe, Tokens, add

DREAM, APPLE = "github.com/DreamLM/Dream-Coder: README", "github.com/apple/ml-diffucoder: README"


def _recipe(count: int, temperature: float, source: str) -> Recipe:
    rounds = f'--sampler "dream(alg=entropy)" --steps {count} --length {count}'
    return Recipe("published", f"{rounds} --temperature {temperature} --top-p 0.95", source)


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
            traps=("its text begins with 151665, not with Dream's 151643",),
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
            traps=(
                "its padding is 151643 by config.json and 151667 by its tokenizer; nothing is padded with either here",
            ),
        )
        for kind in ("Base", "Instruct", "cpGRPO")
    ),
)
