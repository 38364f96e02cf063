"""One file a family: how its files become a body, and a card for each of its checkpoints."""

from unmask.hub.cards import (
    coder,
    dream,
    fast_dllm,
    illada,
    lfm2,
    llada,
    llada2,
    llada_moe,
    mdlm,
    modernbert,
    nemotron,
    qwen,
    sdar,
    smdm,
    smollm2,
)

__all__ = [
    "coder",
    "dream",
    "fast_dllm",
    "illada",
    "lfm2",
    "llada",
    "llada2",
    "llada_moe",
    "mdlm",
    "modernbert",
    "nemotron",
    "qwen",
    "sdar",
    "smdm",
    "smollm2",
]
