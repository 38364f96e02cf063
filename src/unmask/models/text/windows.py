"""Training data from a text: documents as one line of tokens, and windows of L tokens cut from it.

The n-th window of a training begins at floor(u (T - L + 1)) of its T tokens; u is a uniform number that depends only
on (seed, n). So a resumed run, parallel processes, and an MDM and AR pair see the same windows in the same order.
Held-out windows do not overlap, and come from other documents.
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
from unmask.models.text.corpus import Corpus, read
from unmask.models.text.tokenizer import Tokenizer
from unmask.models.text.tokenizers import check, make


class Text:
    """A corpus in the symbols of a tokenizer; its true distribution is unknown."""

    end = None  # every window is full

    def __init__(self, corpus: Corpus, tokenizer: Tokenizer) -> None:
        self.corpus, self.tokenizer = corpus, tokenizer
        self.vocabulary = tokenizer.vocabulary

    @classmethod
    def of(cls, source: str | Path, tokenizer: str) -> Text:
        """Return the text of a file, directory or name, with a tokenizer learned from its training documents only."""
        check(tokenizer)
        corpus = read(source)
        return cls(corpus, make(tokenizer, corpus.training))

    @property
    def label(self) -> str:
        return f"{Path(self.corpus.source).name}, {self.tokenizer.name}"

    @cached_property
    def training(self) -> Tensor:
        """(T) int32: the training documents, with a separator after each."""
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
        """Raise an error if training or held-out documents are shorter than a window."""
        for line, what in ((self.training, "train on"), (self.held_out, "hold out")):
            if len(line) < length:
                has = f"{cut(self.corpus.source)} has {len(line)} {self.tokenizer.name} tokens to {what}"
                raise UnmaskError(f"{has}, less than a window of {length}. Use a longer text or a smaller --length")

    def windows(self, first: int, count: int, length: int, seed: int) -> Tensor:
        """Return (count, L) int64: the examples first .. first + count - 1 of a training."""
        rng = uniform(seed, Stream.WINDOW, torch.arange(first, first + count), torch.zeros((), dtype=torch.int64))
        begins = (rng * (len(self.training) - length + 1)).long()
        return self.training[begins.unsqueeze(1) + torch.arange(length)].long()

    def tiles(self, count: int, length: int) -> Tensor:
        """Return at most `count` held-out windows (rows, L) without common tokens, evenly spread."""
        return tiles(self.held_out, count, length)

    def sizes(self, tokens: Tensor) -> Tensor:
        """Return (B): the number of tokens of each sequence that count."""
        return torch.full((len(tokens),), tokens.shape[1])

    @cached_property
    def per_token(self) -> dict[str, float]:
        """Characters and bytes per token of the held-out documents; a separator counts as one."""
        documents, tokens = self.corpus.held_out, len(self.held_out)
        ends = len(documents)
        characters, size = sum(map(len, documents)), sum(len(one.encode()) for one in documents)
        return {"character": (characters + ends) / tokens, "byte": (size + ends) / tokens}

    def bits(self, nats: float) -> dict[str, float]:
        """Convert nats per token to bits per character and per byte, which are comparable across tokenizers."""
        return {f"bits_per_{unit}": nats / math.log(2) / each for unit, each in self.per_token.items()}

    def facts(self) -> dict[str, Any]:
        """Return the source and digests that a training saves, to read the same text again."""
        about = {"source": self.corpus.source, "digest": self.corpus.digest}
        return about | {"tokenizer": self.tokenizer.name, "tokenizer_digest": self.tokenizer.digest}


def tiles(line: Tensor, count: int, length: int) -> Tensor:
    """Return at most `count` windows (rows, L) int64 of a line without common tokens, evenly spread."""
    fitting = len(line) // length
    rows = min(count, fitting)
    begins = torch.arange(rows) * (len(line) - length) // max(rows - 1, 1)
    return line[begins.unsqueeze(1) + torch.arange(length)].long()
