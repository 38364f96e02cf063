"""A masked model that transformers knows itself, ModernBERT, behind our question: it sees both sides, or a window.

No keys and values are kept: layers that see a window of neighbours have no use for those of others.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from unmask.core.errors import UnmaskError, shown
from unmask.hub.body import Body
from unmask.hub.native import pretrained
from unmask.networks.model.cache import Reach

KIND = "ModernBertForMaskedLM"


class NativeMasked(Body):
    """Embeddings, layers and last norm, a dense layer with a norm of its own; the head is the embedding."""

    sizes = None

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model, self.head = model, model.decoder
        self.vocabulary, self.hidden = self.head.weight.shape[0], model.config.hidden_size
        self.context = model.config.max_position_embeddings

    def states(self, tokens: Tensor, columns: Tensor | None, seen: Tensor | None, reach: Reach | None) -> Tensor:
        there = None if seen is None else seen[:, 0, 0].expand(tokens.shape)
        return self.model.head(self.model.model(input_ids=tokens, attention_mask=there).last_hidden_state)

    def logits(self, states: Tensor) -> Tensor:
        return self.head(states)

    def flops(self, columns: int, keys: int) -> float:
        """A layer of a window attends to that, whatever else there is."""
        config = self.model.config
        window = 2 * config.sliding_window + 1
        seen = sum(keys if kind == "full_attention" else min(keys, window) for kind in config.layer_types)
        return super().flops(columns, keys) + 4.0 * columns * seen * self.hidden

    def parameters_used(self) -> int:
        return sum(weight.numel() for weight in (*self.model.model.layers.parameters(), *self.model.head.parameters()))


def read(directory: Path, config: Mapping[str, Any], dtype: torch.dtype | None) -> Body:
    if (found := (config.get("architectures") or [None])[0]) != KIND:
        raise UnmaskError(f"{directory} holds a {shown(found)}, which says nothing of masks; expected a {KIND}")
    return NativeMasked(pretrained(directory, "AutoModelForMaskedLM", dtype))
