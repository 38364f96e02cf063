"""One file a family: how its files become a body, and a card for each of its checkpoints."""

from unmask.hub.cards import dream, llada, qwen, smollm2

__all__ = ["dream", "llada", "qwen", "smollm2"]
