"""ModernBERT taught to chat (dLLM): an encoder of 150M or 400M parameters, a denoiser in minutes on a laptop."""

from __future__ import annotations

from unmask.hub.card import FAMILIES, Card, Family, Recipe, Tokens, add
from unmask.hub.cards.qwen import of_type
from unmask.hub.masked import read

FAMILIES["modernbert"] = Family(of_type("modernbert"), read=read)
DLLM = "github.com/ZHZisZZ/dllm: examples/bert"
add(
    *(
        Card(
            name=f"modernbert-{size}-chat",
            repository=f"dllm-hub/ModernBERT-{size}-chat-v0.1",
            licence="Apache-2.0",
            family="modernbert",
            billions=0.15 if size == "base" else 0.4,
            tokens=Tokens(mask=50284, pad=50283, bos=50281, eos=50282),
            context=8192,
            template="question",
            recipes=(Recipe("published", '--sampler "llada(block_length=32)" --steps 256 --length 256', DLLM),),
            traps=(
                "an answer ends with the text [/Answer], which is several tokens and no symbol: what follows is none",
                "two layers of three see a window of 128 tokens, which masks far from any text fill with masks alone",
            ),
        )
        for size in ("base", "large")
    )
)
