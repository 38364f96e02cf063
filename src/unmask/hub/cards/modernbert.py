"""ModernBERT trained to chat (dLLM): encoders of 150M and 400M parameters, by their class in transformers.

They have no KV cache, because most layers attend only to a window of neighbours.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from unmask.core.errors import UnmaskError, shown
from unmask.hub.body import Body
from unmask.hub.card import FAMILIES, Card, Family, Recipe, Tokens, add
from unmask.hub.cards.qwen import of_type
from unmask.hub.native import pretrained
from unmask.networks.model.cache import Reach

KIND = "ModernBertForMaskedLM"


class NativeMasked(Body):
    """Embeddings, layers and a final norm, then a dense layer with its norm; the head is the embedding."""

    sizes = None

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model, self.head = model, model.decoder
        self.vocabulary, self.hidden = self.head.weight.shape[0], model.config.hidden_size
        self.context = model.config.max_position_embeddings

    def states(self, tokens: Tensor, columns: Tensor | None, seen: Tensor | None, reach: Reach | None) -> Tensor:
        valid = None if seen is None else seen[:, 0, 0].expand(tokens.shape)
        return self.model.head(self.model.model(input_ids=tokens, attention_mask=valid).last_hidden_state)

    def logits(self, states: Tensor) -> Tensor:
        return self.head(states)

    def flops(self, columns: int, keys: int) -> float:
        """Layers with a window attend to at most its keys."""
        config = self.model.config
        window = 2 * config.sliding_window + 1
        seen = sum(keys if kind == "full_attention" else min(keys, window) for kind in config.layer_types)
        return super().flops(columns, keys) + 4.0 * columns * seen * self.hidden

    def parameters_used(self) -> int:
        return sum(weight.numel() for weight in (*self.model.model.layers.parameters(), *self.model.head.parameters()))


def read(directory: Path, config: Mapping[str, Any], dtype: torch.dtype | None) -> Body:
    if (kind := (config.get("architectures") or [None])[0]) != KIND:
        raise UnmaskError(f"{directory} contains a {shown(kind)}; expected a {KIND}")
    return NativeMasked(pretrained(directory, "AutoModelForMaskedLM", dtype))


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
                "an answer ends with the text [/Answer], which is several tokens, not one special token",
                "two thirds of the layers have a window of 128 tokens; positions far from any text see only masks",
            ),
        )
        for size in ("base", "large")
    )
)
