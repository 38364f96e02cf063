"""A masked model that transformers knows itself, ModernBERT: its class does the work, its weights are read by us.

Layers see all, or a window of neighbours; no keys and values are kept.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from unmask.core.errors import UnmaskError
from unmask.hub.body import Body
from unmask.networks.model.cache import Reach

KIND = "modernbert"
EXTRA = "pip install 'unmask[hub]'"


class Native(Body):
    """model: embeddings, layers and last norm; head: a dense layer and a norm; then the embedding once more."""

    def __init__(self, config: Mapping[str, Any], where: str) -> None:
        super().__init__()
        try:
            from transformers import AutoConfig, AutoModelForMaskedLM
        except ImportError as error:
            raise UnmaskError(f"{where} is a {KIND}, whose class the package transformers has; {EXTRA}") from error
        said = {name: value for name, value in config.items() if name not in ("model_type", "auto_map")}
        try:
            known = AutoConfig.for_model(KIND, **said)
        except Exception as error:  # whatever their checks come to
            raise UnmaskError(f"{where} is no configuration of {KIND}: {str(error).splitlines()[0]}") from error
        whole = AutoModelForMaskedLM.from_config(known, attn_implementation="sdpa")
        self.model, self.head = whole.model, whole.head
        self.bias = nn.Parameter(torch.empty(known.vocab_size)) if known.decoder_bias else None
        with torch.device("cpu"):  # what no file holds, and is made, not read
            self.model.rotary_emb = type(self.model.rotary_emb)(known)
        self.vocabulary, self.hidden = known.vocab_size, known.hidden_size
        self.context, self.sizes = known.max_position_embeddings, None

    def states(self, tokens: Tensor, columns: Tensor | None, seen: Tensor | None, reach: Reach | None) -> Tensor:
        there = None if seen is None else seen[:, 0, 0].expand(tokens.shape)
        return self.head(self.model(input_ids=tokens, attention_mask=there).last_hidden_state)

    def logits(self, states: Tensor) -> Tensor:
        return functional.linear(states, self.model.embeddings.tok_embeddings.weight, self.bias)
