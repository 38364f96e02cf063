"""Judges of generated texts: open models, and those of the networks that learn a text.

An open model (`judge`) gives -log p(x) / L, as in nelbo.py without a context: exact for an AR model, a bound for a
masked model. Each model has its own tokens, so nats per token are comparable only between models with the same
tokenizer. Nats per character are always comparable. For networks (`Judges`):

    twin      -log p(x) under an AR network of the same symbols, for the L tokens of the row
    ngram     -log p(x) under an n-gram model of the held-out documents, independent of networks (models/text/ngrams.py)

Generative perplexity, exp E[-log p(x) / |x|], is also low for repetitive text. So it is shown with the entropy H(f) of
the token frequencies f within a row. A row is short, so H(f) is far below the entropy of the whole text: compare it
with rows of the text. Words that do not occur in the text are the counterpart of impossible sequences.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any, NamedTuple

import torch
from torch import Tensor

from unmask.core import arguments, progress
from unmask.core.errors import UnmaskError
from unmask.diagnosis.likelihood import checked_sampler, of_sampler
from unmask.diagnosis.nelbo import AT_ONCE, Likelihood, bound, chain, drawn, read
from unmask.models.open.loading import load_model
from unmask.models.open.model import OpenModel
from unmask.models.open.prompted import usual as usual_options
from unmask.models.text import Lexicon, NGramJudge, Text
from unmask.models.trained import Trunk
from unmask.models.trained.checkpoints import check_fits
from unmask.models.trained.objectives import Objective
from unmask.models.trained.validation import HeldOut

USUAL = "HuggingFaceTB/SmolLM2-135M-Instruct"
DRAWS = 64  # sets of positions per row
KINDS = ("bound", "chain", "path")


class Judged(NamedTuple):
    """Losses of B texts, (B) float64 each; NaN for an empty text."""

    nats: Tensor  # nats per token: exact, or an upper bound
    error: Tensor  # standard error of nats: 0 if exact
    tokens: Tensor  # (B) int64: number of tokens
    model_calls: Tensor  # (B) int64


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
    lengths = torch.tensor(list(map(len, rows)), dtype=torch.int64)
    by_text: dict[int, Likelihood] = {}

    with progress.track("judging", len(rows)) as advance:
        for part in lengths.argsort().split(AT_ONCE):
            some = [number for number in part.tolist() if len(rows[number])]
            if model.card.causal and some:
                by_text |= zip(some, read(model, [rows[number] for number in some], [0] * len(some)), strict=True)
            elif likelihood == "chain":
                by_text |= {n: chain(model, rows[n], 0) for n in some}
            elif likelihood == "bound":
                by_text |= {n: bound(model, rows[n], 0, drawn(len(rows[n]), draws, seed + n)) for n in some}
            else:
                by_text |= {n: by_sampler(model, rows[n], 0, draws, seed + n, **options) for n in some}
            advance(len(part))

    # an empty text has no loss
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
        raise UnmaskError(
            f"{model.name} is an AR model, whose likelihood is exact",
            "expected no likelihood or sampler. Leave them out",
        )
    if likelihood == "path":
        checked_sampler(usual_options(model, 1, **options)["sampler"])
    elif options:
        raise UnmaskError(
            f"the likelihood {likelihood} has no sampler", f"expected no {', '.join(options)}. Pass the likelihood path"
        )


def by_sampler(model: OpenModel, row: Tensor, first: int, draws: int, seed: int, **options: Any) -> Likelihood:
    """Log-likelihood of a row (L) from position `first` on, under a sampler with its usual options."""
    given = torch.where(torch.arange(len(row)) < first, row, model.vocabulary)
    settings = usual_options(model, len(row) - first, **options)
    result = of_sampler(model, texts=row[None], given=given, draws=draws, seed=seed, **settings)
    return Likelihood(float(result.nats), float(result.error), None, int(result.model_calls))


def tokens_of(model: OpenModel, texts: Sequence[str]) -> list[Tensor]:
    """The tokens of each text, up to the model's context."""
    if model.tokenizer is None:
        raise UnmaskError(f"{model.name} has no tokenizer, which texts need. Copy tokenizer.json next to its weights")
    rows = (torch.from_numpy(model.tokenizer.encode(text)).long()[: model.length - 1] for text in texts)
    return [row.clamp(max=model.vocabulary - 1) for row in rows]  # unknown bytes become the last symbol


@dataclass(frozen=True)
class Written:
    """Metrics of B rows, (B) float64 each; NaN for a row without characters or words."""

    entropy: Tensor  # nats per token: H of the token frequencies within the row
    twin: Tensor  # nats per token, under the AR network
    ngram: Tensor  # nats per character, under the n-gram model of the held-out documents
    unknown: Tensor  # fraction of words that do not occur in the text

    @property
    def wrong(self) -> Tensor:
        """Bool (B): whether the row has such a word."""
        return self.unknown > 0


@dataclass(frozen=True)
class Judges:
    """The judges of a text; `twin` is an AR network trained on it. Each judge is built once."""

    text: Text
    twin: Trunk

    def __post_init__(self) -> None:
        if not self.twin.shape.causal:
            raise UnmaskError("the network that judges is an MDM; expected an AR network")
        check_fits(self.twin.shape, "the network that judges", self.text.vocabulary)

    @cached_property
    def ngram(self) -> NGramJudge:
        return NGramJudge(self.text.corpus.held_out)

    @cached_property
    def lexicon(self) -> Lexicon:
        """Words of the whole text, so that no row of the text has an unknown word."""
        return Lexicon(self.text.corpus.documents)

    def __call__(self, tokens: Tensor) -> Written:
        """Judge tokens (B, L)."""
        check_fits(self.twin.shape, "the network that judges", length=tokens.shape[1])
        return Written(
            entropy=token_entropy(tokens),
            twin=HeldOut(tokens, 0, Objective(self.twin.shape)).nats(self.twin) / tokens.shape[1],
            ngram=self.by_ngram(tokens),
            unknown=self._rates(self.lexicon.unknown, tokens),
        )

    def by_ngram(self, tokens: Tensor) -> Tensor:
        """(B): nats per character."""
        return self._rates(self.ngram.nats, tokens)

    def _rates(self, judge: Callable[[Any], tuple[float, int]], tokens: Tensor) -> Tensor:
        """(B): ratios of the (amount, count) that a judge gives the documents of a row; NaN if the count is 0."""
        documents = map(self.text.tokenizer.documents, tokens.tolist())
        amounts, counts = torch.tensor(list(map(judge, documents)), dtype=torch.float64).T
        return torch.where(counts > 0, amounts / counts, torch.nan)


def token_entropy(tokens: Tensor) -> Tensor:
    """(B) float64: -sum_v f_v log f_v, where f_v is the fraction of symbol v in a row of (B, L)."""
    ordered = tokens.sort(1).values
    begins = torch.ones_like(ordered, dtype=torch.bool)
    begins[:, 1:] = ordered[:, 1:] != ordered[:, :-1]
    run = begins.cumsum(1) - 1  # index among the different symbols of the row
    fraction = torch.zeros(tokens.shape, dtype=torch.float64).scatter_add_(
        1, run, torch.full(tokens.shape, 1 / tokens.shape[1], dtype=torch.float64)
    )
    return torch.special.entr(fraction).sum(1)
