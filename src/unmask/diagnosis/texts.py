"""Metrics of generated texts: each judge returns the nats of a row.

    twin      -log p(x) under an AR network of the same symbols, for the L tokens of the row
    ngram     -log p(x) under an n-gram model of the held-out documents, independent of networks (models/text/ngrams.py)
    smollm2   -log p(x) under a language model of English (diagnosis/judge.py), if asked for

Generative perplexity, exp E[-log p(x) / |x|], is also low for repetitive text. So it is shown with the entropy H(f) of
the token frequencies f within a row. A row is short, so H(f) is far below the entropy of the whole text: compare it
with rows of the text. Words that do not occur in the text are the counterpart of impossible sequences.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from unmask.core.errors import UnmaskError
from unmask.models.text import Lexicon, NGramJudge, Text
from unmask.models.trained import Trunk
from unmask.models.trained.checkpoints import check_fits
from unmask.models.trained.objectives import Objective
from unmask.models.trained.validation import HeldOut


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
            unknown=_rates([self.lexicon.unknown(row) for row in self._documents(tokens)]),
        )

    def by_ngram(self, tokens: Tensor) -> Tensor:
        """(B): nats per character."""
        return _rates([self.ngram.nats(row) for row in self._documents(tokens)])

    def _documents(self, tokens: Tensor) -> Iterator[list[str]]:
        return (self.text.tokenizer.documents(row) for row in tokens.tolist())


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


def _rates(pairs: Sequence[tuple[float, int]]) -> Tensor:
    """(B): ratios of (amount, count); NaN if the count is 0."""
    amounts, counts = torch.tensor(pairs, dtype=torch.float64).T
    return torch.where(counts > 0, amounts / counts, torch.nan)
