"""What is said of texts that networks have written: each judge says nats, a row.

    twin      -log p(x) by an AR network of the same symbols: nats of the row's L tokens
    ngram     -log p(x) by an n-gram of what is held out, which has seen nothing of any network (text/ngrams.py)
    smollm2   -log p(x) by a language model that knows English (diagnosis/judge.py), where it is installed

Generative perplexity, exp E[-log p(x) / |x|], is low for whoever repeats himself; so the entropy of the tokens of a row
stands beside it, H(f) of their frequencies f in the row. It is that of few tokens, far below the entropy of the text's
own frequencies: compare it with that of rows of the text. Words that the text does not have are to it what impossible
sequences are to a language.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from unmask.core.errors import UnmaskError
from unmask.networks import Trunk
from unmask.networks.model.checkpoints import check_fits
from unmask.networks.training.validation import HeldOut
from unmask.text import Lexicon, NGramJudge, Text


@dataclass(frozen=True)
class Written:
    """What is known of B rows, (B) float64 each; NaN where a row has nothing to say."""

    entropy: Tensor  # nats a token: H of the frequencies of its own tokens
    twin: Tensor  # nats a token, by the AR network
    ngram: Tensor  # nats a character, by the n-gram of what is held out
    unknown: Tensor  # the share of its words that the text does not have

    @property
    def wrong(self) -> Tensor:
        """Bool (B): whether it has such a word."""
        return self.unknown > 0


@dataclass(frozen=True)
class Judges:
    """Those of a text; the twin is an AR network that has learned it. What they have read of it is read once."""

    text: Text
    twin: Trunk

    def __post_init__(self) -> None:
        if not self.twin.shape.causal:
            raise UnmaskError("the network that judges is an MDM; give an AR network, which says how likely a text is")
        check_fits(self.twin.shape, "the network that judges", self.text.vocabulary)

    @cached_property
    def ngram(self) -> NGramJudge:
        return NGramJudge(self.text.corpus.held_out)

    @cached_property
    def lexicon(self) -> Lexicon:
        """Of all of the text, so that no row of it has an unknown word."""
        return Lexicon(self.text.corpus.documents)

    def __call__(self, tokens: Tensor) -> Written:
        """Of tokens (B, L)."""
        check_fits(self.twin.shape, "the network that judges", length=tokens.shape[1])
        return Written(
            entropy=token_entropy(tokens),
            twin=HeldOut(tokens, 0, causal=True).nats(self.twin) / tokens.shape[1],
            ngram=self.by_ngram(tokens),
            unknown=_rates([self.lexicon.unknown(row) for row in self._documents(tokens)]),
        )

    def by_ngram(self, tokens: Tensor) -> Tensor:
        """(B) nats a character."""
        return _rates([self.ngram.nats(row) for row in self._documents(tokens)])

    def _documents(self, tokens: Tensor) -> Iterator[list[str]]:
        return (self.text.tokenizer.documents(row) for row in tokens.tolist())


def token_entropy(tokens: Tensor) -> Tensor:
    """(B) float64: -sum_v f_v log f_v, f_v being the share of symbol v among the tokens of a row of (B, L)."""
    ordered = tokens.sort(1).values
    begins = torch.ones_like(ordered, dtype=torch.bool)
    begins[:, 1:] = ordered[:, 1:] != ordered[:, :-1]
    run = begins.cumsum(1) - 1  # which of the row's different symbols
    share = torch.zeros(tokens.shape, dtype=torch.float64).scatter_add_(
        1, run, torch.full(tokens.shape, 1 / tokens.shape[1], dtype=torch.float64)
    )
    return torch.special.entr(share).sum(1)


def _rates(found: Sequence[tuple[float, int]]) -> Tensor:
    """(B): a number for each of so many; NaN for each of none."""
    amounts, counts = torch.tensor(found, dtype=torch.float64).T
    return torch.where(counts > 0, amounts / counts, torch.nan)
