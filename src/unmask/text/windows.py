"""A text as networks are trained on it: documents as one line of tokens, and windows of L tokens that are cut from it.

The n-th window of a training begins at floor(u (T - L + 1)) of its T tokens, u being the luck of (seed, n) alone: a
resumed run, processes that share a batch, and twins of two kinds see the same windows in the same order. Windows that
are held out stand side by side in a line of their own, of other documents.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from unmask.core.chance import Stream, uniform
from unmask.core.errors import UnmaskError, cut
from unmask.text.corpus import Corpus, read
from unmask.text.tokenizer import Tokenizer
from unmask.text.tokenizers import check, make


class Text:
    """A corpus in the symbols of a tokenizer. Of its law nothing is known but what it says itself."""

    end = None  # every window is full

    def __init__(self, corpus: Corpus, tokenizer: Tokenizer) -> None:
        self.corpus, self.tokenizer = corpus, tokenizer
        self.vocabulary = tokenizer.vocabulary

    @classmethod
    def of(cls, source: str | Path, tokenizer: str) -> Text:
        """The text of a file, a directory or a name, and a tokenizer that has seen its training documents alone."""
        check(tokenizer)
        corpus = read(source)
        return cls(corpus, make(tokenizer, corpus.training))

    @property
    def label(self) -> str:
        return f"{Path(self.corpus.source).name}, {self.tokenizer.name}"

    @cached_property
    def training(self) -> Tensor:
        """(T) int32: the documents that are trained on, a separator behind each."""
        return self._line(self.corpus.training)

    @cached_property
    def held_out(self) -> Tensor:
        return self._line(self.corpus.held_out)

    def _line(self, documents: Sequence[str]) -> Tensor:
        end = np.array([self.tokenizer.separator], dtype=np.int32)
        return torch.from_numpy(
            np.concatenate([part for one in documents for part in (self.tokenizer.encode(one), end)])
        )

    def check_length(self, length: int) -> None:
        """Is there a window so long on both sides?"""
        for line, what in ((self.training, "train on"), (self.held_out, "hold out")):
            if len(line) < length:
                said = f"{cut(self.corpus.source)} has {len(line)} tokens of {self.tokenizer.name} to {what}"
                raise UnmaskError(f"{said}, and a window {length}; take a longer text, or a smaller --length")

    def windows(self, first: int, count: int, length: int, seed: int) -> Tensor:
        """(count, L) int64: the examples first .. first + count - 1 of a training."""
        luck = uniform(seed, Stream.WINDOW, torch.arange(first, first + count), torch.zeros((), dtype=torch.int64))
        begins = (luck * (len(self.training) - length + 1)).long()
        return self.training[begins.unsqueeze(1) + torch.arange(length)].long()

    def tiles(self, count: int, length: int) -> Tensor:
        """At most `count` windows (rows, L) of what is held out that have no token in common, spread over it."""
        return tiles(self.held_out, count, length)

    def sizes(self, tokens: Tensor) -> Tensor:
        """(B): the tokens of each row that count."""
        return torch.full((len(tokens),), tokens.shape[1])

    @cached_property
    def per_token(self) -> dict[str, float]:
        """Characters and bytes of a token of what is held out, a separator being one of each."""
        documents, tokens = self.corpus.held_out, len(self.held_out)
        ends = len(documents)
        characters, size = sum(map(len, documents)), sum(len(one.encode()) for one in documents)
        return {"character": (characters + ends) / tokens, "byte": (size + ends) / tokens}

    def bits(self, nats: float) -> dict[str, float]:
        """Nats a token as bits a character and a byte: what tokenizers are compared by."""
        return {f"bits_per_{unit}": nats / math.log(2) / each for unit, each in self.per_token.items()}

    def facts(self) -> dict[str, Any]:
        """What a training keeps of it: where it is read again, and what it must then be."""
        about = {"source": self.corpus.source, "digest": self.corpus.digest}
        return about | {"tokenizer": self.tokenizer.name, "tokenizer_digest": self.tokenizer.digest}


def tiles(line: Tensor, count: int, length: int) -> Tensor:
    """At most `count` windows (rows, L) int64 of a line of tokens that have none in common, evenly spread."""
    fitting = len(line) // length
    rows = min(count, fitting)
    begins = torch.arange(rows) * (len(line) - length) // max(rows - 1, 1)
    return line[begins.unsqueeze(1) + torch.arange(length)].long()
