"""Judge texts with an open model: nats per token, exact for an AR model, a bound for a masked model.

    -log p(x) / L, as in likelihood.py, without a context

Each model has its own tokens, so nats per token are comparable only between models with the same tokenizer. Nats per
character are always comparable.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any, NamedTuple

import torch
from torch import Tensor

from unmask.core import arguments, progress
from unmask.core.errors import UnmaskError
from unmask.diagnosis import sampler_likelihood
from unmask.diagnosis.likelihood import AT_ONCE, Likelihood, bound, chain, drawn, read
from unmask.models.open.loading import load_model, locate
from unmask.models.open.model import OpenModel
from unmask.models.open.prompted import usual as usual_options

USUAL = "HuggingFaceTB/SmolLM2-135M-Instruct"
DRAWS = 64  # sets of positions per row
KINDS = ("bound", "chain", "path")


class Judged(NamedTuple):
    """Losses of B texts, (B) float64 each; NaN for an empty text."""

    nats: Tensor  # nats per token: exact, or an upper bound
    error: Tensor  # standard error of nats: 0 if exact
    tokens: Tensor  # (B) int64: number of tokens
    model_calls: Tensor  # (B) int64


def check() -> None:
    """Fetch the usual judge if it is not here; raise an error if the hub cannot be reached."""
    locate(USUAL)


@cache
def usual() -> OpenModel:
    """SmolLM2, 135 million parameters."""
    return load_model(USUAL, device="cpu")


def judge(
    model: OpenModel,
    texts: Sequence[str],
    *,
    draws: int = DRAWS,
    seed: int = 0,
    likelihood: str = "bound",
    **options: Any,
) -> Judged:
    """Judge texts, cut at the length of the model's context; draws: random masks or choices per text.

    likelihood (masked models): "bound", "chain", or "path", that of a sampler; then options are its settings
    (`answering.usual`). An AR model is exact.
    """
    arguments.whole("draws", draws, 2)
    check_kind(model, likelihood, **options)
    rows = tokens_of(model, texts)
    lengths = torch.tensor([len(row) for row in rows], dtype=torch.int64)
    by_text: dict[int, Likelihood] = {}
    order = lengths.argsort()
    with progress.track("judging", len(rows)) as advance:
        for part in order.split(AT_ONCE):
            some = [number for number in part.tolist() if len(rows[number])]
            if model.card.causal and some:
                by_text |= zip(some, read(model, [rows[number] for number in some], [0] * len(some)), strict=True)
            elif some:
                by_text |= {
                    number: _judged(model, rows[number], likelihood, draws, seed + number, options) for number in some
                }
            advance(len(part))
    nats, error = (torch.full((len(rows),), torch.nan, dtype=torch.float64) for _ in range(2))
    calls = torch.zeros_like(lengths)
    for number, one in by_text.items():
        size = len(rows[number])
        nats[number], error[number], calls[number] = -one.nats / size, one.error / size, one.model_calls
    if likelihood == "path" and by_text and not bool(nats[lengths > 0].isfinite().any()):
        used = usual_options(model, 1, **options)["sampler"]
        raise UnmaskError(f"all texts have probability 0 under {used}; expected a possible one. Pass another --sampler")
    return Judged(nats, error, lengths, calls)


def check_kind(model: OpenModel, likelihood: str, **options: Any) -> None:
    """Raise an error if the model has no likelihood of this kind with these options."""
    arguments.word("likelihood", likelihood, KINDS)
    if model.card.causal and (likelihood != "bound" or options):
        problem = f"{model.name} is an AR model, whose likelihood is exact"
        raise UnmaskError(f"{problem}; expected no likelihood or sampler. Leave them out")
    if likelihood == "path":
        sampler_likelihood.checked_sampler(usual_options(model, 1, **options)["sampler"])
    elif options:
        problem = f"the likelihood {likelihood} has no sampler"
        raise UnmaskError(f"{problem}; expected no {', '.join(options)}. Pass the likelihood path")


def _judged(
    model: OpenModel, row: Tensor, likelihood: str, draws: int, seed: int, options: dict[str, Any]
) -> Likelihood:
    if likelihood == "chain":
        return chain(model, row, 0)
    if likelihood == "bound":
        return bound(model, row, 0, drawn(len(row), draws, seed))
    return by_sampler(model, row, 0, draws, seed, **options)


def by_sampler(model: OpenModel, row: Tensor, first: int, draws: int, seed: int, **options: Any) -> Likelihood:
    """Log-likelihood of a row (L) from position `first` on, under a sampler with its usual options."""
    given = torch.where(torch.arange(len(row)) < first, row, model.vocabulary)
    settings = usual_options(model, len(row) - first, **options)
    result = sampler_likelihood.likelihood(model, texts=row[None], given=given, draws=draws, seed=seed, **settings)
    return Likelihood(float(result.nats), float(result.error), None, int(result.model_calls))


def tokens_of(model: OpenModel, texts: Sequence[str]) -> list[Tensor]:
    """The tokens of each text, up to the model's context."""
    if model.tokenizer is None:
        raise UnmaskError(f"{model.name} has no tokenizer, which texts need. Copy tokenizer.json next to its weights")
    rows = (torch.from_numpy(model.tokenizer.encode(text)).long()[: model.length - 1] for text in texts)
    return [row.clamp(max=model.vocabulary - 1) for row in rows]  # unknown bytes become the last symbol
